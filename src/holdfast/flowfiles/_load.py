"""Loading flows: the file, its scripts and prompts, its sub-flows. Nothing is run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.errors import FlowFileError
from holdfast.flowfiles._check import check_flow_model, implied_variables
from holdfast.flowfiles._fields import coerce, read_variables
from holdfast.flowfiles._find import find_flow, flow_name, flow_names, kit_of, shown_path
from holdfast.flowfiles._findings import Finding, Report
from holdfast.flowfiles._format import FLOW, KIT
from holdfast.flowfiles._loops import with_loops
from holdfast.flowfiles._model import FlowFile
from holdfast.flowfiles._nearest import did_you_mean
from holdfast.flowfiles._nodes import MAX_BYTES, Node, read_nodes
from holdfast.flowfiles._nodes import Mapping as MappingNode
from holdfast.flowfiles._parts import Position, Template, Tool, Variable
from holdfast.flowfiles._shapes import BAD, Fields
from holdfast.flowfiles._steps import build_limits, build_step

MAX_FLOWS = 64
"""Files that one flow may be made of, itself included."""
MAX_STEPS = 2_000
"""Steps of a flow, those of sub-flows counted wherever they are used."""


def load_flow(reference: str | Path, start: str | Path = ".") -> FlowFile:
    """The flow that a path, a name or `kit/flow` means, looked for from `start`.

    Raises FlowFileError, with every finding, when there is none or it cannot be used.
    """
    flow, findings = check_flow(reference, start)
    if flow is None:
        report = Report()
        for finding in findings:
            report.add(finding)
        report.raise_errors()
        raise FlowFileError(f"{reference}: this flow cannot be loaded", findings=findings)
    return flow


def check_flow(reference: str | Path, start: str | Path = ".") -> tuple[FlowFile | None, tuple[Finding, ...]]:
    """The flow, and everything there is to say about it; None for the flow if one of the findings is an error."""
    report = Report()
    origin = Path(start).absolute()
    file = find_flow(str(reference), origin)
    if file is None:
        near = did_you_mean(str(reference), flow_names(origin)).removeprefix("; ")
        fix = near or "give a file, a directory with FLOW.yaml, a name, or kit/flow; `holdfast new NAME` makes one"
        report.error("not-found", Position(str(reference) or "."), "there is no such flow", fix=fix)
        return None, report.findings
    flow = Library(report).load(file.resolve())
    return (None if report.has_errors else flow), report.findings


class Library:
    """The files that one flow is made of, each read once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.loaded: dict[Path, FlowFile | None] = {}
        self.loading: list[Path] = []

    def load(self, file: Path) -> FlowFile | None:
        """The flow of a file; None after reporting why it cannot be read at all."""
        if file not in self.loaded:
            self.loading.append(file)
            self.loaded[file] = self._load(file)
            self.loading.pop()
        return self.loaded[file]

    def _load(self, file: Path) -> FlowFile | None:
        shown = shown_path(file)
        data = read_bounded(file, Position(shown), self.report)
        node = None if data is None else read_nodes(data, shown, self.report)
        if data is None or node is None:
            return None
        folder = Folder(file, shown, self, data)
        flow = folder.flow(node, flow_name(file))
        return flow and self._with_kit(flow, file)

    def _with_kit(self, flow: FlowFile, file: Path) -> FlowFile:
        """The flow with the defaults of its kit."""
        kit = kit_of(file)
        if kit is None:
            return flow
        shown = shown_path(kit)
        data = read_bounded(kit, Position(shown), self.report)
        node = None if data is None else read_nodes(data, shown, self.report)
        fields = BAD if node is None else KIT.read(node, self.report)
        defaults = {name: (at, value) for at, name, value in fields.get("defaults", [])} if fields is not BAD else {}
        return replace(
            flow,
            inputs=tuple(self._defaulted(one, defaults) for one in flow.inputs),
            config=tuple(self._defaulted(one, defaults) for one in flow.config),
        )

    def _defaulted(self, variable: Variable, defaults: dict[str, tuple[Position, Any]]) -> Variable:
        if variable.name not in defaults:
            return variable
        at, value = defaults[variable.name]
        if variable.sensitive:
            self.report.error(
                "sensitive-default",
                at,
                f"{variable.name} is sensitive, and its value stands in the file",
                fix="remove it",
            )
            return variable
        try:
            return replace(variable, default=coerce(variable, value), required=False)
        except ValueError as error:
            self.report.error("bad-default", at, str(error))
            return variable


