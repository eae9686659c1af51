"""The server itself over HTTP: health, metrics, settings, who calls, what is held, which agents there are."""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

import holdfast
from holdfast.errors import HoldfastError
from holdfast.logs import get_logger
from holdfast.ports import Backlog, Caps, DeliveryStatus
from holdfast.resources import Listed, SystemProcessTable, list_held
from holdfast.runs import Holding
from holdfast.server._backend import Backend
from holdfast.server._endpoint import Call, Endpoint, Name, Nothing
from holdfast.server._metrics import by_label, family
from holdfast.server._problems import Refused
from holdfast.server._settings import Settings
from holdfast.server._tokens import Role
from holdfast.server._views import moment

log = get_logger("server")
COOKIE = "holdfast_token"


class Health(Struct, frozen=True):
    """Whether the server lives, or can work."""

    status: Literal["ok"]


class Me(Struct, frozen=True):
    """Who calls."""

    name: str
    role: Role


class SignIn(Struct, frozen=True, forbid_unknown_fields=True):
    """A token, to be kept in a cookie that no script can read."""

    token: Annotated[str, Meta(min_length=1, max_length=200)]


class HeldView(Struct, frozen=True):
    """Something that a run holds."""

    kind: str
    name: str
    runs: list[str]
    """the root runs that hold it; none for what is kept warm"""
    state: str = "held"
    """`held`, `idle` (kept warm), `starting`, `orphaned` (its owner is dead), `elsewhere` (cannot be seen from here)"""
    pid: int | None = None
    processes: int = 0
    memory: int | None = None
    """bytes, of all its processes"""
    since: datetime | None = None


class AgentView(Struct, frozen=True):
    """An agent that steps can name."""

    name: str
    title: str
    installed: bool
    install: str
    source: str


class WorkerView(Struct, frozen=True):
    """A process that serves the queue."""

    id: str
    pid: int
    serving: bool
    started: datetime
    held_until: datetime


class QueueView(Struct, frozen=True):
    """How much runs at once."""

    places: int
    """jobs that one worker runs"""
    total: int | None
    """jobs of all workers together; null for no bound"""
    caps: dict[str, int]
    """by use: `flow:NAME`, `executor:NAME`, `agent:NAME`"""
    counts_at_once: bool
    """whether a change counts now, or for workers that start from now on"""


class SettingsView(Struct, frozen=True):
    """How the server is set up."""

    version: str
    project: str | None
    has_queue: bool
    limits: dict[str, Any]
    queue: QueueView | None


Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]


class NewSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How much shall run at once, all of it: what is left out has no bound."""

    places: Annotated[int, Meta(ge=1, le=10_000)]
    total: Count | None = None
    caps: Annotated[dict[Name, Count], Meta(max_length=200)] = {}


# -- health --------------------------------------------------------------------------------------------------------


async def healthz(backend: Backend, call: Call[Nothing, None]) -> Health:
    return Health("ok")


async def readyz(backend: Backend, call: Call[Nothing, None]) -> Health:
    """Ready means: the store can be read, and the server is not stopping."""
    if backend.feeds.closing.is_set():
        raise Refused(503, "closing", "the server is stopping")
    try:
        await backend.journal.runs(limit=1)
        if backend.has_queue:
            await backend.queue.jobs.last_change()
    except HoldfastError as error:  # what it says may name files, and everybody may ask
        log.warning("not ready: %s", error)
        raise Refused(503, "not_ready", "the store cannot be read; the server's log says why") from error
    return Health("ok")


async def metrics(backend: Backend, call: Call[Nothing, None]) -> Response:
    parts = [
        family("holdfast_http_requests_total", "counter", "Calls that were answered.", backend.metrics.calls.items()),
        family("holdfast_http_seconds_total", "counter", "Time spent on calls.", backend.metrics.seconds.items()),
        family("holdfast_stream_clients", "gauge", "Streams that are open.", [((), backend.feeds.clients)]),
        family("holdfast_stream_dropped_total", "counter", "Streams' clients that were dropped.",
               backend.metrics.dropped.items()),
        family("holdfast_runs", "gauge", "Root runs of this process.",
               [((), sum(run.parent is None for run in backend.runtime.runs()))]),
        family("holdfast_held", "gauge", "What runs of this process hold.",
               by_label("kind", Counter(held.kind for held in backend.runtime.inventory()))),
    ]  # fmt: skip
    if backend.endings is not None:
        jobs = backend.queue.jobs
        counts = {str(status): float(count) for status, count in (await jobs.count()).items()}
        parts += [
            family("holdfast_jobs", "gauge", "Jobs that have not ended.", by_label("status", counts)),
            family("holdfast_jobs_ended_total", "counter", "Jobs that ended, whichever process ran them.",
                   by_label("status", await backend.endings.read())),
            family("holdfast_workers", "gauge", "Workers that serve the queue.",
                   [((), sum(worker.serving for worker in await jobs.workers()))]),
        ]  # fmt: skip
        if backend.queue.outbox is not None:
            parts += _delivery_parts(await backend.queue.outbox.backlog(), backend.now_us())
    return Response("".join(parts), media_type="text/plain; version=0.0.4; charset=utf-8")


def _delivery_parts(behind: Backlog, now_us: int) -> list[str]:
    counts = {name: getattr(behind, name) for name in get_args(DeliveryStatus)}
    age = 0.0 if behind.oldest_us is None else max((now_us - behind.oldest_us) / 1_000_000, 0.0)
    return [
        family("holdfast_deliveries", "gauge", "What hooks and webhooks are told, as far as it is kept.",
               by_label("status", counts)),
        family("holdfast_deliveries_failing", "gauge", "Pending ones that did not arrive when they were tried last.",
               [((), behind.failing)]),
        family("holdfast_delivery_oldest_seconds", "gauge", "How long the oldest pending one is waiting.", [((), age)]),
    ]  # fmt: skip


# -- who calls -----------------------------------------------------------------------------------------------------


async def me(backend: Backend, call: Call[Nothing, None]) -> Me:
    assert call.who is not None
    return Me(call.who.name, call.who.role)


async def sign_in(backend: Backend, call: Call[Nothing, SignIn]) -> Response:
    who = backend.identify(call.body.token, call.request.client.host if call.request.client else "")
    response = Response(msgspec.json.encode(Me(who.name, who.role)), media_type="application/json")
    response.set_cookie(
        COOKIE, call.body.token, path=call.request.scope.get("root_path", "") or "/", httponly=True, samesite="strict",
        secure=call.request.url.scheme == "https",
    )  # fmt: skip
    return response


async def sign_out(backend: Backend, call: Call[Nothing, None]) -> Response:
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path=call.request.scope.get("root_path", "") or "/")
    return response


# -- what there is -------------------------------------------------------------------------------------------------


async def settings(backend: Backend, call: Call[Nothing, None]) -> SettingsView:
    return _settings_view(backend)


def _settings_view(backend: Backend) -> SettingsView:
    limits = {name: getattr(backend.settings, name) for name in Settings.__struct_fields__}
    project = None if backend.project is None else backend.project.name
    return SettingsView(holdfast.__version__, project, backend.has_queue, limits, _queue_view(backend))


def _queue_view(backend: Backend) -> QueueView | None:
    tuning = backend.queue.tuning if backend.has_queue else None
    if tuning is None:
        return None
    now = tuning.now()
    return QueueView(now.places, now.caps.total, now.caps.by_use, tuning.counts_at_once)


async def change_settings(backend: Backend, call: Call[Nothing, NewSettings]) -> SettingsView:
    new, tuning = call.body, backend.queue.tuning
    if tuning is None:
        raise Refused(409, "fixed", "what runs at once is not this server's to say")
    tuning.change(new.places, Caps(new.total, new.caps))
    return _settings_view(backend)


async def resources(backend: Backend, call: Call[Nothing, None]) -> list[HeldView]:
    roots = {run.id: run.root_id for run in backend.runtime.runs()}
    listed = [] if backend.ledger is None else await list_held(backend.ledger, SystemProcessTable())
    in_ledger = {(one.row.kind, one.row.name, run_id) for one in listed for run_id in one.row.runs or ("",)}
    here = [one for one in backend.runtime.inventory() if (one.kind, one.name, one.run_id) not in in_ledger]
    return [*(_held_here(one, roots) for one in here), *(_held_in_ledger(one, roots) for one in listed)]


def _held_here(one: Holding, roots: Mapping[str, str]) -> HeldView:
    return HeldView(one.kind, one.name, [roots.get(one.run_id, one.run_id)] if one.run_id else [])


def _held_in_ledger(one: Listed, roots: Mapping[str, str]) -> HeldView:
    """What the ledger has: of every process that shares the store."""
    row = one.row
    pid = row.leader.pid if row.leader is not None else None
    runs = [*dict.fromkeys(roots.get(run_id, run_id) for run_id in row.runs)]
    memory = one.memory_bytes if one.processes else None
    return HeldView(row.kind, row.name, runs, one.state, pid, len(one.processes), memory, moment(row.since_us))


async def agents(backend: Backend, call: Call[Nothing, None]) -> list[AgentView]:
    return await asyncio.to_thread(_agents, None if backend.project is None else backend.project / ".holdfast")


def _agents(home: Path | None) -> list[AgentView]:
    """Those of this installation, and those that the project adds; none without the extra `acp`."""
    try:
        acp: Any = importlib.import_module("holdfast.acp")
    except ImportError:
        return []
    known = acp.known_agents(home)
    return [AgentView(name, one.title, one.is_installed, one.install, one.source) for name, one in known.items()]


async def workers(backend: Backend, call: Call[Nothing, None]) -> list[WorkerView]:
    return [
        WorkerView(one.id, one.owner.process.pid, one.serving, moment(one.started_us), moment(one.held_until_us))
        for one in await backend.queue.jobs.workers()
    ]


def _look(path: str, handler: Any, summary: str, answer: Any, role: Role | None = "read", **more: Any) -> Endpoint:
    return Endpoint(
        method="GET", path=path, role=role, handler=handler, summary=summary, group="server", answer=answer, **more
    )


ENDPOINTS = (
    _look("/healthz", healthz, "Say that the server lives", Health, None),
    _look("/readyz", readyz, "Say whether it can work", Health, None),
    _look("/metrics", metrics, "Counts for Prometheus", None, media="text/plain"),
    _look("/api/v1/me", me, "Show who calls", Me),
    Endpoint(
        method="POST", path="/api/v1/session", role=None, handler=sign_in, group="server", body=SignIn, answer=Me,
        summary="Keep a token in a cookie",
    ),
    Endpoint(
        method="DELETE", path="/api/v1/session", role=None, handler=sign_out, group="server", status=204,
        summary="Forget the cookie",
    ),
    _look("/api/v1/settings", settings, "Show how the server is set up", SettingsView),
    Endpoint(
        method="PUT", path="/api/v1/settings", role="admin", handler=change_settings, group="server", body=NewSettings,
        answer=SettingsView, summary="Say how much runs at once; it is kept for later starts, where flags go first",
    ),
    _look("/api/v1/resources", resources, "List what runs hold now", list[HeldView]),
    _look("/api/v1/agents", agents, "List the agents that steps can name", list[AgentView]),
    _look("/api/v1/workers", workers, "List who serves the queue", list[WorkerView]),
)  # fmt: skip
