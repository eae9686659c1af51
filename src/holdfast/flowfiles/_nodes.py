"""YAML as a tree that knows where everything stands, read within bounds.

Scalars follow YAML 1.2: only `true` and `false` are booleans, so `on`, `no` and `yes` stay what was written. Whoever expects a
boolean may take those words for one; whoever expects text takes any scalar as it was written, `1.0` and `true` too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct

from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._parts import Position

MAX_BYTES = 1_000_000
MAX_DEPTH = 50
MAX_NODES = 50_000
"""Values in one file, those that an alias stands for counted each time."""

_NUMBER = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d{1,2})?", re.ASCII)
_WHOLE = re.compile(r"[-+]?\d{1,18}", re.ASCII)
_CONSTANTS: dict[str, Any] = {"": None, "~": None} | {
    form: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for form in (word, word.capitalize(), word.upper())
}


class Scalar(Struct, frozen=True):
    """One value, as it was written."""

    at: Position
    text: str
    is_plain: bool
    """without quotes"""
    style: str = ""

    @property
    def value(self) -> Any:
        """What it means where nothing else is expected."""
        if not self.is_plain:
            return self.text
        if self.text in _CONSTANTS:
            return _CONSTANTS[self.text]
        if _WHOLE.fullmatch(self.text):
            return int(self.text)
        return float(self.text) if len(self.text) < 40 and _NUMBER.fullmatch(self.text) else self.text

    @property
    def inner(self) -> Position:
        """Where its text begins: after the quote."""
        shift = 1 if self.style in ("'", '"') else 0
        return Position(self.at.file, self.at.line, self.at.column + shift)


class Sequence(Struct, frozen=True):
    """A list."""

    at: Position
    items: tuple[Node, ...]


class Mapping(Struct, frozen=True):
    """A mapping; keys are text, in order, each once."""

    at: Position
    entries: tuple[tuple[Scalar, Node], ...]

    def get(self, key: str) -> Node | None:
        return next((value for name, value in self.entries if name.text == key), None)


Node = Scalar | Sequence | Mapping


def plain(node: Node) -> Any:
    """The data a tree stands for."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key.text: plain(value) for key, value in node.entries}


def is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def read_nodes(data: bytes, file: str, report: Report) -> Node | None:
    """The tree of a file; None when it cannot be read, and `report` says why."""
    text = _decoded(data, file, report)
    if text is None:
        return None
    try:
        return _Composer(file, report).document(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Position(file, mark.line + 1, mark.column + 1) if mark else Position(file)
        report.error("yaml", at, f"this is no YAML: {_sentence(error)}", fix="see to indentation, colons and quotes")
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: an escape that is no character
        report.error("yaml", Position(file), f"this is no YAML: {' '.join(str(error).split())[:200]}")
    except _BoundError as error:
        report.error("too-large", error.at, str(error), fix="split it into sub-flows")
    return None


def _decoded(data: bytes, file: str, report: Report) -> str | None:
    if len(data) > MAX_BYTES:
        report.error("too-large", Position(file), f"the file has {len(data):,} bytes, {MAX_BYTES:,} are allowed")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        at = Position(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        report.error("encoding", at, "this is not UTF-8 text", fix="save the file as UTF-8")
        return None


def _sentence(error: yaml.MarkedYAMLError) -> str:
    parts = (" ".join(str(part).split()) for part in (error.context, error.problem) if part)
    return ": ".join(parts)[:200]


class _BoundError(Exception):
    """The file asks for more than a flow file needs."""

    def __init__(self, at: Position, message: str) -> None:
        self.at = at
        super().__init__(message)


class _Composer:
    """Builds the tree from YAML's events, counting as it goes."""

    def __init__(self, file: str, report: Report) -> None:
        self.file, self.report = file, report
        self.anchors: dict[str, tuple[Node | None, int]] = {}
        self.count = 0

    def document(self, text: str) -> Node | None:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        events: Iterator[Any] = iter(yaml.parse(text, Loader=loader))
        node: Node | None = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _BoundError(self._at(event), "the file holds several documents")
            elif isinstance(event, yaml.NodeEvent):
                node = self._node(event, events, 0)
        if node is None:
            self.report.error("empty", Position(self.file), "the file is empty", fix="start with name: and steps:")
        return node

    def _at(self, event: Any) -> Position:
        return Position(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _counted(self, at: Position, nodes: int) -> None:
        self.count += nodes
        if self.count > MAX_NODES:
            raise _BoundError(at, f"the file holds more than {MAX_NODES:,} values, counting what aliases repeat")

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        at, before = self._at(event), self.count
        if depth > MAX_DEPTH:
            raise _BoundError(at, f"values are nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event, at)
        self._counted(at, 1)
        if event.anchor:
            self.anchors[event.anchor] = (None, 0)
        node = self._value(event, events, at, depth)
        if event.anchor:
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def _repeated(self, event: Any, at: Position) -> Node:
        if event.anchor not in self.anchors:
            raise yaml.MarkedYAMLError(problem=f"there is no &{event.anchor}", problem_mark=event.start_mark)
        node, size = self.anchors[event.anchor]
        if node is None:
            raise _BoundError(at, f"*{event.anchor} stands inside what it repeats")
        self._counted(at, size)
        return node

    def _value(self, event: Any, events: Iterator[Any], at: Position, depth: int) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(at, event.value, bool(event.implicit[0]), event.style or "")
        if isinstance(event, yaml.SequenceStartEvent):
            return Sequence(at, tuple(self._items(events, yaml.SequenceEndEvent, depth)))
        return self._mapping(at, list(self._items(events, yaml.MappingEndEvent, depth)))

    def _items(self, events: Iterator[Any], end: type, depth: int) -> Iterator[Node]:
        for event in events:
            if isinstance(event, end):
                return
            yield self._node(event, events, depth + 1)

    def _mapping(self, at: Position, flat: list[Node]) -> Mapping:
        entries: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Mapping] = []
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if not isinstance(key, Scalar):
                self.report.error("bad-key", key.at, "a key must be text")
            elif key.text == "<<" and key.is_plain:
                merged += self._merged(value)
            elif key.text in entries:
                first = entries[key.text][0].at.line
                self.report.error(
                    "duplicate-key", key.at, f"{key.text} is already given in line {first}", fix="remove one"
                )
            else:
                entries[key.text] = (key, value)
        for other in merged:
            for key, value in other.entries:
                entries.setdefault(key.text, (key, value))
        return Mapping(at, tuple(entries.values()))

    def _merged(self, value: Node) -> list[Mapping]:
        items = value.items if isinstance(value, Sequence) else (value,)
        found = [item for item in items if isinstance(item, Mapping)]
        if len(found) != len(items):
            self.report.error("bad-merge", value.at, "<< takes a mapping, or a list of mappings")
        return found
