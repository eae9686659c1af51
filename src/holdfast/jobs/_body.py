"""One flow of a job as the body of a run: from its first event, or from where its journal says it stands, to its end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.checkpoints import Progress, RunLog
from holdfast.context import Position, at
from holdfast.context import Scope as EventScope
from holdfast.errors import AnswerPendingError, JobFailedError
from holdfast.events.families.checkpoint import CheckpointRestoredEvent
from holdfast.events.families.job import (
    JobCancelledEvent,
    JobCompletedEvent,
    JobFailedEvent,
    JobResumedEvent,
    JobStartedEvent,
    JobWaitingEvent,
)
from holdfast.events.families.step import StepCancelledEvent
from holdfast.graph import Resumed, end_with, evolve
from holdfast.jobs._grace import Kept
from holdfast.jobs._program import JobProgram
from holdfast.jobs._scheduler import JobScheduler
from holdfast.jobs._scope import Request, Scope, Wait
from holdfast.runs import End, Run, RunStatus


class Beginning(Struct, frozen=True, eq=False):
    """Where a flow of a job begins."""

    log: RunLog | None
    progress: Progress | None = None
    """how far it had come; None for a new one"""
    called_as: str = ""
    """of a flow inside a step: the run and the call that started it"""
    checkpoint: str = ""
    branch: str = "main"
    worked_us: int = 0
    """how long it was at work before"""
    continues: str = ""
    """the run that `progress` is of, if this is another one"""


class JobBody:
    """Runs one flow of a job. `scheduler` is there once it has begun."""

    def __init__(self, scope: Scope, beginning: Beginning) -> None:
        self.scope = scope
        self._beginning = beginning
        self.scheduler: JobScheduler | None = None
        self.requests: deque[Request] = deque()
        """What came from outside and is not acted on yet."""
        self.unwanted = ""
        """Why it is to be cancelled as soon as it has begun; empty if it is not."""
        self._began_us = 0
        self.parked: Wait | None = None
        """What it waits for, if it was put down."""

    async def run(self, run: Run) -> Any:
        """The flow's outputs. Raises JobFailedError, or AnswerPendingError when nothing can go on by itself."""
        self._began_us = run.host.clock.time_ns() // 1000
        scheduler = self.scheduler = self._begin(run)
        if self.unwanted:  # by whoever looks at its journal it is to have begun, and to have ended
            run.cancel(self.unwanted)
        timer = self._watch_time(run, scheduler)
        try:
            return self._finished(run, await scheduler.drive())
        except BaseException as error:
            self._broken(run, error)
            raise
        finally:
            scheduler.alarm.stop()
            if timer is not None:
                timer.cancel()

    # -- the beginning ---------------------------------------------------------------------------------------------

    def _begin(self, run: Run) -> JobScheduler:
        scope, beginning = self.scope, self._beginning
        self._take_back(run)
        scheduler = JobScheduler(run, JobProgram(run, scope), beginning.log, self.requests)
        if beginning.progress is not None:
            self._set_up(scheduler, beginning.progress)
        if beginning.progress is None or beginning.continues:
            run.move(JobStartedEvent, **self._about(), flow_name=scope.flow.name, **self._call(scheduler))
        else:
            self._take_up(run, scheduler, beginning.progress)
        scheduler.begin()
        data = scheduler.state.data
        if data is not None and (data.held or data.paused is not None):
            scope.shared.paused = not scope.shared.resumed
        return scheduler

    def _take_back(self, run: Run) -> None:
        """Hold again what it held when it was paused."""
        kept = self.scope.shared.kept.pop(run.id, None)
        if kept is None:
            return
        for lease in reversed(kept.leases):
            run.own(lease)
            if (move := getattr(lease, "move_to", None)) is not None:
                move(run)
        for session in kept.sessions.values():
            session.move_to(run)
        self.scope.live_sessions.update(kept.sessions)

    def _about(self) -> dict[str, Any]:
        return {"job_id": self.scope.shared.job_id}

    def _call(self, scheduler: JobScheduler) -> dict[str, Any]:
        called_as = self._beginning.called_as
        if not called_as:
            secret = {one.name for one in self.scope.flow.variables if one.sensitive}
            return {"inputs": {name: value for name, value in self.scope.variables.items() if name not in secret}}
        told = {"called_as": called_as, "graph": msgspec.to_builtins(scheduler.graph)}
        if not self._beginning.continues:
            return told
        kept = {"results": scheduler.results, "event_ids": scheduler.event_ids}
        progress = {"standing": msgspec.to_builtins(scheduler.state), **kept}
        return {**told, "continues": self._beginning.continues, "progress": progress}

    def _set_up(self, scheduler: JobScheduler, progress: Progress) -> None:
        """Stand where a run was: with its results, and its conversations."""
        scheduler.state = progress.standing
        scheduler.results = dict(progress.results)
        for key, result in progress.results.items():
            step = self.scope.flow.by_name.get(key.rpartition("#")[0])
            if step is not None and isinstance(result, dict) and isinstance(result.get("_session"), dict):
                self.scope.remember_session(step, result["_session"])
        scheduler.event_ids = dict(progress.event_ids)

    def _take_up(self, run: Run, scheduler: JobScheduler, progress: Progress) -> None:
        """Go on with the run itself: its events hang under the scope that they did."""
        here = run.place
        outer = EventScope(progress.opened_by, "job", here.scope) if progress.opened_by else here.scope
        run.place = Position(run.id, outer, here.subject, here.triggered_by)
        run.move(CheckpointRestoredEvent, branch=self._beginning.branch, checkpoint_id=self._beginning.checkpoint)
        data = progress.standing.data
        if self._beginning.called_as and data is not None and data.held and self.scope.shared.resumed:
            run.move(JobResumedEvent, **self._about())
            scheduler.state = evolve(scheduler.graph, scheduler.state, Resumed())

    def _watch_time(self, run: Run, scheduler: JobScheduler) -> asyncio.Task[None] | None:
        minutes = self.scope.flow.limits.max_duration_minutes
        if minutes is None:
            return None

        left = max(0.0, minutes * 60 - self._beginning.worked_us / 1e6)

        async def wait() -> None:
            await run.host.clock.sleep(left)
            scheduler.request_limit_end(f"the job's limit of {minutes:g} minutes is reached (max_duration_minutes)")

        return asyncio.create_task(wait())

    # -- the end ---------------------------------------------------------------------------------------------------

    def _finished(self, run: Run, outputs: Any) -> Any:
        run.move(JobCompletedEvent, **self._about(), outputs=outputs)
        return end_with(run, outputs)

    def _broken(self, run: Run, error: BaseException) -> None:
        if isinstance(error, AnswerPendingError):
            self._put_down(run, error)
            return
        asked = run.ending.requested.result() if run.is_ending else None
        if asked is None or not asked.departed:
            self._give_up(run)
        if asked is not None and asked.error is not None:
            error = asked.error
        if isinstance(error, JobFailedError):
            told = {"reason": error.reason, "step": error.step, "rule": error.rule}
            run.move(JobFailedEvent, **self._about(), **told, error=str(error), error_type=type(error).__name__)
        elif isinstance(error, Exception):
            run.move(JobFailedEvent, **self._about(), error=str(error), error_type=type(error).__name__)
        elif asked is not None and not asked.departed:
            run.move(JobCancelledEvent, **self._about(), reason=run.end_reason)

    def _give_up(self, run: Run) -> None:
        """Executions that were cut off before, and not begun again, will not be: under a job that has ended none is running."""
        scheduler = self.scheduler
        if scheduler is not None and scheduler.state.data is not None:
            for cut_off in scheduler.state.data.again.values():
                about = {"name": cut_off.step, "step": cut_off.step, "execution": cut_off.number}
                with at(run.place):
                    run.tell(StepCancelledEvent, **about, reason=run.end_reason)

    def _put_down(self, run: Run, pending: AnswerPendingError) -> None:
        """Nothing can go on by itself: leave, to be taken up again. A run around it waits too."""
        wait: Any = pending.requests[0]
        self.parked = wait
        run.move(JobWaitingEvent, **self._about(), reason=wait.held or "waits")
        status = RunStatus.PAUSED if wait.held and run.parent is None else RunStatus.WAITING
        is_first = run.request_end(End(status, wait.held or "waits", error=pending))
        if wait.held and is_first and (leases := run.hand_over()):  # for a grace
            self.scope.shared.kept[run.id] = Kept(leases, dict(self.scope.live_sessions))

    def worked_us(self, now_us: int) -> int:
        """How long it was at work, before and now."""
        return self._beginning.worked_us + now_us - self._began_us

    def progress(self) -> Progress:
        """How far it has come, to be taken up again in this process."""
        scheduler = self.scheduler
        assert scheduler is not None
        scope = scheduler.run.place.scope
        return Progress(
            scheduler.graph,
            scheduler.state,
            results=dict(scheduler.results),
            event_ids=dict(scheduler.event_ids),
            opened_by=scope.event_id if scope is not None else "",
        )
