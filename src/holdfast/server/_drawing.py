"""A flow's graph as an answer: data for programs, a picture for people."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from starlette.responses import Response

from holdfast.flowfiles import FlowFile, to_graph
from holdfast.graph import to_mermaid, to_svg

GraphFormat: TypeAlias = Literal["json", "svg", "mermaid"]


def drawn(flow: FlowFile, how: GraphFormat) -> Response:
    """The graph of a flow, drawn in a way."""
    graph = to_graph(flow)
    if how == "json":
        return Response(msgspec.json.encode(graph), media_type="application/json")
    if how == "mermaid":
        return Response(to_mermaid(graph), media_type="text/plain; charset=utf-8")
    return Response(to_svg(graph), media_type="image/svg+xml")
