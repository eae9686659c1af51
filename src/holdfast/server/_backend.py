"""What the routes stand on: the runtime of this process, its store, and the queue if it has one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from holdfast.clock import Clock
from holdfast.errors import ConfigurationError
from holdfast.hooks import HookSettings
from holdfast.logs import get_logger
from holdfast.ports import JobRunner, JobStore, JournalStore, Ledger, Outbox, ScheduleStore
from holdfast.runtime import Runtime
from holdfast.schedules import ScheduleService
from holdfast.server._feeds import Feeds
from holdfast.server._metrics import Endings, Metrics
from holdfast.server._problems import Refused
from holdfast.server._rates import Rates
from holdfast.server._settings import Settings
from holdfast.server._tokens import Identity, Tokens
from holdfast.service import JobService, LogFolder, Tuning

log = get_logger("server")
CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Queue(Struct, frozen=True, kw_only=True):
    """The jobs that a server shows and steers. Who works on them may be another process."""

    jobs: JobStore
    runner: JobRunner
    """tells of steps, and forgets; it need not be the one that runs jobs"""
    logs: LogFolder
    outbox: Outbox | None = None
    """what hooks are told; without one jobs have no webhooks"""
    hooks: HookSettings = HookSettings()
    wake: Callable[[], None] = lambda: None
    """tells the worker of this process, if there is one, that something was stored"""
    schedules: ScheduleStore | None = None
    tuning: Tuning | None = None
    """how much runs at once, if that may be changed here"""


class Backend:
    """All that a route may use."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        tokens: Tokens,
        settings: Settings,
        queue: Queue | None = None,
        project: Path | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.runtime, self.tokens, self.settings = runtime, tokens, settings
        self.project = None if project is None else project.resolve()
        self.ledger = ledger
        self.metrics = Metrics()
        self.feeds = Feeds(settings, runtime.clock, self.metrics)
        self._queue = queue
        self.endings = Endings(queue.jobs) if queue is not None else None
        """how jobs end, if there are any"""
        self._failures = Rates(runtime.clock, settings.failures_per_minute / 60, settings.failures_per_minute)

    @property
    def clock(self) -> Clock:
        return self.runtime.clock

    @property
    def journal(self) -> JournalStore:
        """Where the runs of this process are written down."""
        return self.runtime.store

    def now_us(self) -> int:
        return self.clock.time_ns() // 1000

    @property
    def has_queue(self) -> bool:
        return self._queue is not None

    @property
    def queue(self) -> Queue:
        """Raises Refused if this server has none."""
        if self._queue is None:
            raise Refused(404, "no_queue", "this server has no queue of jobs: it shows the runs of its process only")
        return self._queue

    @property
    def outbox(self) -> Outbox:
        """Raises Refused if this server has none."""
        if self.queue.outbox is None:
            raise Refused(404, "no_outbox", "this server has no outbox: nobody is told what happens to its jobs")
        return self.queue.outbox

    def identify(self, offered: str, address: str) -> Identity:
        """Whose token this is. Raises Refused if it is nobody's; an address that offers many wrong ones has to wait."""
        try:
            who = self.tokens.check(offered, now_us=self.now_us())
        except ConfigurationError:
            log.exception("tokens cannot be read, so nobody is let in")
            who = None
        if who is not None:
            return who
        if wait := self._failures.wait_for(address):
            message = "too many wrong tokens from this address; wait"
            raise Refused(429, "too_many_failures", message, {"Retry-After": f"{wait + 1:.0f}"})
        raise Refused(401, "wrong_token", "this token is not known here, was revoked, or has run out", CHALLENGE)

    def still_lets_in(self, who: Identity | None) -> bool:
        """Whether who was let in once may stay: a stream outlives the call that opened it."""
        try:
            return who is not None and self.tokens.still_counts(who, now_us=self.now_us())
        except ConfigurationError:
            log.exception("tokens cannot be read, so nobody is let in")
            return False

    def service(self, who: Identity | None) -> JobService:
        """The jobs' service, in the name of whoever calls."""
        by = "" if who is None else f"token {who.name}"
        return JobService(self.queue.jobs, clock=self.clock, by=by, changed=self.queue.wake)

    @property
    def schedule_store(self) -> ScheduleStore:
        """Raises Refused if this server has none."""
        if self.queue.schedules is None:
            raise Refused(404, "no_schedules", "this server has no schedules; `holdfast serve` in a project has")
        return self.queue.schedules

    def schedules(self, who: Identity | None) -> ScheduleService:
        """The schedules' service, in the name of whoever calls. Raises Refused if this server has none."""
        store = self.schedule_store
        if self.project is None:
            raise Refused(404, "no_project", "this server has no project, so it has no flows to schedule")
        by = "" if who is None else f"token {who.name}"
        tell = partial(self.runtime.event_bus.tell_outside, "schedules")
        return ScheduleService(store, self.project, clock=self.clock, by=by, changed=self.queue.wake, tell=tell)
