"""The flows of a project: found, read and checked, and never outside of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import FlowFileError, FlowInputError
from holdfast.flowfiles import FlowFile, check_flow, find_flow, load_flow, resolve_variables
from holdfast.server._problems import Refused

ENTRY, SUFFIX = "FLOW.yaml", ".flow.yaml"
SKIPPED = ("__pycache__", "node_modules")
MAX_FLOWS = 1000
MAX_FOLDERS = 5000
"""Folders that are looked into, so that a strange project does not hold a server up."""
MAX_TEXT = 1024 * 1024


def list_flows(project: Path) -> list[Path]:
    """The files of all flows, in hidden folders and behind links none."""
    found: list[Path] = []
    for folders, inside in enumerate(_folders(project)):
        if folders >= MAX_FOLDERS or len(found) >= MAX_FLOWS:
            break
        found += [path for path in inside if _is_flow(path)]
    return found[:MAX_FLOWS]


def _folders(top: Path) -> Iterator[list[Path]]:
    """What is in a folder, and in each one below it."""
    try:
        inside = sorted(top.iterdir())
    except OSError:  # not ours to read, or gone meanwhile
        return
    yield inside
    for path in inside:
        if path.is_dir() and not (path.is_symlink() or path.name.startswith(".") or path.name in SKIPPED):
            yield from _folders(path)


def _is_flow(path: Path) -> bool:
    return _is_called_flow(path) and path.is_file() and not path.is_symlink()


def _is_called_flow(path: Path) -> bool:
    return path.name == ENTRY or path.name.endswith(SUFFIX)


def flow_file(project: Path | None, reference: str) -> Path:
    """The file of a flow that a client names. Raises Refused if there is none inside the project."""
    if project is None:
        raise Refused(404, "no_project", "this server has no project, so it has no flow files")
    try:
        found = find_flow(reference, project)
        file = None if found is None else found.resolve()
    except (OSError, ValueError, RuntimeError):  # a name that cannot be one
        file = None
    if file is None or not file.is_relative_to(project) or not _holds_flow(file, project):
        raise Refused(404, "unknown_flow", f"the project has no flow {reference!r:.200}; GET /api/v1/flows lists them")
    return file


def _holds_flow(file: Path, project: Path) -> bool:
    """Whether it is called as flows are, or is one. Projects have other YAML files, with keys and passwords in some."""
    if _is_called_flow(file):
        return True
    return file.suffix in (".yaml", ".yml") and check_flow(file, project)[0] is not None


def reference_of(project: Path, file: Path) -> str:
    """What a flow is called in this API: its path inside the project, a directory for a `FLOW.yaml`."""
    inside = file.relative_to(project)
    return (inside.parent if inside.name == ENTRY and len(inside.parts) > 1 else inside).as_posix()


def read_text(file: Path) -> str:
    with file.open("rb") as source:
        return source.read(MAX_TEXT).decode("utf-8", "replace")


def load_for_job(project: Path | None, reference: str, inputs: Mapping[str, Any]) -> tuple[FlowFile, dict[str, Any]]:
    """A flow and the values it starts with. Raises Refused, FlowFileError or FlowInputError."""
    file = flow_file(project, reference)
    assert project is not None
    flow = load_flow(file, project)
    return flow, resolve_variables(flow, inputs).values


def preset_values(flow: FlowFile) -> dict[str, Any]:
    """What a flow's variables are if nothing is given, without its secrets; null for what has no value then."""
    inputs, config = (tuple(replace(one, required=False) for one in part) for part in (flow.inputs, flow.config))
    try:
        return resolve_variables(replace(flow, inputs=inputs, config=config), {}).values
    except (FlowInputError, FlowFileError):  # a setting that does not fit: whoever submits is told
        return {one.name: one.default for one in flow.variables if one.default is not UNSET and not one.sensitive}
