"""Flow files over HTTP: browse, read, draw, check."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from holdfast.flowfiles import FlowFile, check_flow, check_tools, load_flow
from holdfast.server._backend import Backend
from holdfast.server._drawing import PICTURES, DrawnFlow, GraphFormat, drawn
from holdfast.server._endpoint import Call, Endpoint, Nothing
from holdfast.server._flow_files import flow_file, list_flows, preset_values, read_text, reference_of
from holdfast.server._problems import FindingView, Refused, finding_view

Reference = Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$")]


class FlowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which flow."""

    flow: Reference
    """a name, `kit/flow`, or a path inside the project"""


class GraphQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which flow, drawn how."""

    flow: Reference
    format: GraphFormat = "json"


class FlowEntry(Struct, frozen=True):
    """A flow in the list."""

    flow: str
    """what to call it in this API"""
    name: str
    description: str
    valid: bool
    steps: int
    inputs: int


class VariableView(Struct, frozen=True):
    """What a flow may be given."""

    name: str
    type: str
    description: str
    required: bool
    sensitive: bool
    """never sent here: the process that runs the job reads it from its environment"""
    default: Any
    """what it is if nothing is given: as the file, the project's settings or the server's environment say; null for nothing"""
    options: list[Any]
    example: str
    min: float | None
    max: float | None
    setting: bool
    """of the flow's `config`: meant to be set once, not for each job"""


class FlowStep(Struct, frozen=True):
    """A step, and where it stands in the file."""

    name: str
    executor: str
    description: str
    line: int
    column: int


class FlowView(Struct, frozen=True):
    """A flow."""

    flow: str
    name: str
    description: str
    version: str
    author: str
    text: str
    inputs: list[VariableView]
    steps: list[FlowStep]


class Checked(Struct, frozen=True):
    """What a check found."""

    valid: bool
    findings: list[FindingView]


def _project(backend: Backend) -> Path:
    if backend.project is None:
        raise Refused(404, "no_project", "this server has no project, so it has no flow files")
    return backend.project


async def browse(backend: Backend, call: Call[Nothing, None]) -> list[FlowEntry]:
    return await asyncio.to_thread(_browse, _project(backend))


def _browse(project: Path) -> list[FlowEntry]:
    entries = []
    for file in list_flows(project):
        flow, _ = check_flow(file, project)
        called = reference_of(project, file)
        if flow is None:
            entries.append(FlowEntry(called, file.name, "", False, 0, 0))
        else:
            entries.append(FlowEntry(called, flow.name, flow.description, True, len(flow.steps), len(flow.variables)))
    return entries


async def show(backend: Backend, call: Call[FlowQuery, None]) -> FlowView:
    return await asyncio.to_thread(_show, _project(backend), call.query.flow)


def _show(project: Path, reference: str) -> FlowView:
    file = flow_file(project, reference)
    called, text = reference_of(project, file), read_text(file)
    flow, _ = check_flow(file, project)
    if flow is None:  # its text is all there is to show; the check says why
        return FlowView(called, file.name, "", "", "", text, [], [])
    steps = [FlowStep(one.name, one.kind, one.description, one.at.line, one.at.column) for one in flow.steps]
    return FlowView(called, flow.name, flow.description, flow.version, flow.author, text, _variables(flow), steps)


def _variables(flow: FlowFile) -> list[VariableView]:
    presets = preset_values(flow)
    settings = {one.name for one in flow.config}
    return [
        VariableView(
            one.name, str(one.type), one.description, one.required, one.sensitive, presets.get(one.name),
            [*(one.options or ())], one.example, one.min, one.max, one.name in settings,
        )
        for one in flow.variables
    ]  # fmt: skip


async def graph(backend: Backend, call: Call[GraphQuery, None]) -> Response:
    return await asyncio.to_thread(_graph, _project(backend), call.query)


def _graph(project: Path, query: GraphQuery) -> Response:
    return drawn(load_flow(flow_file(project, query.flow), project), query.format)


async def check(backend: Backend, call: Call[FlowQuery, None]) -> Checked:
    return await asyncio.to_thread(_check, _project(backend), call.query.flow)


def _check(project: Path, reference: str) -> Checked:
    loaded, findings = check_flow(flow_file(project, reference), project)
    found = (*findings, *(check_tools(loaded) if loaded else ()))
    return Checked(not any(one.severity == "error" for one in found), [finding_view(one, project) for one in found])


def _look(path: str, handler: Any, summary: str, answer: Any, **more: Any) -> Endpoint:
    return Endpoint(
        method="GET", path=path, role="read", handler=handler, summary=summary, group="flows", answer=answer, **more
    )


ENDPOINTS = (
    _look("/api/v1/flows", browse, "List the project's flows", list[FlowEntry]),
    _look("/api/v1/flows/file", show, "Show a flow and its file's text", FlowView, query=FlowQuery),
    _look("/api/v1/flows/graph", graph, "Draw a flow", DrawnFlow, query=GraphQuery, other_media=PICTURES),
    _look("/api/v1/flows/check", check, "Check a flow; nothing is run", Checked, query=FlowQuery),
)
