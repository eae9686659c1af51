"""The project a job command works in: its home, its store, and what runs jobs there."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from holdfast.cli._stores import make_store, open_store
from holdfast.clock import SystemClock
from holdfast.errors import ConfigurationError
from holdfast.home import FOLDER, find_home, make_home
from holdfast.ports import JobStatus
from holdfast.service import (
    SETTINGS_FILE,
    JobService,
    LogFolder,
    WorkerOptions,
    ensure_worker,
    is_served,
    lose_dead,
    read_settings,
)
from holdfast.stores import SqliteJobs, SqliteOutbox, SqliteSchedules, SqliteStore

if TYPE_CHECKING:
    from holdfast.hooks import Deliverer, HookSettings, Sender
    from holdfast.ports import Job, JobRunner, Subscriptions
    from holdfast.schedules import ScheduleService, Ticker

T = TypeVar("T")
TIDY_SECONDS = 3600.0
"""How often it is looked whether a day is over."""
STARTING_SECONDS = 1.0
"""How long a worker may take from its start until others know of it."""


class Project:
    """What is there, opened when it is first needed."""

    def __init__(self, home: Path, store: SqliteStore) -> None:
        self.home, self.store = home, store
        self.jobs = SqliteJobs.beside(store, hooks=self._subscriptions)
        self.schedules = SqliteSchedules.beside(store)
        self.clock = SystemClock()
        self.service = JobService(self.jobs, by=_user())
        self.logs = LogFolder(home / "logs")

    @property
    def folder(self) -> Path:
        """Where the project itself is."""
        return self.home.parent if self.home.name == FOLDER else Path.cwd()

    @cached_property
    def table(self) -> Any:
        from holdfast.resources import SystemProcessTable

        return SystemProcessTable()

    @cached_property
    def runtime(self) -> Any:
        from holdfast.runtime import Runtime

        return Runtime(store=self.store)

    @cached_property
    def runner(self) -> JobRunner:
        from holdfast.jobs import JobEngine

        return JobEngine(self.runtime, home=self.home, output_cap=self.settings().output_bytes)

    @cached_property
    def timetable(self) -> ScheduleService:
        from holdfast.schedules import ScheduleService

        return ScheduleService(self.schedules, self.folder, by=_user())

    def ticker(self, changed: Callable[[], None]) -> Ticker:
        """What fires schedules. `changed` is called when a job was queued."""
        from holdfast.schedules import Ticker

        tell = partial(self.runtime.event_bus.tell_outside, "schedules")
        return Ticker(
            self.schedules,
            self.folder,
            keeper=lambda: self.runner.keeper,  # type: ignore[attr-defined]
            changed=changed,
            tell=tell,
        )

    @cached_property
    def hooks(self) -> HookSettings:
        from holdfast.hooks import read_hooks

        return read_hooks(self.home)

    def _subscriptions(self) -> Subscriptions:
        return self.hooks.subscriptions() if (self.home / SETTINGS_FILE).exists() else ()

    @cached_property
    def outbox(self) -> SqliteOutbox:
        return SqliteOutbox.beside(self.store, hooks=self._subscriptions)

    def sender(self) -> Sender:
        from holdfast.hooks import Sender

        return Sender(self.hooks, self.home, self.folder)

    def deliverer(self) -> Deliverer:
        """What tells hooks while it is open."""
        from holdfast.hooks import Deliverer

        return Deliverer(self.outbox, self.jobs, self.sender())

    def settings(self) -> WorkerOptions:
        return read_settings(self.home)

    async def find(self, typed: str) -> Job:
        """The job somebody means. Raises UnknownJobError."""
        return await self.service.get(await self.service.resolve(typed))

    async def serve(self) -> bool:
        """See that somebody serves the queue. True if a worker was started for it."""
        return await ensure_worker(self.jobs, self.table, self.clock, self.home, self.store.path)

    async def lose_dead(self) -> None:
        """Put jobs whose worker is gone back to the queue."""
        await lose_dead(self.jobs, self.table, self.clock.time_ns() // 1000)

    async def warn_if_unserved(self, jobs: Sequence[Job]) -> None:
        """Tell whoever waits for jobs that nobody goes on with them, nor is about to."""
        if any(job.status in (JobStatus.QUEUED, JobStatus.RUNNING) for job in jobs) and await self._is_left(jobs):
            await self.clock.sleep(STARTING_SECONDS)
            if await self._is_left(jobs):
                typer.echo("nobody serves the queue now: `holdfast worker` goes on with what is queued", err=True)

    async def _is_left(self, jobs: Sequence[Job]) -> bool:
        """Whether one of these is queued and has nobody who serves."""
        await self.lose_dead()
        now = [await self.service.get(job.id) for job in jobs]
        return any(job.status is JobStatus.QUEUED for job in now) and not await self.is_served()

    async def is_served(self) -> bool:
        return await is_served(self.jobs, self.table, self.clock)

    async def forget(self, job_id: str) -> None:
        """Delete what is kept of an ended job beside its row: journal, workspace, output."""
        await self.runner.forget(job_id)
        self.logs.delete(job_id)

    @asynccontextmanager
    async def tidying(self) -> AsyncIterator[None]:
        """Meanwhile, and at most once a day, let go of jobs and runs that ended long ago, with all they left."""
        leaving = asyncio.Event()
        tidying = asyncio.create_task(self._tidy(leaving))
        try:
            yield
        finally:
            leaving.set()
            await tidying

    async def _tidy(self, leaving: asyncio.Event) -> None:
        from holdfast.checkpoints import collect_daily

        while not leaving.is_set():
            for gone in await collect_daily(self.store, self.home / "collected", now_us=self.clock.time_ns() // 1000):
                await self.forget(gone.id)
            with suppress(TimeoutError):
                await asyncio.wait_for(leaving.wait(), TIDY_SECONDS)

    async def aclose(self) -> None:
        if "runner" in self.__dict__:
            await self.runner.aclose()  # type: ignore[attr-defined]
        if "runtime" in self.__dict__:
            await self.runtime.aclose()
        await self.store.aclose()


@asynccontextmanager
async def opened(location: str | None, *, make: bool = False) -> AsyncIterator[Project]:
    """The project, or the store that is named. Raises ConfigurationError if there is none and it is not to be made."""
    home = find_home()
    if home is None and location is None and make:
        home = make_home()
    is_project = location is None and home is not None and home.is_dir()  # its store may have to be made
    store = make_store(location) if make or is_project else open_store(location)
    if not isinstance(store, SqliteStore):
        raise ConfigurationError("jobs are kept in SQLite only, so far; name an SQLite file with --store")
    project = Project(home or store.path.parent, store)
    try:
        yield project
    finally:
        await project.aclose()


def in_project(location: str | None, work: Callable[[Project], Awaitable[T]], *, make: bool = False) -> T:
    """Do something in the project."""

    async def main() -> T:
        async with opened(location, make=make) as project:
            return await work(project)

    return asyncio.run(main())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this number
        return ""
