"""One kickoff: its state, its questions, its scheduler, from the first event to the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast.checkpoints import LooseLog, Progress, Restored, RunLog
from holdfast.checkpoints._fold import Unmerged
from holdfast.context import Position, Scope
from holdfast.deltas import Shadow, fields_of, growing_fields, withheld_in
from holdfast.errors import AnswerPendingError, UsageError
from holdfast.events.families.checkpoint import CheckpointForkedEvent, CheckpointRestoredEvent
from holdfast.graph import Scheduler, end_with
from holdfast.graph._cell import SharedState
from holdfast.human import HumanFeedbackResult
from holdfast.kickoff._asking import Asking
from holdfast.kickoff._budget import Meter, watch_time
from holdfast.kickoff._opening import Opening, Plan, keep_waiting, recorded_outputs, typed_results, waited_for
from holdfast.kickoff._outputs import Feedback, Outputs
from holdfast.kickoff._secrets import hide_again, rebuild, shown_state, told_inputs, with_secrets
from holdfast.kickoff._state import fresh_state, restore_state, update_state
from holdfast.ports import HumanRequest, JournalStore, Usage
from holdfast.runs import End, Run, RunStatus

if TYPE_CHECKING:
    from holdfast.kickoff._front import Front, Moment, Saver


class Pending(Struct, frozen=True):
    """What a kickoff returns when the run waits for people or for secrets: it was put down, and `resume()` takes it up again.

    In another process that is `Flow.from_pending(run_id).resume(answer)`. A flow without a `checkpoint` is written into the
    runtime's store when it comes to that.
    """

    run_id: str
    flow_name: str
    requests: tuple[HumanRequest, ...]
    """the questions without an answer, also those of flows inside"""


class Kickoff:
    """One execution, while it runs and as what was kicked off remembers it."""

    def __init__(self, front: Front, plan: Plan, opening: Opening | None) -> None:
        self._front = front
        self._plan = plan
        self._opening = opening
        self.feedback = Feedback()
        self.outputs = Outputs()
        self.asking: Asking | None = None
        self.run_id: str | None = None
        self._saving: Saver | None = None
        self._counts: Callable[[], dict[str, int]] = dict
        self.usage = Usage()
        """Of all model calls in it, once it is over."""
        self._meter: Meter | None = None
        self.results: dict[str, Any] = {}
        """By execution key, as far as they are still known; of a graph that keeps its results, all."""
        self._timer: Future[Any] | None = None

    @cached_property
    def cell(self) -> SharedState:
        """The state, and who works on it; a fresh one if nothing has begun."""
        return SharedState(fresh_state(self._front.state_example))

    def show(self, restored: Restored, runtime: Any) -> None:
        """Be what was recorded, to be looked at before it goes on."""
        if restored.is_begun:
            self.cell = SharedState(shown_state(fresh_state(self._front.state_example), restored.state))
        reader = self._reader(runtime, restored.store, restored.info.root_run_id, restored.branch, restored.seq)
        self.outputs = Outputs(reader, complete=False)
        self.feedback = Feedback(reader)
        self.results = typed_results(self._front, restored.results)
        self.usage = restored.fold.root.usage
        self._counts = lambda: dict(restored.graph.counts)
        self.run_id = restored.info.root_run_id

    def edit(self, fields: Mapping[str, Any]) -> None:
        """Set fields of what is shown."""
        self.cell.replace(update_state(self.cell.current(), fields))

    def counts(self) -> dict[str, int]:
        """How often each method was called."""
        return self._counts()

    def _reader(
        self, runtime: Any, store: JournalStore, run_id: str, branch: str, upto: int | None = None
    ) -> Callable[[], list[Any]]:
        """What reads every result from the journal."""
        front = self._front
        return lambda: waited_for(runtime, recorded_outputs(front, store, run_id, branch, upto))

    @property
    def _log(self) -> RunLog | None:
        return self._opening.log if self._opening is not None else None

    # -- done before -----------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it is inside a run and was done before the tree was taken up again."""
        opening = self._opening
        return (
            opening is not None and opening.is_inner and opening.progress is not None and opening.progress.is_finished
        )

    def recall(self) -> Any:
        """The result it had then; its state is as it was."""
        assert self._opening is not None
        assert self._opening.progress is not None
        progress = self._opening.progress
        results = typed_results(self._front, progress.results)
        self.cell = SharedState(shown_state(fresh_state(self._front.state_example), progress.state))
        for result in results.values():
            self._completed(result)
        self._front.begins("", self)
        self._front.ends("")
        self.usage = progress.usage
        meter = Meter(self._front.name, None, progress)
        return self._front.outcome(results, results.get(progress.standing.last or ""), meter)

    # -- the body of the run, twice --------------------------------------------------------------------------------

    def run_blocking(self, run: Run) -> Any:
        try:
            scheduler = self._begin(run)
        except BaseException as error:
            return self._not_begun(run, error)
        try:
            return self._finished(run, scheduler, scheduler.drive_from_thread())
        except BaseException as error:
            return self._broken(run, error)
        finally:
            self._let_go(run, scheduler)

    async def run_async(self, run: Run) -> Any:
        try:
            scheduler = self._begin(run)
        except BaseException as error:
            return self._not_begun(run, error)
        try:
            return self._finished(run, scheduler, await scheduler.drive())
        except BaseException as error:
            return self._broken(run, error)
        finally:
            self._let_go(run, scheduler)

    def _not_begun(self, run: Run, error: BaseException) -> Any:
        """Nothing was driven: it waits for secrets, or cannot be done at all."""
        try:
            if isinstance(error, AnswerPendingError):
                return self._put_down(run, error)
            raise error
        finally:
            self._stop_timer()

    def _let_go(self, run: Run, scheduler: Scheduler) -> None:
        """It is over: the state and the results are remembered, and nothing of the run."""
        self.results = scheduler.results
        counts = dict(scheduler.state.counts)
        self._counts = lambda: dict(counts)
        if self._meter is not None:
            self.usage = self._meter.used
        self._stop_timer()
        self.asking = self._opening = self._saving = self._meter = None
        self._front.ends(run.id)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- the beginning ---------------------------------------------------------------------------------------------

    def _begin(self, run: Run) -> Scheduler:
        """Everything one kickoff needs: a state, a graph, a scheduler."""
        front, opening = self._front, self._opening
        progress = opening.progress if opening is not None else None
        self.run_id = run.id
        self._begin_metering(run, progress)
        self._saving = front.saver(run)
        self.cell = self._make_cell(run)
        self.outputs = self._make_outputs(run)
        self.asking = Asking(run, front.name, progress, self._log)
        front.begins(run.id, self)
        program = front.program(run, self.asking, self._merging())
        scheduler = Scheduler(run, program, self.cell, completed=self._completed, log=self._log)
        self._counts = lambda: dict(scheduler.state.counts)
        if opening is not None and (changes := self.cell.changes()):
            opening.log.carry(changes.encode())
        if opening is None or progress is None:
            self._tell(run, "started", inputs=told_inputs(self.cell.current(), self._plan.inputs), **self._call())
        else:
            self._take_up(run, scheduler, opening)
        scheduler.begin()
        return scheduler

    def _begin_metering(self, run: Run, progress: Progress | None) -> None:
        run.meter = self._meter = Meter(self._front.name, self._front.budget, progress)
        self._timer = watch_time(run, self._meter)

    def recorded(self) -> dict[str, Any]:
        """The results that were recorded before it was taken up again, by execution key."""
        progress = self._opening.progress if self._opening is not None else None
        return typed_results(self._front, progress.results) if progress is not None else {}

    def _tell(self, run: Run, moment: Moment, **about: Any) -> None:
        event_type, payload = self._front.event(moment, **about)
        run.move(event_type, **payload)

    def _call(self) -> dict[str, Any]:
        """What must be known of a run inside another to take it up again."""
        if self._opening is None or not self._opening.is_inner:
            return {}
        return {"called_as": self._opening.called_as, "graph": msgspec.to_builtins(self._front.graph)}

    def _make_cell(self, run: Run) -> SharedState:
        opening = self._opening
        state, shadow = fresh_state(self._front.state_example), None
        if opening is not None:
            if opening.progress is not None:
                state = self._restored(run, opening.progress, state)
            known = fields_of(state) if opening.progress is not None else {}
            shadow = Shadow(known, append_only=growing_fields(type(state)))
        if self._saving is not None and (opening is None or opening.progress is None):
            state = self._saving.reload(state, self._plan.inputs)
        if opening is None or not opening.is_inner or opening.progress is None:  # else they were taken then
            state = update_state(state, self._changes())
        conflict = self._front.on_state_conflict
        give_up = self._log.give_up if isinstance(self._log, LooseLog) else None
        kept = {key: told.changes for key, told in self._conflicts().items()}
        return SharedState(
            state,
            run_id=run.id,
            on_conflict=conflict,
            shadow=shadow,
            rebuild=rebuild,
            kept=kept,
            give_up=give_up,
            hide=hide_again,
        )

    def _restored(self, run: Run, progress: Progress, example: Any) -> Any:
        """The stored state with its secrets. Raises AnswerPendingError if one is missing."""
        config = self._front.checkpoint
        answers = self._opening.log.answers if self._opening is not None else {}
        given = {**(self._plan.edits or {}), **self._plan.inputs, **answers}
        revealed = with_secrets(progress.state, run.id, self._front.name, config.secrets if config else None, given)
        return hide_again(restore_state(example, revealed), progress.state)

    def _changes(self) -> dict[str, Any]:
        """Fields of the state to set. What brought a secret back is in its place already, and hidden there."""
        asked = {**(self._plan.edits or {}), **self._plan.inputs}
        progress = self._opening.progress if self._opening is not None else None
        if not asked or progress is None:
            return asked
        secrets = withheld_in(progress.state)
        return {name: value for name, value in asked.items() if name not in secrets}

    def _merging(self) -> dict[str, Any]:
        """Results that only have to be merged, by execution key."""
        conflicts = self._conflicts()
        return typed_results(self._front, {key: told.result for key, told in conflicts.items()}) if conflicts else {}

    def _conflicts(self) -> dict[str, Unmerged]:
        """What steps returned and changed before the run was taken up again, and could not be merged then."""
        progress = self._opening.progress if self._opening is not None else None
        return progress.conflicts if progress is not None else {}

    def _make_outputs(self, run: Run) -> Outputs:
        opening = self._opening
        if opening is None or opening.is_inner:
            return Outputs()
        front, log, branch = self._front, opening.log, opening.branch
        return Outputs(
            lambda: waited_for(run.host, recorded_outputs(front, log.store, run.id, branch, unstored=log.unstored())),
            complete=opening.progress is None,
        )

    def _take_up(self, run: Run, scheduler: Scheduler, opening: Opening) -> None:
        """Go on where the run was: its standing, its results, and the scope its events hang under."""
        progress = opening.progress
        assert progress is not None
        scheduler.state = progress.standing
        scheduler.results = typed_results(self._front, progress.results)
        scheduler.event_ids = dict(progress.event_ids)
        self.feedback = Feedback(self._before(run, opening))
        self._front.reach(progress.agents)
        here = run.place
        scope = Scope(progress.opened_by, self._front.kind, here.scope) if progress.opened_by else here.scope
        run.place = Position(run.id, scope, here.subject, here.triggered_by)
        about = {"branch": opening.branch, "checkpoint_id": opening.restored_from}
        if self._plan.branch is not None:
            run.move(CheckpointForkedEvent, **about)
        run.move(CheckpointRestoredEvent, **about)
        for event in opening.shown:
            run.host.event_bus.replay(self._front.entity, event)

    def _before(self, run: Run, opening: Opening) -> Callable[[], list[Any]]:
        """What reads the results of before it was taken up again; of a run inside another, those that are still known."""
        if opening.is_inner:
            known = [*self.recorded().values()]
            return lambda: known
        return self._reader(run.host, opening.log.store, run.id, opening.branch, opening.log.session.head)

    def _completed(self, result: Any) -> None:
        add = self.outputs.add
        add(result)
        if isinstance(result, HumanFeedbackResult):
            self.feedback.add(result)
        if self._saving is not None:
            self._saving.completed(self.cell)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _finished(self, run: Run, scheduler: Scheduler, last: Any) -> Any:
        assert self._meter is not None
        result = self._front.outcome(scheduler.results, last, self._meter)
        self._tell(run, "finished", result=result)
        return end_with(run, result)

    def _broken(self, run: Run, error: BaseException) -> Any:
        if isinstance(error, AnswerPendingError):
            return self._put_down(run, error)
        asked = run.ending.requested.result() if run.is_ending else None
        if asked is not None and asked.status is RunStatus.FAILED and asked.error is not None:
            self._tell(run, "failed", error=asked.error)
        elif isinstance(error, Exception):
            self._tell(run, "failed", error=error)
        else:
            self._tell(run, "cancelled", reason=run.end_reason)
        raise error

    def _put_down(self, run: Run, pending: AnswerPendingError) -> Any:
        """Nothing can go on without an answer: leave, to be taken up again. A run around it waits too."""
        requests: Any = pending.requests
        reason = "needs_secret" if any(one.kind == "secret" for one in requests) else "waits for an answer"
        self._tell(run, "paused", request=requests[0] if requests else None)
        if run.parent is not None:
            run.request_end(End(RunStatus.WAITING, reason, error=pending))
            raise pending
        if isinstance(self._log, LooseLog):
            waited_for(run.host, keep_waiting(self._log, run.host))
        elif self._log is None:
            raise UsageError(
                f"{self._front.name} has to wait for an answer, but nothing of it is written down: checkpoint=True"
            )
        result = Pending(run.id, self._front.name, requests)
        self._front.put_down(run.id, requests)
        run.request_end(End(RunStatus.WAITING, reason, result=result))
        return result
