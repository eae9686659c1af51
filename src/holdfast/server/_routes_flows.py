"""Flow files over HTTP: browse, read, draw, check."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct
from starlette.responses import Response

from holdfast.flowfiles import Variable, check_flow, check_tools, load_flow
from holdfast.server._backend import Backend
from holdfast.server._drawing import GraphFormat, drawn
from holdfast.server._endpoint import Call, Endpoint, Nothing
from holdfast.server._flow_files import flow_file, list_flows, read_text, reference_of
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


class VariableView(Struct, frozen=True):
    """What a flow may be given."""

    name: str
    type: str
    description: str
    required: bool
    sensitive: bool
    """never sent here: the process that runs the job reads it from its environment"""
    default: Any
    options: list[Any]


class FlowView(Struct, frozen=True):
    """A flow."""

    flow: str
    name: str
    description: str
    version: str
    author: str
    text: str
    inputs: list[VariableView]
    steps: list[str]


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
        loaded, _ = check_flow(file, project)
        name = loaded.name if loaded else file.name
        entries.append(
            FlowEntry(reference_of(project, file), name, loaded.description if loaded else "", loaded is not None)
        )
    return entries


async def show(backend: Backend, call: Call[FlowQuery, None]) -> FlowView:
    return await asyncio.to_thread(_show, _project(backend), call.query.flow)


def _show(project: Path, reference: str) -> FlowView:
    file = flow_file(project, reference)
    called, text = reference_of(project, file), read_text(file)
    flow, _ = check_flow(file, project)
    if flow is None:  # its text is all there is to show; the check says why
        return FlowView(called, file.name, "", "", "", text, [], [])
    variables, steps = [_variable(one) for one in flow.variables], [step.name for step in flow.steps]
    return FlowView(called, flow.name, flow.description, flow.version, flow.author, text, variables, steps)


def _variable(one: Variable) -> VariableView:
    default = None if one.sensitive or one.default is UNSET else one.default
    return VariableView(
        one.name, str(one.type), one.description, one.required, one.sensitive, default, [*(one.options or ())]
    )


async def graph(backend: Backend, call: Call[GraphQuery, None]) -> Response:
    return await asyncio.to_thread(_graph, _project(backend), call.query)


def _graph(project: Path, query: GraphQuery) -> Response:
    return drawn(load_flow(flow_file(project, query.flow), project), query.format)


async def check(backend: Backend, call: Call[FlowQuery, None]) -> Checked:
    return await asyncio.to_thread(_check, _project(backend), call.query.flow)


def _check(project: Path, reference: str) -> Checked:
    loaded, findings = check_flow(flow_file(project, reference), project)
    found = (*findings, *(check_tools(loaded) if loaded else ()))
    return Checked(not any(one.severity == "error" for one in found), [finding_view(one) for one in found])


def _look(path: str, handler: Any, summary: str, answer: Any, **more: Any) -> Endpoint:
    return Endpoint(
        method="GET", path=path, role="read", handler=handler, summary=summary, group="flows", answer=answer, **more
    )


ENDPOINTS = (
    _look("/api/v1/flows", browse, "List the project's flows", list[FlowEntry]),
    _look("/api/v1/flows/file", show, "Show a flow and its file's text", FlowView, query=FlowQuery),
    _look("/api/v1/flows/graph", graph, "Draw a flow", None, query=GraphQuery),
    _look("/api/v1/flows/check", check, "Check a flow; nothing is run", Checked, query=FlowQuery),
)
