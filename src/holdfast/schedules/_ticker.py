"""`Ticker`: sees to schedules whose time has come. Any number may share a store: each due time fires once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from holdfast.clock import Clock, SystemClock
from holdfast.errors import HoldfastError, StorageError
from holdfast.logs import get_logger
from holdfast.ports import Job, Schedule, ScheduleStore
from holdfast.resources import Keeper
from holdfast.schedules._asking import CHECK_SECONDS, Found, ask
from holdfast.schedules._flows import make_job
from holdfast.schedules._judging import Turn, failed, fired, hold_back, job_id, paused, take_turn
from holdfast.schedules._telling import Tell, nobody, tell_stored
from holdfast.service import Noticing, leave_alone

log = get_logger("schedules")

LOOK_SECONDS = 0.5
"""How soon what other processes stored is noticed."""
LONGEST_SECONDS = 60.0
"""The wall clock may be put forward: it is looked at so often, at least."""
HOLD_US = int((CHECK_SECONDS + 15) * 1_000_000)
"""How long a check is somebody's. If that process is killed, the check is made again after this."""


class Ticker:
    """Fires schedules into the queue: `async with ticker.ticking(): …` does so inside the block.

    `keeper` is asked for when a poll has to be made. `changed` is called after a job was queued, to wake this process's worker;
    `tell` with the events of what this process saw to.
    A due time is written down together with its job, in one transaction, by whoever is first: whichever process is killed at
    whatever moment, there is one tick and one job, or neither, and the next process sees to it.
    """

    def __init__(
        self,
        schedules: ScheduleStore,
        project: Path,
        *,
        keeper: Callable[[], Keeper] = Keeper,
        clock: Clock | None = None,
        changed: Callable[[], None] = lambda: None,
        tell: Tell = nobody,
    ) -> None:
        self._schedules, self._project, self._keeper, self._changed = schedules, project, keeper, changed
        self._tell = tell
        self._clock: Clock = clock or SystemClock()
        self._noticing = Noticing(schedules, self._clock, LOOK_SECONDS)

    def wake(self) -> None:
        """Something was stored by this process: look at once."""
        self._noticing.wake()

    @asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """See to schedules inside the block. When it is left, checks that are being made are ended."""
        serving = asyncio.ensure_future(self.serve())
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.wait({serving})
            if not serving.cancelled():
                serving.result()

    async def serve(self) -> None:
        """See to schedules until cancelled. A store that cannot be used is waited for."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    deadline = await self.look(group)
                    await self._noticing.changed(deadline)
                except StorageError as error:
                    log.warning("schedules cannot be read or written now, trying again: %s", error)
                    await leave_alone(self._clock)

    async def look(self, group: asyncio.TaskGroup) -> float:
        """See to all that is due; checks go on in the group. Returns when to look again, if nothing is stored before."""
        for schedule in await self._schedules.due(now_us=self._now_us()):
            try:
                await self._see_to(schedule, group)
            except StorageError:
                raise
            except Exception as error:  # as when its time zone is gone: it must not stop the others
                await self._pause(schedule, error)
        next_us = await self._schedules.next_due()
        seconds = LONGEST_SECONDS if next_us is None else (next_us - self._now_us()) / 1_000_000
        return self._clock.monotonic() + min(max(seconds, 0.0), LONGEST_SECONDS)

    async def _see_to(self, schedule: Schedule, group: asyncio.TaskGroup) -> None:
        """One schedule's turn, if it has one."""
        busy = [] if schedule.overlap == "allow" else await self._schedules.active_jobs(schedule.name)
        turn = take_turn(schedule, self._now_us(), busy)
        if turn is None:
            return
        if turn.due_us is not None:
            turn = hold_back(turn, busy) or turn
        if turn.due_us is None:
            await self._record(turn)
        elif schedule.is_poll:
            await self._begin_check(schedule, turn, group)
        else:
            await self._fire(turn, Found(({},), schedule.cursor))

    async def _pause(self, schedule: Schedule, error: Exception) -> None:
        log.error("schedule %s is paused", schedule.name, exc_info=error)
        stopped, ticks = paused(schedule, _told(error), self._now_us())
        if await self._schedules.record(stopped, ticks):
            tell_stored(self._tell, schedule, stopped, ticks)

    # -- polls -----------------------------------------------------------------------------------------------------

    async def _begin_check(self, schedule: Schedule, turn: Turn, group: asyncio.TaskGroup) -> None:
        """Have a check made by nobody else meanwhile."""
        if await self._schedules.record(replace(schedule, held_until_us=self._now_us() + HOLD_US)):
            held = replace(turn, schedule=replace(turn.schedule, version=schedule.version + 1))
            group.create_task(self._check(held), name=f"check of schedule {schedule.name}")

    async def _check(self, turn: Turn) -> None:
        try:
            try:
                found = await ask(turn.schedule, self._project, self._keeper())
            except Exception as error:  # whatever it is, it fails this check and no other
                await self._record(self._failed(turn, error))
            else:
                await self._fire(turn, found)
        except StorageError as error:
            log.warning("what schedule %s found cannot be stored; it is checked again: %s", turn.schedule.name, error)
        except asyncio.CancelledError:
            await asyncio.shield(self._let_go(turn.schedule))
            raise
        self._noticing.wake()

    async def _let_go(self, schedule: Schedule) -> None:
        """Leave a check to whoever looks next, at once."""
        try:
            stored = await self._schedules.schedule(schedule.id)
            if stored is not None and stored.version == schedule.version:
                await self._schedules.record(replace(stored, held_until_us=0))
        except StorageError as error:
            log.warning("the check of schedule %s is made again in a minute: %s", schedule.name, error)

    # -- what comes of it ------------------------------------------------------------------------------------------

    async def _fire(self, turn: Turn, found: Found) -> None:
        try:
            jobs = await asyncio.to_thread(self._make_jobs, turn, found)
        except Exception as error:  # whatever it is, it fails this tick and no other
            await self._record(self._failed(turn, error))
        else:
            await self._record(fired(turn, [job.id for job in jobs], found.cursor), jobs)

    def _make_jobs(self, turn: Turn, found: Found) -> list[Job]:
        assert turn.due_us is not None
        ids = [job_id(turn.schedule.id, turn.due_us, number) for number in range(len(found.inputs))]
        return [
            make_job(turn.schedule, self._project, made, inputs, turn.at_us)
            for made, inputs in zip(ids, found.inputs, strict=True)
        ]

    def _failed(self, turn: Turn, error: Exception) -> Turn:
        log.warning("schedule %s could not fire: %s", turn.schedule.name, _told(error))
        return failed(turn, _told(error))

    async def _record(self, turn: Turn, jobs: Sequence[Job] = ()) -> None:
        """Write down what came of a turn, unless another process did, or the schedule was changed meanwhile."""
        if not await self._schedules.record(turn.schedule, turn.ticks, jobs, by=f"schedule {turn.schedule.name}"):
            log.info("schedule %s was seen to by another process, or changed", turn.schedule.name)
            return
        for tick in turn.ticks:
            log.info("schedule %s: %s %s", turn.schedule.name, tick.outcome, tick.job_id or tick.reason)
        was_active = replace(turn.schedule, status="active")  # or it would have had no turn
        tell_stored(self._tell, was_active, turn.schedule, turn.ticks)
        if jobs:
            self._changed()

    def _now_us(self) -> int:
        return self._clock.time_ns() // 1000


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
