"""Runs and their checkpoints over HTTP: of jobs, and of flows, crews and agents of this process."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from holdfast.checkpoints import (
    Difference,
    Found,
    Listed,
    compare_checkpoints,
    definition_of,
    describe,
    find,
    fork_checkpoint,
    list_checkpoints,
    list_trees,
    locate,
)
from holdfast.deltas import locate as spell
from holdfast.errors import UsageError
from holdfast.graph import Graph
from holdfast.ids import new_id
from holdfast.ports import JobStatus, Mark, RunInfo
from holdfast.runs import Run, RunStatus
from holdfast.server._backend import Backend
from holdfast.server._drawing import PICTURES, DrawnFlow
from holdfast.server._endpoint import Call, Endpoint, Limit, Name, Nothing
from holdfast.server._journal_pages import EventPage, EventsQuery, read_events
from holdfast.server._plain import plain_json
from holdfast.server._problems import Refused
from holdfast.server._routes_jobs import FormatQuery, StreamQuery, follow_call
from holdfast.server._run_drawing import drawn_graph
from holdfast.server._run_tail import RUN_FRAMES, RunTail, live_view
from holdfast.server._stream import LAST, EventStream
from holdfast.server._views import JobView, RunView, job_view, moment, run_view


class RunsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which runs, the last changed first; those of this process that are not written down come before."""

    status: Name = ""
    limit: Limit = 50


class CheckpointsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which checkpoints, newest first."""

    run: Name = ""
    limit: Limit = 50


class DiffQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which two: checkpoints, or runs for their heads."""

    a: Annotated[str, Meta(min_length=1, max_length=200)]
    b: Annotated[str, Meta(min_length=1, max_length=200)]


class CheckpointView(Struct, frozen=True):
    """A checkpoint of a list."""

    id: str
    run_id: str
    run: str
    branch: str
    trigger: str
    subject: str
    position: int
    size: int
    at: datetime
    parent_id: str | None


class RecordedStep(Struct, frozen=True):
    """One execution of a step, as far as a checkpoint knows it."""

    step: str
    status: str
    attempts: int | None
    result: Any
    route: str | None
    error: str


class CheckpointDetails(Struct, frozen=True):
    """All that a checkpoint holds."""

    id: str
    run_id: str
    branch: str
    position: int
    head: int
    """where its branch has got to since"""
    program: str
    state: Any
    steps: list[RecordedStep]
    usage: dict[str, int]


class ChangeOfState(Struct, frozen=True):
    """One difference between two states."""

    kind: str
    path: str
    before: Any
    after: Any


class ResultChange(Struct, frozen=True):
    """A step that gave something else."""

    step: str
    before: Any
    after: Any


class DiffView(Struct, frozen=True):
    """What differs between two checkpoints."""

    a: str
    b: str
    state: list[ChangeOfState]
    only_a: list[str]
    only_b: list[str]
    results: list[ResultChange]


class Fork(Struct, frozen=True, forbid_unknown_fields=True):
    """A branch to begin at a checkpoint."""

    branch: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
    state: dict[Name, Any] = {}
    """fields of the state that are changed, with their new values"""


class Forked(Struct, frozen=True):
    """The checkpoint that a new branch begins with."""

    id: str
    run_id: str
    branch: str
    position: int


class BranchView(Struct, frozen=True):
    """A branch of a run."""

    name: str
    parent: str | None
    """the branch it began on; null for the first"""
    fork: int
    """the last position it shares with its parent"""
    head: int
    """its last position"""
    created: datetime
    is_current: bool
    """whether the run goes on here: the branch that was begun last"""


class TreeView(Struct, frozen=True):
    """A run's branches and checkpoints, oldest first."""

    run: RunView
    branches: list[BranchView]
    checkpoints: list[CheckpointView]
    job: JobView | None
    """the job that the run is of, if this server has it"""


# -- runs ----------------------------------------------------------------------------------------------------------


def _live(backend: Backend, run_id: str) -> Run | None:
    return next((run for run in backend.runtime.runs() if run.id == run_id and run.parent is None), None)


