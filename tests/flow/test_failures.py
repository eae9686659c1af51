"""Failures that something listens to do not fail the flow."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import CheckpointConfig, Flow, Runtime, StepFailure, and_, failed, listen, or_, start
from holdfast.errors import FlowDefinitionError, StepFailedError
from holdfast.stores import SqliteStore


class Fragile(Flow[dict[str, Any]]):
    breaks: tuple[str, ...] = ("fetch",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[str] = []

    def _do(self, name: str, result: str) -> str:
        self.calls.append(name)
        if name in self.breaks:
            raise ConnectionError(f"{name} is down")
        return result

    @start()
    def fetch(self) -> str:
        return self._do("fetch", "fresh")

    @listen(failed(fetch))
    def fall_back(self, failure: StepFailure) -> str:
        return self._do("fall_back", f"cached, since {failure.step} met {failure.error_type}: {failure.error}")

    @listen(or_(fetch, fall_back))
    def use(self, given: str) -> str:
        return self._do("use", given)


CACHED = "cached, since fetch met ConnectionError: fetch is down"


def test_a_listened_failure_takes_its_own_way(runtime: Runtime) -> None:
    flow = Fragile(runtime=runtime)
    assert flow.kickoff() == CACHED
    assert flow.calls == ["fetch", "fall_back", "use"]
    flow.breaks = ()
    assert flow.kickoff() == "fresh"


async def test_the_same_on_a_loop(runtime: Runtime) -> None:
    assert await Fragile(runtime=runtime).akickoff() == CACHED


def test_a_failure_that_nothing_listens_to_fails_the_flow(runtime: Runtime) -> None:
    flow = Fragile(runtime=runtime)
    flow.breaks = ("fetch", "fall_back")
    with pytest.raises(ConnectionError, match="fall_back"):
        flow.kickoff()


def test_after_a_crash_the_failure_is_still_known(tmp_path: Path, runtime: Runtime) -> None:
    with SqliteStore(tmp_path / "journal.db") as store:
        flow = Fragile(checkpoint=CheckpointConfig(store), runtime=runtime)
        flow.breaks = ("fetch", "fall_back")
        with pytest.raises(ConnectionError):
            flow.kickoff()
        [run] = asyncio.run(store.runs())
        flow.breaks, flow.calls = (), []
        assert flow.kickoff(from_checkpoint=run.root_run_id) == CACHED
        assert flow.calls == ["fall_back", "use"]


async def test_siblings_of_a_listened_failure_go_on(runtime: Runtime) -> None:
    class Two(Flow[dict[str, Any]]):
        @start()
        async def one(self) -> str:
            raise ConnectionError

        @start()
        async def two(self) -> str:
            await asyncio.sleep(0)
            return "two"

        @listen(and_(failed("one"), two))
        def both(self) -> str:
            return "handled"

    assert await Two(runtime=runtime).akickoff() == "handled"


def test_a_failure_of_nothing_is_refused() -> None:
    class Wrong(Flow[dict[str, Any]]):
        @start()
        def go(self) -> None: ...

        @listen(failed("gone"))
        def never(self) -> None: ...

    with pytest.raises(FlowDefinitionError, match="did you mean 'go'"):
        Wrong.graph()
    with pytest.raises(FlowDefinitionError, match="wants a method"):
        failed(3)  # type: ignore[arg-type]


def test_the_picture_shows_the_way_of_a_failure() -> None:
    assert '|"failed"|' in Fragile.to_mermaid()


class Strays(Flow[dict[str, Any]]):
    """Both methods raise CancelledError unless they are told not to; nobody cancels anything."""

    strays: tuple[str, ...] = ()

    @start()
    def blocking(self) -> str:
        if "blocking" in self.strays:
            raise asyncio.CancelledError
        return "blocking"

    @listen(blocking)
    async def awaited(self) -> str:
        if "awaited" in self.strays:
            raise asyncio.CancelledError
        return "awaited"


@pytest.mark.parametrize("method", ["blocking", "awaited"])
@pytest.mark.parametrize("driver", ["loop", "thread"])
def test_a_method_that_raises_cancelled_error_by_itself_fails_the_run(
    method: str, driver: str, tmp_path: Path, runtime: Runtime
) -> None:
    """A run whose lone method did so was left as running in its store, and nobody was ever told why."""
    with SqliteStore(tmp_path / "journal.db") as store:
        flow = Strays(checkpoint=CheckpointConfig(store), runtime=runtime)
        flow.strays = (method,)
        with pytest.raises(StepFailedError, match=f"step {method} raised CancelledError, though nobody cancelled it"):
            flow.kickoff() if driver == "thread" else asyncio.run(flow.akickoff())
        [run] = asyncio.run(store.runs())
        assert run.status == "failed"
        again = Strays(checkpoint=CheckpointConfig(store), runtime=runtime)
        assert again.kickoff(from_checkpoint=run.root_run_id) == "awaited"


async def test_a_run_whose_task_is_cancelled_from_outside_does_not_fail(tmp_path: Path, runtime: Runtime) -> None:
    began = asyncio.Event()

    class Waits(Flow[dict[str, Any]]):
        @start()
        async def go(self) -> None:
            began.set()
            await asyncio.Event().wait()

    with SqliteStore(tmp_path / "journal.db") as store:
        task = asyncio.create_task(Waits(checkpoint=CheckpointConfig(store), runtime=runtime).akickoff())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        [run] = await store.runs()
        assert run.status == "running"
