"""Secrets are never stored; a run that is taken up again gets them anew, or waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from msgspec import Struct
from pydantic import BaseModel, Field, SecretStr, field_serializer
from typing_extensions import TypedDict

from holdfast import CheckpointConfig, Flow, FlowState, Pending, Runtime, and_, failed, listen, persist, start
from holdfast.checkpoints import JsonProvider
from holdfast.deltas import sensitive
from holdfast.errors import FlowInputError, StateConflictError
from holdfast.events import FlowStartedEvent
from holdfast.human import LaterProvider
from holdfast.stores import MemoryPersistence, SqliteStore

SECRETS = ("sk-typed", "sk-marked", "sk-extra", "sk-nested", "sk-listed", "sk-result")


class Account(BaseModel):
    name: str
    key: SecretStr


class Keys(FlowState):
    api_key: SecretStr = SecretStr("sk-typed")
    token: Annotated[str, sensitive] = "sk-marked"
    extra: str = Field("sk-extra", json_schema_extra={"sensitive": True})
    unset: Annotated[str | None, sensitive] = None
    accounts: list[Account] = []  # noqa: RUF012 - pydantic copies it
    public: str = "public"


class Uses(Flow[Keys]):
    broken = True

    @start()
    def prepare(self) -> SecretStr:
        self.state.accounts = [
            Account(name="a", key=SecretStr("sk-nested")),
            Account(name="b", key=SecretStr("sk-listed")),
        ]
        self.state.public = "changed"
        return SecretStr("sk-result")

    @listen(prepare)
    def use(self) -> list[str]:
        if self.broken:
            self.state.public = "unfinished"
            raise ConnectionError
        state = self.state
        keys = [account.key.get_secret_value() for account in state.accounts]
        return [state.api_key.get_secret_value(), state.token, state.extra, *keys, state.public]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "journal.db") as store:
        yield store


def broken_run(config: CheckpointConfig, runtime: Runtime, **inputs: Any) -> Uses:
    flow = Uses(checkpoint=config, runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff(inputs)
    return flow


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_s1_10_no_secret_reaches_storage_by_any_way(tmp_path: Path, runtime: Runtime) -> None:
    told: list[FlowStartedEvent] = []
    runtime.event_bus.on(FlowStartedEvent)(lambda source, event: told.append(event))
    with SqliteStore(tmp_path / "journal.db") as store:
        broken_run(CheckpointConfig(store), runtime, api_key="sk-input-1", token="sk-input-2", public="sent")
    broken_run(CheckpointConfig(JsonProvider(tmp_path / "files")), runtime)
    stored = bytes_in(tmp_path)
    assert b"changed" in stored
    for secret in (*SECRETS, "sk-input-1", "sk-input-2"):
        assert secret.encode() not in stored
    assert told[0].inputs == {"api_key": "**********", "token": "**********", "public": "sent"}


def test_s1_10_secrets_come_back_from_the_environment(
    store: SqliteStore, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_run(CheckpointConfig(store), runtime)
    [run] = asyncio.run(store.runs())
    names = ("API_KEY", "TOKEN", "EXTRA", "ACCOUNTS_0_KEY", "ACCOUNTS_1_KEY")
    for number, name in enumerate(names):
        monkeypatch.setenv(f"HOLDFAST_SECRET_{name}", f"new-{number}")
    flow = Uses(checkpoint=CheckpointConfig(store), runtime=runtime)
    flow.broken = False
    expected = ["new-0", "new-1", "new-2", "new-3", "new-4", "changed"]
    assert flow.kickoff(from_checkpoint=run.root_run_id) == expected


def test_s1_10_secrets_come_back_from_a_provider(store: SqliteStore, runtime: Runtime) -> None:
    broken_run(CheckpointConfig(store), runtime)
    [run] = asyncio.run(store.runs())
    flow = Uses(checkpoint=CheckpointConfig(store, secrets=lambda path: f"<{path}>"), runtime=runtime)
    flow.broken = False
    paths = ["api_key", "token", "extra", "accounts.0.key", "accounts.1.key"]
    assert flow.kickoff(from_checkpoint=run.root_run_id) == [*(f"<{path}>" for path in paths), "changed"]


def test_s1_10_a_run_without_its_secrets_waits_for_them(store: SqliteStore, runtime: Runtime) -> None:
    known = {"token": "t", "extra": "e", "accounts.0.key": "0", "accounts.1.key": "1"}
    config = CheckpointConfig(store, secrets=known.get)
    broken_run(config, runtime)
    [run] = asyncio.run(store.runs())
    flow = Uses(checkpoint=config, runtime=runtime)
    flow.broken = False
    pending = flow.kickoff(from_checkpoint=run.root_run_id)
    assert isinstance(pending, Pending)
    [request] = pending.requests
    assert (request.kind, "HOLDFAST_SECRET_API_KEY" in request.message) == ("secret", True)
    assert asyncio.run(store.runs())[0].status == "waiting"
    assert flow.resume("sk-typed") == ["sk-typed", "t", "e", "0", "1", "changed"]


def test_what_a_failed_step_wrote_is_undone_and_secrets_stay(store: SqliteStore, runtime: Runtime) -> None:
    flow = broken_run(CheckpointConfig(store), runtime)
    assert flow.state.public == "changed"
    assert flow.state.token == "sk-marked"
    assert flow.state.accounts[1].key.get_secret_value() == "sk-listed"


@dataclass
class Plain:
    id: str = ""
    token: Annotated[str, sensitive] = "sk-marked"
    other: str = field(default="sk-extra", metadata={"sensitive": True})


@pytest.mark.parametrize("kind", [Plain, {"key": SecretStr("sk-typed")}])
def test_dataclasses_and_dicts_keep_their_secrets_too(kind: Any, tmp_path: Path, runtime: Runtime) -> None:
    class One(Flow[Any]):
        initial_state = kind

        @start()
        def go(self) -> str:
            return "done"

    with SqliteStore(tmp_path / "journal.db") as store:
        assert One(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff() == "done"
    for secret in SECRETS:
        assert secret.encode() not in bytes_in(tmp_path)


class Shown(BaseModel):
    """Has a form of its own, so that its fields alone do not tell how it is written."""

    key: SecretStr = SecretStr("sk-typed")
    token: Annotated[str, sensitive] = "sk-marked"
    public: str = "public"

    @field_serializer("public")
    def shout(self, public: str) -> str:
        return public.upper()


class Within(FlowState):
    maybe: Annotated[str, sensitive] | None = "sk-marked"
    several: list[Annotated[str, sensitive]] = ["sk-listed"]  # noqa: RUF012 - pydantic copies it
    none_yet: list[Annotated[str, sensitive]] = []  # noqa: RUF012
    typed: list[Record] = [{"token": "sk-nested"}]  # noqa: RUF012
    shown: Shown = Shown()


class Record(TypedDict):
    token: Annotated[str, sensitive]


class Packed(Struct):
    id: str = ""
    token: Annotated[str, sensitive] = "sk-marked"


@dataclass
class Unresolved:
    id: str = ""
    token: Annotated[str, sensitive] = "sk-marked"
    maybe: Annotated[str, sensitive] | None = "sk-extra"
    other: OnlySeenByATypeChecker | None = None  # type: ignore[name-defined] # noqa: F821
    whole: Annotated[OnlySeenByATypeChecker, sensitive] = "sk-nested"  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize("kind", [Within, {"within": Within()}, Packed, {"packed": Packed()}, Unresolved])
def test_s1_10_a_mark_hides_its_field_wherever_it_stands(kind: Any, tmp_path: Path, runtime: Runtime) -> None:
    """Marks were seen only at the top of an annotation, not in a struct, nor in a model that decides how it is written; those of a
    dataclass not at all if one of its annotations could not be resolved."""

    class One(Flow[Any]):
        initial_state = kind

        @start()
        def go(self) -> Any:
            return self.state if not isinstance(self.state, dict) else dict(self.state)

    with SqliteStore(tmp_path / "journal.db") as store:
        One(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    for secret in SECRETS:
        assert secret.encode() not in bytes_in(tmp_path)


def test_a_secret_in_a_model_with_a_form_of_its_own_is_put_back(store: SqliteStore, runtime: Runtime) -> None:
    """It was stored as asterisks, and came back as these."""

    class One(Flow[Within]):
        broken = True

        @start()
        def go(self) -> None:
            pass

        @listen(go)
        def use(self) -> list[Any]:
            if self.broken:
                raise ConnectionError
            shown = self.state.shown
            return [shown.key.get_secret_value(), shown.token, self.state.maybe, self.state.several]

    known = {"shown.key": "a", "shown.token": "b", "maybe": "c", "several": ["d"], "typed": []}
    flow = One(checkpoint=CheckpointConfig(store, secrets=known.get), runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff()
    flow.broken = False
    assert flow.kickoff(from_checkpoint=str(flow.run_id)) == ["a", "b", "c", ["d"]]


class Pin(FlowState):
    pin: Annotated[int, sensitive] = 4711
    maybe: Annotated[int | None, sensitive] = None
    public: str = ""


class Opens(Flow[Pin]):
    broken = True

    @start()
    def prepare(self) -> None:
        self.state.maybe = 5

    @listen(prepare)
    def use(self) -> tuple[int, int | None]:
        if self.broken:
            raise ConnectionError
        return self.state.pin, self.state.maybe


def test_a_secret_that_is_no_text_can_be_looked_at_forked_and_put_back(store: SqliteStore, runtime: Runtime) -> None:
    """Asterisks do not fit a number, so the flow could not even be made."""
    config = CheckpointConfig(store, secrets={"pin": "42", "maybe": "43"}.get)
    with pytest.raises(ConnectionError):
        Opens(checkpoint=config, runtime=runtime).kickoff({"pin": 8_765_432})
    [run] = asyncio.run(store.runs())
    flow = Opens.from_checkpoint(run.root_run_id, checkpoint=config, runtime=runtime)
    assert (flow.state.pin, flow.state.maybe) == (4711, None)
    flow = Opens.fork(run.root_run_id, state={"public": "x"}, checkpoint=config, runtime=runtime)
    flow.broken = False
    assert flow.kickoff() == (42, 43)


def test_an_error_about_a_value_that_does_not_fit_does_not_tell_it(tmp_path: Path, runtime: Runtime) -> None:
    """The error is written down, and quoted what it was about: secrets."""
    with SqliteStore(tmp_path / "journal.db") as store:
        config = CheckpointConfig(store, secrets=lambda path: "sk-of-a-vault")
        with pytest.raises(FlowInputError, match="pin: Input should be a valid integer") as told:
            Opens(checkpoint=config, runtime=runtime).kickoff({"pin": "sk-of-a-user"})
        assert "sk-" not in str(told.value)
        with pytest.raises(ConnectionError):
            Opens(checkpoint=config, runtime=runtime).kickoff()
        run_id = asyncio.run(store.runs())[0].root_run_id
        flow = Opens(checkpoint=config, runtime=runtime)
        with pytest.raises(FlowInputError, match="does not fit Pin any more: pin: Input should be a valid integer"):
            flow.kickoff(from_checkpoint=run_id)
    assert b"sk-of" not in bytes_in(tmp_path)


def test_several_missing_secrets_and_an_answer_are_brought_one_after_the_other(
    store: SqliteStore, runtime: Runtime
) -> None:
    """Each `resume` forgot what the one before had brought, so a run that lacked two could not be gone on with."""

    class Two(Flow[dict[str, Any]]):
        @start()
        def prepare(self) -> None:
            self.state["keys"] = {"a.b": SecretStr("sk-typed")}
            self.state["pair"] = (SecretStr("sk-nested"), "public")

        @listen(prepare)
        def use(self) -> list[Any]:
            answer = self.ask("Go on?")
            self.state["used"] = True
            return [answer, self.state["keys"]["a.b"], self.state["pair"]]

    config = CheckpointConfig(store, secrets=lambda path: None)
    flow = Two(checkpoint=config, runtime=runtime, human=LaterProvider())
    assert isinstance(flow.kickoff(), Pending)
    later = Two.from_pending(str(flow.run_id), checkpoint=config, runtime=runtime, human=LaterProvider())
    question, first, second = (request.id for request in later.pending)
    assert isinstance(later.resume("yes", request_id=question), Pending)
    assert isinstance(later.resume("one", request_id=first), Pending)
    answer, key, pair = later.resume("two", request_id=second)
    assert (answer, key.get_secret_value(), pair[0].get_secret_value(), pair[1]) == ("yes", "one", "two", "public")


def test_missing_secrets_are_pending_in_another_process_and_may_come_as_inputs(
    store: SqliteStore, runtime: Runtime
) -> None:
    known = {"token": "t", "extra": "e", "accounts.0.key": "0", "accounts.1.key": "1"}
    config = CheckpointConfig(store, secrets=known.get)
    broken_run(config, runtime)
    [run] = asyncio.run(store.runs())
    later = Uses.from_pending(run.root_run_id, checkpoint=config, runtime=runtime)
    assert [request.kind for request in later.pending] == ["secret"]
    with pytest.raises(ConnectionError):
        later.resume("sk-new")
    flow = Uses(checkpoint=config, runtime=runtime)
    flow.broken = False
    result = flow.kickoff({"api_key": "sk-input"}, from_checkpoint=run.root_run_id)
    assert result == ["sk-input", "t", "e", "0", "1", "changed"]


def test_a_persisted_state_gets_its_secrets_from_a_fresh_one_or_the_environment(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = MemoryPersistence()

    @persist(kept)
    class Saves(Flow[Keys]):
        @start()
        def go(self) -> list[str]:
            return [self.state.api_key.get_secret_value(), self.state.token, self.state.public]

    first = Saves(runtime=runtime)
    first.kickoff({"public": "saved"})
    assert "sk-typed" not in repr(kept.load_state(first.state.id))
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "from-outside")
    assert Saves(runtime=runtime).kickoff({"id": first.state.id}) == ["sk-typed", "from-outside", "saved"]


class Renewed(FlowState):
    key: SecretStr = SecretStr("sk-typed")
    token: Annotated[str, sensitive] = "sk-marked"
    several: Annotated[list[str], sensitive] = ["sk-listed"]  # noqa: RUF012 - pydantic copies it
    accounts: list[Account] = [Account(name="a", key=SecretStr("sk-nested"))]  # noqa: RUF012
    shown: Shown = Shown()
    told: list[str] = []  # noqa: RUF012

    def secrets(self) -> list[str]:
        keys = [account.key.get_secret_value() for account in self.accounts]
        shown = [self.shown.key.get_secret_value(), self.shown.token]
        return [self.key.get_secret_value(), self.token, *self.several, *keys, *shown]


class Renews(Flow[Renewed]):
    @start()
    def renew(self) -> None:
        state = self.state
        state.key, state.token = SecretStr("new"), "new"
        state.several.append("new")
        state.accounts.insert(0, Account(name="new", key=SecretStr("new")))
        state.shown.token = "new"
        raise ConnectionError

    @listen(failed(renew))
    def instead(self) -> list[str]:
        return self.state.secrets()


def test_secrets_that_a_failed_step_wrote_are_undone(store: SqliteStore, runtime: Runtime) -> None:
    """The state was built anew with the secrets that the step had left in it, whatever they were before."""
    flow = Renews(checkpoint=CheckpointConfig(store), runtime=runtime)
    assert flow.kickoff() == Renewed().secrets()


def test_a_marked_secret_in_a_dict_is_not_stored_once_a_failed_step_was_undone(
    tmp_path: Path, runtime: Runtime
) -> None:
    """Models in a dict come back as dicts, and nothing said any more that a field was to be hidden."""

    class Undone(Flow[dict[str, Any]]):
        initial_state = {"packed": Packed(token="sk-marked"), "n": 0}  # noqa: RUF012

        @start()
        def spoil(self) -> None:
            self.state["n"] = 1
            raise ConnectionError

        @listen(failed(spoil))
        def instead(self) -> str:
            self.state["kept"] = self.state["packed"]
            return "done"

    with SqliteStore(tmp_path / "journal.db") as store:
        assert Undone(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff() == "done"
    assert b"sk-marked" not in bytes_in(tmp_path)


class Clashes(Flow[Keys]):
    """Two methods write different secrets at the same time."""

    ran: ClassVar[list[str]] = []

    @start()
    async def one(self) -> None:
        self.ran.append("one")
        self.state.token = "sk-one"

    @start()
    async def two(self) -> None:
        self.ran.append("two")
        self.state.token = "sk-two"

    @listen(and_(one, two))
    def end(self) -> SecretStr:
        return SecretStr(self.state.token)


def test_a_step_whose_changes_held_a_secret_runs_again_after_a_conflict(tmp_path: Path, runtime: Runtime) -> None:
    """What it changed was kept to be merged later, with a placeholder in the place of the secret."""
    Clashes.ran.clear()
    with SqliteStore(tmp_path / "journal.db") as store:
        config = CheckpointConfig(store, secrets={"api_key": "sk-typed", "token": "sk-env", "extra": "e"}.get)
        with pytest.raises(StateConflictError, match="token"):
            Clashes(checkpoint=config, runtime=runtime).kickoff()
        [run] = asyncio.run(store.runs())
        resumed = Clashes(checkpoint=config, runtime=runtime)
        result = resumed.kickoff(from_checkpoint=run.root_run_id)
    one, two, again = Clashes.ran
    assert ({one, two}, result.get_secret_value()) == ({"one", "two"}, f"sk-{again}")
    assert b"sk-one" not in bytes_in(tmp_path)
    assert b"sk-two" not in bytes_in(tmp_path)
