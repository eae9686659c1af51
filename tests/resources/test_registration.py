"""A runtime with managers: runs hold, ends release, the runtime sweeps and closes."""

from __future__ import annotations

import asyncio
import subprocess
from concurrent.futures import Future
from typing import Any

import pytest
from tests.resources.killing import heard, owner
from tests.resources.test_managers import greet
from tests.resources.things import Things, ThingSpec
from tests.resources.trees import CHAIN, shell
from tests.runs.support import hear, tags, until

from holdfast import Run, Runtime
from holdfast.errors import RunFailedError, RuntimeClosedError
from holdfast.events import (
    BaseEvent,
    ResourceAcquiredEvent,
    ResourceReleasedEvent,
    ResourceReleaseFailedEvent,
    ResourceSweptEvent,
)
from holdfast.ids import new_id
from holdfast.ports import LedgerRow, Owner, SweepReport
from holdfast.resources import Limits, ProcessManager, ProcessSpec, SystemProcessTable
from holdfast.resources._sandbox import MIB
from holdfast.runs import End, RunStatus
from holdfast.stores import MemoryLedger
from holdfast.testing import ManualClock
from holdfast.testing._audit import started_here


async def test_s3_9_forty_nine_abandoned_runs_with_a_chain_each_leave_no_process() -> None:
    runtime = Runtime()
    manager = ProcessManager(MemoryLedger())
    runtime.register(manager)
    released = hear(runtime, ResourceReleasedEvent)
    standing = 0

    async def body(run: Run, number: int) -> None:
        nonlocal standing
        spec = ProcessSpec(shell(CHAIN), label=f"agent {number}", shaped_by=(number,), handshake=greet)
        await manager.acquire(spec, run)
        standing += 1
        await until(lambda: standing == 49)
        run.request_end(End(RunStatus.FAILED, "abandoned: step review, rule on_failure"))
        await asyncio.Event().wait()

    runs = [runtime.start(body, number) for number in range(49)]
    await until(lambda: standing == 49)
    assert len([found for found in started_here() if "sleep" in found.command]) >= 49
    for run in runs:
        with pytest.raises(RunFailedError):
            await run
    assert [found for found in started_here() if "sleep" in found.command] == []
    assert manager.inventory() == []
    assert runtime.inventory() == []
    assert len(released) == 49
    await runtime.aclose()


def test_s3_9_the_memory_of_forty_nine_abandoned_chains_is_back_at_the_baseline() -> None:
    with owner("abandon", "49") as process:
        said = heard(process)
    memory, blocks, files, processes = said["left"]
    assert said["during"] > 49 * 8 * MIB
    assert memory < 2 * MIB  # of ours and of our keepers, by chance; a chain is five times that
    assert blocks < 500  # ten objects for each run would be as many
    assert (files <= 0, processes <= 0) == (True, True)


async def test_a_run_tells_of_what_it_holds_and_lists_it() -> None:
    runtime = Runtime()
    manager = Things()
    runtime.register(manager)
    heard = hear(runtime, ResourceAcquiredEvent, ResourceReleasedEvent, ResourceReleaseFailedEvent)

    async def body(run: Run) -> None:
        await manager.acquire(ThingSpec("a"), run)
        assert [(held.kind, held.name) for held in run.inventory() if held.kind == "thing"] == [("thing", "a")]

    await runtime.arun(body)
    assert tags(heard) == ["resource_acquired", "resource_released"]
    await runtime.aclose()


async def test_what_cannot_be_ended_is_told_by_the_run_and_listed_by_the_runtime() -> None:
    runtime = Runtime()
    manager = Things()
    runtime.register(manager)
    heard = hear(runtime, ResourceReleaseFailedEvent)

    async def body(run: Run) -> None:
        await manager.acquire(ThingSpec("a"), run)
        manager.cannot_end = OSError("it hangs")

    await runtime.arun(body)
    assert tags(heard) == ["resource_release_failed"]
    assert ("thing", "a") in [(held.kind, held.name) for held in runtime.inventory()]
    assert len(await manager.ledger.rows()) == 1
    manager.cannot_end = None
    await runtime.aclose()
    assert manager.ended == ["a"]


async def test_s3_7_closing_a_runtime_releases_all_that_its_managers_hold_or_keep_warm() -> None:
    runtime = Runtime()
    manager = Things(limits=Limits(idle_timeout=1000))
    runtime.register(manager)

    async def body(run: Run) -> None:
        await manager.acquire(ThingSpec("warm"), run)

    await runtime.arun(body)
    assert [(held.kind, held.name, held.run_id) for held in runtime.inventory()] == [("thing", "warm", "")]
    await runtime.aclose()
    assert manager.ended == ["warm"]
    assert runtime.inventory() == []
    with pytest.raises(RuntimeClosedError, match="takes in no manager"):
        runtime.register(manager)


def orphan(name: str) -> LedgerRow:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        dead = SystemProcessTable().identify(process.pid)
        process.kill()
    assert dead is not None
    return LedgerRow(new_id(), "thing", name, Owner(new_id(), dead), 1)


async def test_s3_6_a_runtime_sweeps_at_once_and_on_a_period_and_tells_of_it() -> None:
    clock, ledger = ManualClock(), MemoryLedger()
    runtime = Runtime(clock=clock)
    swept: list[str] = []
    seen: list[Future[None]] = [Future(), Future()]

    @runtime.event_bus.on(ResourceSweptEvent)
    def note(source: Any, event: BaseEvent) -> None:
        assert isinstance(event, ResourceSweptEvent)
        swept.append(event.resource)
        seen[len(swept) - 1].set_result(None)

    await ledger.put(orphan("at start"))
    runtime.register(Things(ledger), sweep_seconds=60)
    await asyncio.to_thread(seen[0].result, 20)
    await ledger.put(orphan("later"))
    await clock.until_sleeping(1)
    clock.advance(60)
    await asyncio.to_thread(seen[1].result, 20)
    assert swept == ["at start", "later"]
    assert await ledger.rows() == []
    await runtime.aclose()


async def test_a_sweep_or_release_that_raises_stops_neither_later_sweeps_nor_the_close() -> None:
    class Broken(Things):
        sweeps = 0

        async def sweep(self) -> SweepReport:
            self.sweeps += 1
            raise RuntimeError("a bug")

        async def release_all(self) -> None:
            await super().release_all()
            raise RuntimeError("a bug")

    clock = ManualClock()
    runtime = Runtime(clock=clock)
    broken, sound = Broken(), Things(limits=Limits(idle_timeout=1000))
    runtime.register(broken, sweep_seconds=60)
    runtime.register(sound, sweep_seconds=3600)
    await clock.until_sleeping(2)
    clock.advance(60)
    await until(lambda: broken.sweeps == 2)

    async def body(run: Run) -> None:
        await sound.acquire(ThingSpec("a"), run)

    await runtime.arun(body)
    await runtime.aclose()
    assert sound.ended == ["a"]