async def list_runs(backend: Backend, call: Call[RunsQuery, None]) -> list[RunView]:
    query = call.query
    stored = await backend.journal.runs(status=query.status or None, limit=query.limit)
    roots = {run.id: run for run in backend.runtime.runs() if run.parent is None}
    known = {info.root_run_id for info in stored}
    unstored = [
        live_view(run)
        for run in roots.values()
        if run.id not in known and run.journal is None and query.status in ("", run.status)
    ]
    return [*unstored, *(run_view(info, is_live=info.root_run_id in roots) for info in stored)][: query.limit]


async def show_run(backend: Backend, call: Call[Nothing, None]) -> RunView:
    run, info = await _known(backend, call.path["run_id"])
    if info is not None:
        return run_view(info, is_live=run is not None)
    assert run is not None
    return live_view(run)


async def _known(backend: Backend, run_id: str) -> tuple[Run | None, RunInfo | None]:
    run, info = _live(backend, run_id), await backend.journal.run(run_id)
    if run is None and info is None:
        raise Refused(404, "unknown_run", f"there is no run {run_id}")
    return run, info


async def run_graph(backend: Backend, call: Call[FormatQuery, None]) -> Response:
    """The graph that a run was started with; an empty one for a run that has none."""
    run, info = await _known(backend, call.path["run_id"])
    if info is not None:
        graph = definition_of(info).graph
    else:
        make = getattr(run.speaker if run is not None else None, "graph", None)
        graph = make() if callable(make) else Graph(name=run.name if run is not None else "", nodes=())
    return await asyncio.to_thread(drawn_graph, graph, call.query.format)


async def run_tree(backend: Backend, call: Call[Nothing, None]) -> TreeView:
    run_id = call.path["run_id"]
    await _known(backend, run_id)
    trees = await list_trees(backend.journal, run_id)
    if not trees:
        raise Refused(404, "no_checkpoints", f"run {run_id} is not written down, so it has no checkpoints")
    tree, current = trees[0], (await locate(backend.journal, run_id)).branch
    branches = [
        BranchView(one.name, one.parent, one.fork_seq, one.head, moment(one.created_us), one.name == current)
        for one in tree.branches
    ]
    job = await backend.queue.jobs.job(run_id) if backend.has_queue else None
    return TreeView(
        run_view(tree.run, is_live=_live(backend, run_id) is not None), branches, [*map(_listed, tree.checkpoints)],
        None if job is None else job_view(job),
    )  # fmt: skip


async def run_events(backend: Backend, call: Call[EventsQuery, None]) -> EventPage:
    await _known(backend, call.path["run_id"])
    return await read_events(backend.journal, call.path["run_id"], call.query)


async def run_stream(backend: Backend, call: Call[StreamQuery, None]) -> EventStream:
    run_id = call.path["run_id"]
    run, _ = await _known(backend, run_id)
    return follow_call(backend, call, f"run {run_id}", lambda: RunTail(backend.journal, run_id, run))


# -- checkpoints ---------------------------------------------------------------------------------------------------


async def _found(backend: Backend, named: str) -> Found:
    try:
        return await find(backend.journal, named)
    except UsageError as error:
        raise Refused(404, "unknown_checkpoint", str(error)) from error


def _listed(one: Listed) -> CheckpointView:
    mark = one.mark
    return CheckpointView(
        mark.id, one.run.root_run_id, one.run.name, mark.branch, mark.trigger, one.subject, mark.seq, mark.size,
        moment(mark.at_us), mark.parent_id,
    )  # fmt: skip


async def checkpoints(backend: Backend, call: Call[CheckpointsQuery, None]) -> list[CheckpointView]:
    run = (await _found(backend, call.query.run)).run.root_run_id if call.query.run else None
    return [*map(_listed, await list_checkpoints(backend.journal, run, limit=call.query.limit))]


async def show_checkpoint(backend: Backend, call: Call[Nothing, None]) -> CheckpointDetails:
    found = await describe(backend.journal, await _found(backend, call.path["checkpoint_id"]))
    steps = [
        RecordedStep(step.key, step.status, step.attempts, plain_json(step.result), step.route, step.error)
        for step in found.steps
    ]
    return CheckpointDetails(
        found.found.id, found.found.run.root_run_id, found.branch, found.seq, found.head, found.made_by,
        plain_json(found.state), steps, found.usage,
    )  # fmt: skip


