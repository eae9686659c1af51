"""Jobs over HTTP: list, submit, look, steer, follow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from holdfast.hooks import check_webhook
from holdfast.jobs import define, uses_of
from holdfast.jobs._definition import read_definition
from holdfast.ports import Job, JobQuery, JobStatus
from holdfast.server._backend import Backend
from holdfast.server._drawing import PICTURES, DrawnFlow, GraphFormat, drawn
from holdfast.server._endpoint import Call, Endpoint, Limit, Name, Nothing, Words
from holdfast.server._feeds import Tail
from holdfast.server._flow_files import load_for_job
from holdfast.server._job_tail import CHANGES_FRAMES, JOB_FRAMES, ChangesTail, JobTail
from holdfast.server._journal_pages import Attempt, EventPage, EventsQuery, read_attempts, read_events
from holdfast.server._logfile import read_end, read_part, size_of
from holdfast.server._problems import Refused
from holdfast.server._stream import LAST, EventStream, follow
from holdfast.server._views import (
    ChangeView,
    JobView,
    LogView,
    StepView,
    change_view,
    job_view,
    log_view,
    step_view,
)
from holdfast.service import Submission, give_answer

Labels: TypeAlias = Annotated[dict[Name, Name], Meta(max_length=50)]
Inputs: TypeAlias = dict[Name, Any]


class JobsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs to list, newest first; every condition must hold."""

    status: list[JobStatus] = []
    flow: Name = ""
    label: list[Annotated[str, Meta(max_length=400, pattern=r"^[^\x00-\x1f=]+=[^\x00-\x1f]*$")]] = []
    """`key=value`"""
    text: Name = ""
    """found in the id, the names or the reason"""
    archived: Literal["no", "yes", "all"] = "no"
    before: Name = ""
    """the last id of the page before"""
    limit: Limit = 50


class JobPage(Struct, frozen=True):
    """Some of the jobs."""

    jobs: list[JobView]
    next: str | None
    """what to give as `before` for the next page; null when there is none"""


class NewJob(Struct, frozen=True, forbid_unknown_fields=True):
    """A job to be made of a flow of the project."""

    flow: Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$")]
    """a name, `kit/flow`, or a path inside the project"""
    inputs: Inputs = {}
    name: Name = ""
    labels: Labels = {}
    priority: Annotated[int, Meta(ge=-1000000, le=1000000)] = 0
    needs: Annotated[list[Name], Meta(max_length=100)] = []
    needs_approval: bool = False
    webhook: Annotated[str, Meta(max_length=2000)] = ""
    """an address that is told, signed, what happens to it"""


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is asked of a job."""

    reason: Words = ""


class StepName(Struct, frozen=True, forbid_unknown_fields=True):
    """Which step."""

    step: Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What a waiting step is given."""

    values: Inputs = {}
    step: Name = ""
    """the step or the id of its question; may be left out when only one waits"""


class FormatQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How to draw."""

    format: GraphFormat = "json"


class LogQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a job's live output."""

    after: Annotated[int, Meta(ge=-1, le=2**53)] = -1
    """a place that an earlier page gave as `next`; 0 for the beginning, -1 for the end of it"""


class LogPage(Struct, frozen=True):
    """A part of a job's live output."""

    lines: list[LogView]
    next: int | None
    """where to go on; null at the end"""


class Output(Struct, frozen=True):
    """What a job gave."""

    outputs: Any


# -- lists and new ones --------------------------------------------------------------------------------------------


async def list_jobs(backend: Backend, call: Call[JobsQuery, None]) -> JobPage:
    query = call.query
    archived = {"no": False, "yes": True, "all": None}[query.archived]
    labels = dict(one.split("=", 1) for one in query.label)
    wanted = JobQuery(tuple(query.status), query.flow, labels, query.text, archived, query.before, query.limit)
    found = await backend.service(call.who).browse(wanted)
    return JobPage([*map(job_view, found)], found[-1].id if len(found) == query.limit else None)


async def submit(backend: Backend, call: Call[Nothing, NewJob]) -> JobView:
    new = call.body
    if new.webhook:
        _ = backend.outbox  # refused where nobody would be told
        check_webhook(new.webhook, backend.queue.hooks)
    flow, inputs = await asyncio.to_thread(load_for_job, backend.project, new.flow, new.inputs)
    submission = Submission(
        flow.name,
        define(flow, backend.project or ""),
        inputs,
        new.name,
        new.labels,
        new.priority,
        tuple(use for use in uses_of(flow) if use != f"flow:{flow.name}"),
        tuple(new.needs),
        new.needs_approval,
        new.webhook,
    )
    (job,) = await backend.service(call.who).submit(submission)
    return job_view(job)


