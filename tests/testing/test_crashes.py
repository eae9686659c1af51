"""Crash points: a store that strikes where it is told to, and is a store like any other until then."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, cast

import pytest
from tests.runs.support import run_script

from holdfast import CheckpointConfig, Flow, Runtime, listen, start
from holdfast.errors import RunUnrecordedError, StoreUnavailableError
from holdfast.ports import JournalStore
from holdfast.stores import MemoryStore
from holdfast.testing import CrashingStore, CrashPoint, refuse_write
from holdfast.testing._journal_base import NOW, SECOND, make_info, written
from holdfast.testing.journal_conformance import JournalStoreConformance


class TestCrashingStore(JournalStoreConformance):
    def make_store(self) -> JournalStore:
        return cast(JournalStore, CrashingStore(MemoryStore()))


@pytest.mark.parametrize(("moment", "stored"), [("before", 0), ("after", 2)])
async def test_a_refused_write_is_stored_if_the_point_comes_after_it(
    moment: Literal["before", "after"], stored: int
) -> None:
    memory = MemoryStore()
    store = CrashingStore(memory, CrashPoint(2, moment), refuse_write)
    session = await store.open(make_info(), owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
    with pytest.raises(StoreUnavailableError, match="append was refused"):
        await store.append(written(session, 1, 2))
    assert len([row async for row in memory.read(session.root_run_id)]) == stored
    assert store.writes == ["open", "append"]
    await store.append(written(session, stored + 1, stored + 1))  # a point strikes once


async def test_what_strikes_is_told_which_write_it_is() -> None:
    struck: list[str] = []
    store = CrashingStore(MemoryStore(), CrashPoint(3), struck.append)
    session = store.open_now(make_info(), owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
    store.append_now(written(session, 1, 2))
    store.close_session_now(session)
    await store.delete(session.root_run_id, now_us=NOW)
    assert (struck, store.writes[-1]) == (["close_session_now"], "delete")


def test_by_default_the_process_is_killed_without_a_word() -> None:
    done = run_script(
        """
    import atexit
    from holdfast import CheckpointConfig, Flow, start
    from holdfast.stores import MemoryStore
    from holdfast.testing import CrashingStore, CrashPoint

    class Speaks(Flow):
        @start()
        def speak(self):
            print("spoken", flush=True)

    atexit.register(print, "left in order")
    Speaks(checkpoint=CheckpointConfig(CrashingStore(MemoryStore(), CrashPoint(3)))).kickoff()
    """
    )
    assert (done.returncode, done.stdout, done.stderr) == (-9, "spoken\n", "")


def test_a_flow_that_is_refused_a_write_goes_on_without_the_point(runtime: Runtime) -> None:
    memory = MemoryStore()

    class Two(Flow[dict[str, Any]]):
        @start()
        def one(self) -> int:
            return 1

        @listen(one)
        def two(self, given: int) -> int:
            return given + 1

    store = CrashingStore(memory, CrashPoint(3), refuse_write)
    with pytest.raises(RunUnrecordedError, match="append_now was refused"):
        Two(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    [run] = asyncio.run(memory.runs())
    assert run.status == "running"
    assert Two(checkpoint=CheckpointConfig(memory), runtime=runtime).kickoff(from_checkpoint=run.root_run_id) == 2
