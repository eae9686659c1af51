"""Flows inside steps: child runs that share their job's journal, and are taken up again with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from holdfast.checkpoints import Progress, RunLog
from holdfast.errors import JobFailedError, JobStepError
from holdfast.flowfiles import FlowFile
from holdfast.graph import Rerun, evolve
from holdfast.jobs._body import Beginning, JobBody
from holdfast.jobs._calls import Call
from holdfast.jobs._categories import category_of
from holdfast.jobs._compile import compile_flow
from holdfast.jobs._definition import variables_of
from holdfast.jobs._inside import flow_now, flows_inside
from holdfast.jobs._meter import JobMeter
from holdfast.jobs._scheduler import outputs_of
from holdfast.jobs._scope import Parked, Scope
from holdfast.jobs._worked import worked_us
from holdfast.runs import End, Run, RunEntity, RunRef, RunStatus


async def run_inside(call: Call, flow: FlowFile, given: Mapping[str, Any], item: str = "") -> Any:
    """The outputs of a flow that a step runs. Raises JobStepError if it failed, AnswerPendingError if it must wait.

    Which run that is follows from the step's execution and the item, so a job that is taken up again goes on with the same.
    """
    shared = call.scope.shared
    name = f"{call.execution.key}/{call.execution.tries}{'f' if call.execution.fallback else ''}"
    place = f"{name}.{item}" if item else name
    called_as = f"{call.run.id} {place}"
    scope = _scope(call, flow, given, item)
    is_wanted = shared.is_passed("/".join(scope.path))
    if called_as in shared.done and not is_wanted:
        return shared.done[called_as]
    before = shared.parked.pop(called_as, None) or await _recorded(call, flow, place, was_done=called_as in shared.done)
    if before is not None and before.progress.is_finished and not is_wanted:
        return _outputs(before.progress)
    if before is None and call.execution.inside and (old := await _recalled(call, item)) is not None:
        if old[1].is_finished and item and item != call.execution.inside.partition("/")[0]:
            return _outputs(old[1])
        beginning = Beginning(_log(call), _from_inside(call, flow, old[1], item), called_as, continues=old[0])
    else:
        known = (before.progress, before.worked_us) if before is not None else (None, 0)
        beginning = Beginning(_log(call), known[0], called_as, worked_us=known[1])
    body = JobBody(scope, beginning)
    end = await _run(call, flow, body, before)
    if end.status is RunStatus.COMPLETED:
        shared.done[called_as] = end.result
        return end.result
    if end.status is RunStatus.WAITING and end.error is not None:
        assert body.scheduler is not None
        shared.parked[called_as] = Parked(body.scheduler.run.id, body.progress(), body.worked_us(call.now_us))
        raise end.error
    if end.status is RunStatus.CANCELLED:
        raise asyncio.CancelledError
    raise _failure(call, flow, end)


def _outputs(progress: Progress) -> dict[str, Any]:
    return outputs_of(progress.graph, progress.standing, progress.results)


async def _recalled(call: Call, item: str) -> tuple[str, Progress] | None:
    """The flow that the step ran here before: its run, and how far it had come."""
    log, recalled, key = _log(call), call.scope.shared.recalled, f"{call.run.id} {call.execution.key}"
    if key not in recalled and log is not None:
        recalled[key] = await flows_inside(log, call.run.id, call.step.name, call.execution.number)
    return recalled.get(key, {}).get(item)


def _from_inside(call: Call, flow: FlowFile, old: Progress, item: str) -> Progress:
    """How far it is when one of its steps is to run again, if that is in this flow: what comes before it is done."""
    graph, path = compile_flow(flow), call.execution.inside
    named, _, path = path.partition("/") if item else (item, "", path)
    step, _, inside = path.partition("/")
    standing = old.standing
    if named == item and step in graph.by_name:
        standing = evolve(graph, standing, Rerun(step, inside))
    return Progress(graph, standing, results=old.results, event_ids=old.event_ids)


def forget_inside(call: Call) -> None:
    """A step is over: what was kept of the flows inside it is not needed any more."""
    shared, mine = call.scope.shared, f"{call.run.id} {call.execution.key}/"
    shared.done = {key: value for key, value in shared.done.items() if not key.startswith(mine)}
    shared.recalled.pop(mine.removesuffix("/"), None)


def _log(call: Call) -> RunLog | None:
    return call.run.journal if isinstance(call.run.journal, RunLog) else None


async def _recorded(call: Call, flow: FlowFile, place: str, *, was_done: bool) -> Parked | None:
    log = _log(call)
    if log is None:
        return None
    found = await flow_now(log, call.run.id, place) if was_done else log.recorded_call(call.run.id, place)
    if found is None:
        return None
    is_timed = flow.limits.max_duration_minutes is not None
    worked = await worked_us(log.store, log.session.root_run_id, log.session.branch, found[0]) if is_timed else 0
    return Parked(*found, worked)


def _scope(call: Call, flow: FlowFile, given: Mapping[str, Any], item: str) -> Scope:
    variables = variables_of(flow, given, call.scope.engine.secret)
    meter = JobMeter(f"flow {flow.name}", flow.limits, outer=call.meter, is_job=True)
    path = (*call.scope.path, call.step.name, *((item,) if item else ()))
    return Scope(call.scope.shared, flow, variables.values, meter, path)


async def _run(call: Call, flow: FlowFile, body: JobBody, before: Parked | None) -> End:
    run: Run = call.scope.engine.runtime.start(
        body.run,
        name=flow.name,
        entity=RunEntity(call.scope.shared.job_id, flow.name, "job"),
        resume=RunRef(before.run_id, _begin_as(before.progress)) if before is not None else None,
    )
    try:
        return await run.ended()
    except asyncio.CancelledError:
        run.depart("the step around it was cancelled")
        while not run.ending.done.done():
            try:
                await run.ended()
            except asyncio.CancelledError:
                continue
        raise


def _begin_as(progress: Progress) -> RunStatus:
    return RunStatus.FAILED if progress.standing.errors else RunStatus.CREATED


def _failure(call: Call, flow: FlowFile, end: End) -> JobStepError:
    error = end.error
    reason = error.reason if isinstance(error, JobFailedError) else ""
    if reason == "limit_exceeded":
        call.scope.meter.check()  # the limit may be that of a flow around this one, which ends it too
        return JobStepError(f"flow {flow.name}: {error}", category="limit")
    cause = error.__cause__ if error is not None else None
    return JobStepError(
        f"flow {flow.name} failed: {error}", category=category_of(cause) if cause is not None else "failed"
    )