# -- one job -------------------------------------------------------------------------------------------------------


async def _job(backend: Backend, call: Call[Any, Any]) -> Job:
    """The job that the path names; what people type, a beginning or an end of the id, will do."""
    service = backend.service(call.who)
    return await service.get(await service.resolve(call.path["job_id"]))


async def show(backend: Backend, call: Call[Nothing, None]) -> JobView:
    return job_view(await _job(backend, call))


async def steps(backend: Backend, call: Call[Nothing, None]) -> list[StepView]:
    return [*map(step_view, await backend.queue.runner.steps(await _job(backend, call)))]


async def history(backend: Backend, call: Call[Nothing, None]) -> list[ChangeView]:
    job = await _job(backend, call)
    return [*map(change_view, await backend.service(call.who).history(job.id))]


async def outputs(backend: Backend, call: Call[Nothing, None]) -> Output:
    job = await _job(backend, call)
    if job.outputs is None:
        raise Refused(409, "no_outputs", f"job {job.id} is {job.status} and has no outputs; only a completed one has")
    return Output(msgspec.json.decode(job.outputs))


async def graph(backend: Backend, call: Call[FormatQuery, None]) -> Response:
    """The flow as it was when the job was submitted, whatever became of the file."""
    job = await _job(backend, call)
    return await asyncio.to_thread(lambda: drawn(read_definition(job.definition).flow, call.query.format))


async def read_log(backend: Backend, call: Call[LogQuery, None]) -> LogPage:
    path = backend.queue.logs.path((await _job(backend, call)).id)
    if call.query.after < 0:
        lines = await asyncio.to_thread(read_end, path, size_of(path))
        return LogPage([log_view(line) for line in lines], None)
    part = await asyncio.to_thread(read_part, path, call.query.after)
    return LogPage([log_view(line) for _, line in part], part[-1][0] if part else None)


async def events(backend: Backend, call: Call[EventsQuery, None]) -> EventPage:
    return await read_events(backend.journal, (await _job(backend, call)).id, call.query)


async def attempts(backend: Backend, call: Call[Nothing, None]) -> list[Attempt]:
    return await read_attempts(backend.journal, (await _job(backend, call)).id)


# -- steering ------------------------------------------------------------------------------------------------------


async def approve(backend: Backend, call: Call[Nothing, Nothing]) -> JobView:
    return job_view(await backend.service(call.who).approve((await _job(backend, call)).id))


async def pause(backend: Backend, call: Call[Nothing, Reason]) -> JobView:
    return job_view(await backend.service(call.who).pause((await _job(backend, call)).id, call.body.reason))


async def resume(backend: Backend, call: Call[Nothing, Nothing]) -> JobView:
    return job_view(await backend.service(call.who).resume((await _job(backend, call)).id))


async def cancel(backend: Backend, call: Call[Nothing, Reason]) -> JobView:
    return job_view(await backend.service(call.who).cancel((await _job(backend, call)).id, call.body.reason))


async def retry(backend: Backend, call: Call[Nothing, Nothing]) -> JobView:
    return job_view(await backend.service(call.who).retry((await _job(backend, call)).id))


async def rerun(backend: Backend, call: Call[Nothing, StepName]) -> JobView:
    job = await _job(backend, call)
    known = [step.path for step in await backend.queue.runner.steps(job)]
    if call.body.step not in known:
        raise Refused(404, "unknown_step", f"job {job.id} has no step {call.body.step!r}; it has: {', '.join(known)}")
    return job_view(await backend.service(call.who).rerun(job.id, call.body.step))


async def answer(backend: Backend, call: Call[Nothing, Answer]) -> JobView:
    job = await _job(backend, call)
    return job_view(await give_answer(backend.service(call.who), job.id, call.body.values, call.body.step))


async def archive(backend: Backend, call: Call[Nothing, Nothing]) -> JobView:
    job = await _job(backend, call)
    await backend.service(call.who).archive(job.id)
    return job_view(await backend.service(call.who).get(job.id))