class Folder:
    """A flow's own surroundings while it is built: the directory of its file."""

    def __init__(self, file: Path, shown: str, library: Library, data: bytes) -> None:
        self.file, self.shown, self.library = file, shown, library
        self.report = library.report
        self.directory = file.parent
        self.digest = hashlib.sha256(data)

    def flow(self, node: Node, name: str) -> FlowFile | None:
        """The flow that a node describes."""
        fields = FLOW.read(node, self.report)
        if fields is BAD:
            return None
        listed = node.get("steps") if isinstance(node, MappingNode) else None
        if isinstance(listed, MappingNode) and not listed.entries:
            self.report.error("no-steps", fields.place("steps"), "the flow has no steps", fix="add one")
        steps = tuple(build_step(step, at, body, self) for at, step, body in fields.get("steps", []))
        flow = FlowFile(
            name=fields.get("name", name),
            at=node.at,
            directory=str(self.directory),
            steps=steps,
            digest=self.digest.hexdigest()[:32],
            description=fields.get("description", ""),
            author=fields.get("author", ""),
            version=fields.get("version", ""),
            inputs=read_variables(fields.get("inputs", []), self.report),
            config=read_variables(fields.get("config", []), self.report),
            requires=tuple(_tool(at, said) for at, said in fields.get("requires", [])),
            limits=build_limits(fields.get("limits")),
        )
        return self._checked(flow)

    def _checked(self, flow: FlowFile) -> FlowFile:
        if flow.size > MAX_STEPS:
            self.report.error("too-large", flow.at, f"the flow has more than {MAX_STEPS:,} steps, counting sub-flows")
            return flow
        flow = with_loops(flow)
        flow = replace(flow, inputs=(*flow.inputs, *implied_variables(flow)))
        check_flow_model(flow, self.report)
        return flow

    # -- what executors ask for ----------------------------------------------------------------------------------------

    def script_file(self, text: str) -> str | None:
        path = self._inside(text)
        if path is None:
            return None
        data = read_bounded(path, Position(shown_path(path)), self.report, limit=16 * MAX_BYTES)
        self.digest.update(b"\0script\0" + text.encode() + b"\0" + (data or b""))
        return str(path.relative_to(self.directory))

    def _inside(self, text: str) -> Path | None:
        """The file in the flow's directory that a text names."""
        if "\0" in text or text.startswith(("/", "~", "$")):
            return None
        try:
            path = (self.directory / text).resolve()
            return path if path.is_file() and path.is_relative_to(self.directory) else None
        except (OSError, ValueError, RuntimeError):
            return None

    def prompt_from(self, fields: Fields) -> Template | None:
        named, at = fields.get("prompt_file"), fields.place("prompt_file")
        data = read_bounded(self.directory / named, at, self.report) if "\0" not in named else None
        if data is None:
            return None
        self.digest.update(b"\0prompt\0" + named.encode() + b"\0" + data)
        try:
            return Template(data.decode("utf-8-sig"), Position(shown_path(self.directory / named)))
        except UnicodeDecodeError:
            self.report.error("encoding", at, f"{named} is not UTF-8 text", fix="save it as UTF-8")
            return None

    def sub_flow(self, fields: Fields) -> FlowFile | None:
        said, at = fields.get("flow"), fields.place("flow")
        if said is None:
            return None
        if not isinstance(said, str):
            return self._inline_flow(said, at)
        return self._other_flow(said, at)

    def _inline_flow(self, node: Node, at: Position) -> FlowFile | None:
        flow = Folder(self.file, self.shown, self.library, self.digest.digest() + str(at).encode()).flow(node, "inline")
        self.digest.update((flow.digest if flow else "").encode())
        return flow

    def _other_flow(self, reference: str, at: Position) -> FlowFile | None:
        if reference.startswith("@"):
            self.report.error(
                "no-registry",
                at,
                f"{reference} is in a registry",
                fix="put the flow beside this one, and name its file",
            )
            return None
        file = find_flow(reference, self.directory)
        if file is None:
            self.report.error(
                "not-found", at, f"there is no flow {reference!r:.80}", fix="give a file beside this one, or a name"
            )
            return None
        file = file.resolve()
        if file in self.library.loading:
            circle = " -> ".join(
                shown_path(one) for one in (*self.library.loading[self.library.loading.index(file) :], file)
            )
            self.report.error(
                "sub-flow-cycle", at, f"flows use one another in a circle: {circle}", fix="loop with an exit rule"
            )
            return None
        if len(self.library.loaded) >= MAX_FLOWS:
            self.report.error("too-large", at, f"the flow is made of more than {MAX_FLOWS} files")
            return None
        flow = self.library.load(file)
        self.digest.update(b"\0flow\0" + (flow.digest if flow else "").encode())
        return flow


def read_bounded(path: Path, at: Position, report: Report, limit: int = MAX_BYTES) -> bytes | None:
    """What a file holds; None after reporting why it cannot be read. Never waits: only a regular file is opened."""
    shown = shown_path(path)
    try:
        if not path.is_file():
            report.error("missing-file", at, f"there is no file {shown}", fix="add it, or correct the name")
        elif path.stat().st_size > limit:
            report.error("too-large", at, f"{shown} has {path.stat().st_size:,} bytes, {limit:,} are allowed")
        else:
            return path.read_bytes()
    except OSError as error:
        report.error(
            "unreadable", at, f"{shown} cannot be read: {error.strerror or error}", fix="see to its permissions"
        )
    return None


def _tool(at: Position, said: Any) -> Tool:
    if isinstance(said, str):
        return Tool(name=said, at=at)
    return Tool(at=at, **{"name": "", **said.values})