async def diff(backend: Backend, call: Call[DiffQuery, None]) -> DiffView:
    a, b = await _found(backend, call.query.a), await _found(backend, call.query.b)
    return _diff_view(a, b, await compare_checkpoints(backend.journal, a, b))


def _diff_view(a: Found, b: Found, found: Difference) -> DiffView:
    changes = [
        ChangeOfState(change.kind, spell(change.path), plain_json(change.before), plain_json(change.after))
        for change in found.state
    ]
    results = [ResultChange(key, plain_json(before), plain_json(after)) for key, before, after in found.results]
    return DiffView(a.id, b.id, changes, [*found.only_a], [*found.only_b], results)


async def fork(backend: Backend, call: Call[Any, Fork]) -> Forked:
    found = await _found(backend, call.path["checkpoint_id"])
    mark: Mark = await fork_checkpoint(
        backend.journal, found, branch=call.body.branch, state=call.body.state, now_us=backend.now_us(), ids=new_id
    )
    return Forked(mark.id, mark.root_run_id, mark.branch, mark.seq)


async def resume(backend: Backend, call: Call[Any, Any]) -> JobView:
    """Go on with the job that a checkpoint belongs to, on the branch that was begun last."""
    found = await _found(backend, call.path["checkpoint_id"])
    run_id = found.run.root_run_id
    job = await backend.queue.jobs.job(run_id) if backend.has_queue else None
    if job is None:
        raise Refused(
            409, "not_a_job",
            f"run {run_id} is no job, and a server does not import programs: resume it in Python, or with "
            f"`holdfast checkpoint resume {found.id} --flow MODULE:CLASS`",
        )  # fmt: skip
    service = backend.service(call.who)
    if job.status in (JobStatus.COMPLETED, JobStatus.FAILED) and not RunStatus(found.run.status).is_terminal:
        return job_view(await service.go_on(job.id))
    if job.status is JobStatus.COMPLETED:
        raise Refused(409, "transition", f"job {job.id} is completed: fork one of its checkpoints, then resume that")
    if job.status is JobStatus.FAILED:
        return job_view(await service.retry(job.id))
    return job_view(await service.resume(job.id))


def _look(path: str, handler: Any, summary: str, answer: Any, group: str, **more: Any) -> Endpoint:
    return Endpoint(
        method="GET", path=path, role="read", handler=handler, summary=summary, group=group, answer=answer, **more
    )


RUN, CHECKPOINT = "/api/v1/runs/{run_id}", "/api/v1/checkpoints/{checkpoint_id}"
ENDPOINTS = (
    _look("/api/v1/runs", list_runs, "List root runs", list[RunView], "runs", query=RunsQuery),
    _look(RUN, show_run, "Show a run", RunView, "runs"),
    _look(f"{RUN}/events", run_events, "Read its journal", EventPage, "runs", query=EventsQuery),
    _look(f"{RUN}/graph", run_graph, "Draw its graph", DrawnFlow, "runs", query=FormatQuery, other_media=PICTURES),
    _look(f"{RUN}/tree", run_tree, "Show its branches and checkpoints", TreeView, "runs"),
    _look(f"{RUN}/stream", run_stream, "Follow it", None, "runs", query=StreamQuery, media="text/event-stream",
          frames=RUN_FRAMES | LAST),
    _look("/api/v1/checkpoints", checkpoints, "List checkpoints", list[CheckpointView], "checkpoints",
          query=CheckpointsQuery),
    _look("/api/v1/checkpoints/diff", diff, "Compare two checkpoints", DiffView, "checkpoints", query=DiffQuery),
    _look(CHECKPOINT, show_checkpoint, "Show what a checkpoint holds", CheckpointDetails, "checkpoints"),
    Endpoint(
        method="POST", path=f"{CHECKPOINT}/fork", role="operate", handler=fork, group="checkpoints",
        summary="Begin a branch at a checkpoint, with parts of the state changed; nothing runs", body=Fork, answer=Forked,
        status=201,
    ),
    Endpoint(
        method="POST", path=f"{CHECKPOINT}/resume", role="operate", handler=resume, group="checkpoints",
        summary="Go on with the job of a checkpoint, on the branch that was begun last", body=Nothing, answer=JobView,
    ),
)  # fmt: skip