async def unarchive(backend: Backend, call: Call[Nothing, Nothing]) -> JobView:
    job = await _job(backend, call)
    await backend.service(call.who).unarchive(job.id)
    return job_view(await backend.service(call.who).get(job.id))


async def delete(backend: Backend, call: Call[Nothing, None]) -> None:
    job = await _job(backend, call)
    await backend.service(call.who).delete(job.id)
    await backend.queue.runner.forget(job.id)
    await asyncio.to_thread(backend.queue.logs.delete, job.id)


# -- following -----------------------------------------------------------------------------------------------------


class StreamQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to begin."""

    after: Annotated[str, Meta(max_length=200)] = ""
    """an id, `start` for everything there is, or empty for a snapshot; the header Last-Event-ID goes first"""


def follow_call(backend: Backend, call: Call[StreamQuery, None], key: str, make: Callable[[], Tail]) -> EventStream:
    """The stream that a call asks for, from where the client wants to go on, for as long as its token counts."""
    after = call.request.headers.get("last-event-id", "") or call.query.after
    return follow(backend.feeds, key, make, after, may_stay=lambda: backend.still_lets_in(call.who))


async def stream(backend: Backend, call: Call[StreamQuery, None]) -> EventStream:
    job = await _job(backend, call)
    return follow_call(backend, call, f"job {job.id}", lambda: JobTail(backend.queue, backend.journal, job.id))


async def stream_all(backend: Backend, call: Call[StreamQuery, None]) -> EventStream:
    queue = backend.queue
    return follow_call(backend, call, "jobs", lambda: ChangesTail(queue))


JOB = "/api/v1/jobs/{job_id}"


def _look(path: str, handler: Any, summary: str, answer: Any, **more: Any) -> Endpoint:
    return Endpoint(
        method="GET", path=path, role="read", handler=handler, summary=summary, group="jobs", answer=answer, **more
    )


def _do(name: str, handler: Any, summary: str, body: type[Struct] = Nothing) -> Endpoint:
    return Endpoint(
        method="POST", path=f"{JOB}/{name}", role="operate", handler=handler, summary=summary, group="jobs",
        body=body, answer=JobView,
    )  # fmt: skip


ENDPOINTS = (
    _look("/api/v1/jobs", list_jobs, "List jobs, newest first", JobPage, query=JobsQuery),
    Endpoint(
        method="POST", path="/api/v1/jobs", role="operate", handler=submit, summary="Submit a job", group="jobs",
        body=NewJob, answer=JobView, status=201,
    ),
    _look("/api/v1/stream", stream_all, "Follow the statuses of all jobs", None, query=StreamQuery,
          media="text/event-stream", frames=CHANGES_FRAMES | LAST),
    _look(JOB, show, "Show a job", JobView),
    Endpoint(
        method="DELETE", path=JOB, role="admin", handler=delete, summary="Delete an ended job and all that is kept of it",
        group="jobs", status=204,
    ),
    _look(f"{JOB}/steps", steps, "List a job's steps", list[StepView]),
    _look(f"{JOB}/attempts", attempts, "List every attempt of its steps", list[Attempt]),
    _look(f"{JOB}/history", history, "List every change of its status", list[ChangeView]),
    _look(f"{JOB}/outputs", outputs, "Show what it gave", Output),
    _look(f"{JOB}/graph", graph, "Draw its flow", DrawnFlow, query=FormatQuery, other_media=PICTURES),
    _look(f"{JOB}/log", read_log, "Read its live output", LogPage, query=LogQuery),
    _look(f"{JOB}/events", events, "Read its journal", EventPage, query=EventsQuery),
    _look(f"{JOB}/stream", stream, "Follow it", None, query=StreamQuery, media="text/event-stream",
          frames=JOB_FRAMES | LAST),
    _do("approve", approve, "Let it into the queue"),
    _do("pause", pause, "Start no more of its steps", Reason),
    _do("resume", resume, "Go on with it"),
    _do("cancel", cancel, "End it", Reason),
    _do("retry", retry, "Take it up at the steps that failed"),
    _do("rerun", rerun, "Run a step again, and what depends on it", StepName),
    _do("answer", answer, "Give a waiting step what it waits for", Answer),
    _do("archive", archive, "Put it out of sight"),
    _do("unarchive", unarchive, "Bring it back into sight"),
)  # fmt: skip
