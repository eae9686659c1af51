"""`MemorySchedules`: schedules and their ticks in memory, beside `MemoryJobs`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.ports import KEPT_TICKS, SCHEDULE_LABEL, Job, Schedule, Tick
from holdfast.stores import _job_rules as job_rules
from holdfast.stores import _schedule_rules as rules
from holdfast.stores._closing import Closing
from holdfast.stores._memory_jobs import MemoryJobs
from holdfast.stores._rules import store_closed


class MemorySchedules(Closing):
    """Schedules that end with this process. Closing them leaves the jobs open."""

    def __init__(self, jobs: MemoryJobs) -> None:
        self._jobs = jobs
        self._schedules: dict[str, Schedule] = {}
        self._ticks: list[Tick] = []
        self._last_tick = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"MemorySchedules({self._jobs!r})"

    async def add(self, schedule: Schedule) -> None:
        with self._jobs._writing():
            self._check_open()
            for other in self._schedules.values():
                rules.check_new(schedule, other.id, other.name)
            self._schedules[schedule.id] = schedule

    async def record(
        self, schedule: Schedule, ticks: Sequence[Tick] = (), jobs: Sequence[Job] = (), *, by: str = ""
    ) -> bool:
        job_rules.check_new(jobs)
        with self._jobs._writing():
            self._check_open()
            known = self._schedules.get(schedule.id)
            if known is None or known.version != schedule.version:
                return False
            fresh = [tick for tick in ticks if self._is_fresh(tick)]
            self._jobs._add([job for job in rules.jobs_of(fresh, jobs) if job.id not in self._jobs._jobs], by)
            self._schedules[schedule.id] = replace(schedule, version=schedule.version + 1)
            for tick in fresh:
                self._note(tick)
            self._prune(schedule.id)
            return True

    def _is_fresh(self, tick: Tick) -> bool:
        known = self._find(tick)
        return known is None or self._ticks[known].outcome == "queued"

    def _find(self, tick: Tick) -> int | None:
        place = (tick.schedule_id, tick.due_us, tick.number)
        places = ((one.schedule_id, one.due_us, one.number) for one in self._ticks)
        return next((at for at, known in enumerate(places) if known == place), None)

    def _note(self, tick: Tick) -> None:
        known = self._find(tick)
        if known is not None:
            self._ticks[known] = replace(tick, id=self._ticks[known].id)
            return
        self._last_tick += 1
        self._ticks.append(replace(tick, id=self._last_tick))

    def _prune(self, schedule_id: str) -> None:
        ids = [tick.id for tick in self._ticks if tick.schedule_id == schedule_id]
        gone = set(ids[:-KEPT_TICKS])
        self._ticks = [tick for tick in self._ticks if tick.id not in gone]

    async def remove(self, schedule_id: str) -> bool:
        with self._jobs._writing():
            self._check_open()
            self._ticks = [tick for tick in self._ticks if tick.schedule_id != schedule_id]
            return self._schedules.pop(schedule_id, None) is not None

    async def schedule(self, schedule_id: str) -> Schedule | None:
        with self._jobs._alone():
            self._check_open()
            named = (one for one in self._schedules.values() if one.name == schedule_id)
            return self._schedules.get(schedule_id) or next(named, None)

    async def schedules(self) -> list[Schedule]:
        with self._jobs._alone():
            self._check_open()
            return sorted(self._schedules.values(), key=lambda schedule: schedule.name)

    async def due(self, *, now_us: int) -> list[Schedule]:
        with self._jobs._alone():
            self._check_open()
            found = [one for one in self._schedules.values() if rules.is_due(one, now_us)]
            return sorted(found, key=rules.since)

    async def next_due(self) -> int | None:
        with self._jobs._alone():
            self._check_open()
            times = (max(one.next_us, one.held_until_us) for one in self._schedules.values() if one.next_us is not None)
            return min(times, default=None)

    async def active_jobs(self, name: str, *, limit: int = 1) -> list[str]:
        with self._jobs._alone():
            self._check_open()
            found = [
                job.id
                for job in self._jobs._jobs.values()
                if job.labels.get(SCHEDULE_LABEL) == name and not job.status.is_terminal
            ]
            return found[:limit]

    async def ticks(self, schedule_id: str, *, before: int = 0, limit: int = 100) -> list[Tick]:
        with self._jobs._alone():
            self._check_open()
            found = [
                tick
                for tick in reversed(self._ticks)
                if tick.schedule_id == schedule_id and (not before or tick.id < before)
            ]
            return found[:limit]

    async def last_ticks(self) -> dict[str, Tick]:
        with self._jobs._alone():
            self._check_open()
            return {tick.schedule_id: tick for tick in self._ticks}

    async def stamp(self) -> int:
        self._check_open()
        return await self._jobs.stamp()

    def close(self) -> None:
        self._closed = True

    async def aclose(self) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise store_closed("this schedule store")
