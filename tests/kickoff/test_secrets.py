"""Secrets of a state that come in, or come back, in other ways than as a field of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from holdfast import CheckpointConfig, Flow, FlowState, Runtime, listen, persist, sensitive, start
from holdfast.errors import FlowInputError
from holdfast.events import FlowStartedEvent
from holdfast.stores import MemoryPersistence, SqliteStore


class Model(BaseModel):
    name: str = ""
    key: SecretStr = SecretStr("")


class Typed(FlowState):
    llm: Model = Model()
    token: Annotated[str, sensitive] = ""
    called: SecretStr = Field(SecretStr(""), alias="calledOtherwise")
    more: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it


class Calls(Flow[Any]):
    online = False

    @start()
    def prepare(self) -> None:
        """So that there is something to go on from."""

    @listen(prepare)
    def call(self) -> Any:
        if not self.online:
            raise ConnectionError
        return self.state

    @listen(call)
    def note(self) -> Any:
        state = self.state if isinstance(self.state, dict) else self.state.more
        state["noted"] = "noted"
        return self.state


class DictCalls(Calls):
    initial_state = {"name": "", "keys": [SecretStr("sk-old")], "llm": {"key": SecretStr("sk-old")}}  # noqa: RUF012


class TypedCalls(Calls):
    initial_state = Typed


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "runs.db") as store:
        yield store


def stored_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def interrupted(flow: Calls, inputs: dict[str, Any]) -> str:
    with pytest.raises(ConnectionError):
        flow.kickoff(inputs)
    flow.online = True
    return str(flow.run_id)


def test_s1_10_a_secret_deep_inside_an_input_is_not_stored_and_not_told(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    """The event that tells of the beginning had inputs word for word, unless the whole input was a secret."""
    told: list[FlowStartedEvent] = []
    runtime.event_bus.on(FlowStartedEvent)(lambda source, event: told.append(event))
    inputs = {"llm": {"name": "large", "key": "sk-deep"}, "calledOtherwise": "sk-alias"}
    interrupted(TypedCalls(checkpoint=CheckpointConfig(store), runtime=runtime), inputs)
    assert told[0].inputs == {"llm": {"name": "large", "key": "**********"}, "calledOtherwise": "**********"}
    assert b"large" in stored_in(tmp_path)
    assert b"sk-deep" not in stored_in(tmp_path)
    assert b"sk-alias" not in stored_in(tmp_path)


def test_what_cannot_be_stored_is_told_as_it_is_by_a_flow_that_stores_nothing(runtime: Runtime) -> None:
    told: list[FlowStartedEvent] = []
    runtime.event_bus.on(FlowStartedEvent)(lambda source, event: told.append(event))
    flow = DictCalls(runtime=runtime)
    handle = object()
    interrupted(flow, {"handle": handle})
    assert told[0].inputs == {"handle": handle}


def by_inputs(flow: Calls, run_id: str) -> Any:
    return flow.kickoff({"llm.key": "sk-new-key", "keys.0": SecretStr("sk-new-first")}, from_checkpoint=run_id)


def by_environment(flow: Calls, run_id: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_SECRET_LLM_KEY", "sk-new-key")
        patch.setenv("HOLDFAST_SECRET_KEYS_0", "sk-new-first")
        return flow.kickoff(from_checkpoint=run_id)


@pytest.mark.parametrize("bring", [by_inputs, by_environment])
def test_s1_10_a_secret_that_came_back_into_a_dict_is_one_and_is_not_stored(
    store: SqliteStore, tmp_path: Path, runtime: Runtime, bring: Any
) -> None:
    """It came back as text like any other, which the next step's change wrote down."""
    flow = DictCalls(checkpoint=CheckpointConfig(store), runtime=runtime)
    state = bring(flow, interrupted(flow, {"name": "large"}))
    assert (state["llm"], state["keys"]) == ({"key": SecretStr("sk-new-key")}, [SecretStr("sk-new-first")])
    assert "llm.key" not in state
    for secret in (b"sk-old", b"sk-new-key", b"sk-new-first"):
        assert secret not in stored_in(tmp_path)


def test_s1_10_so_it_is_in_a_dict_of_a_typed_state(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> None:
    known = {"token": "t", "called": "c", "llm.key": "k", "more.key": "sk-new"}
    flow = TypedCalls(checkpoint=CheckpointConfig(store, secrets=known.get), runtime=runtime)
    state = flow.kickoff(from_checkpoint=interrupted(flow, {"more": {"key": SecretStr("sk-old")}}))
    assert state.more == {"key": SecretStr("sk-new"), "noted": "noted"}
    assert (state.token, state.llm.key, state.called) == ("t", SecretStr("k"), SecretStr("c"))
    assert b"sk-" not in stored_in(tmp_path)


def test_s1_10_a_secret_may_come_with_the_state_of_a_fork(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> None:
    """It was asked for although it was given, and then stored."""
    config = CheckpointConfig(store, secrets={"llm.key": "k", "keys.0": "k"}.get)
    run_id = interrupted(DictCalls(checkpoint=config, runtime=runtime), {"token": SecretStr("sk-old")})
    branch = DictCalls.fork(run_id, branch="b", state={"token": "sk-forked"}, checkpoint=config, runtime=runtime)
    branch.online = True
    assert branch.kickoff()["token"] == SecretStr("sk-forked")
    assert b"sk-forked" not in stored_in(tmp_path)


def test_s1_10_a_persisted_dict_gets_its_secrets_back_as_secrets(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = MemoryPersistence()

    @persist(kept)
    class Keeps(Flow[Any]):
        @start()
        def go(self) -> Any:
            return self.state.get("key")

    Keeps(runtime=runtime).kickoff({"id": "one", "key": SecretStr("sk-old")})
    monkeypatch.setenv("HOLDFAST_SECRET_KEY", "sk-new")
    assert Keeps(runtime=runtime).kickoff({"id": "one"}) == SecretStr("sk-new")
    assert "sk-new" not in repr(kept.load_state("one"))


def test_a_misspelled_field_of_a_fork_is_refused(store: SqliteStore, runtime: Runtime) -> None:
    """The branch went on with the state as it was, and nobody heard of it."""
    config = CheckpointConfig(store, secrets=lambda path: "x")
    flow = TypedCalls(checkpoint=config, runtime=runtime)
    run_id = interrupted(flow, {})
    with pytest.raises(FlowInputError, match="has no field 'tokn'; did you mean 'token'"):
        TypedCalls.fork(run_id, branch="b", state={"tokn": "t"}, checkpoint=config, runtime=runtime)
