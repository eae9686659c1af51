"""The programs a flow requires: whether they are here. Looked up, never run."""

from __future__ import annotations

import shlex
import shutil

from holdfast.flowfiles._findings import Finding
from holdfast.flowfiles._model import FlowFile, ForEach, SubFlow
from holdfast.flowfiles._parts import Tool


def check_tools(flow: FlowFile) -> tuple[Finding, ...]:
    """A warning for each required program that this machine does not have, sub-flows included."""
    found = [_missing(tool) for tool in flow.requires if not _is_here(tool)]
    for step in flow.steps:
        if isinstance(step.executor, SubFlow | ForEach):
            found += check_tools(step.executor.flow)
    return tuple(dict.fromkeys(found))


def _is_here(tool: Tool) -> bool:
    """Whether the program that the check begins with, or the tool itself, is in PATH."""
    try:
        words = shlex.split(tool.check) or [tool.name]
    except ValueError:  # an open quote
        words = tool.check.split() or [tool.name]
    return shutil.which(words[0]) is not None


def _missing(tool: Tool) -> Finding:
    fix = f"install it: {tool.install}" if tool.install else f"see {tool.url}" if tool.url else "install it"
    purpose = f" ({tool.description})" if tool.description else ""
    return Finding(
        "warning", "missing-tool", tool.at, f"the flow requires {tool.name}{purpose}, which is not here", fix
    )
