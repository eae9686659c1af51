"""What a value of a flow file may look like. A shape reads a node, says what is wrong with it, and gives its JSON Schema.

One object does both, so the parser and the schema cannot disagree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from holdfast.errors import ExpressionError
from holdfast.flowfiles._expressions import compile_expression
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._nearest import nearest
from holdfast.flowfiles._nodes import Mapping as MappingNode
from holdfast.flowfiles._nodes import Node, Scalar, Sequence, is_null, plain
from holdfast.flowfiles._parts import Expression, Position, Template

Schema = dict[str, Any]
BAD: Any = type("Bad", (), {"__repr__": lambda self: "BAD", "__bool__": lambda self: False})()
"""What reading gives for a value that was reported."""

_WORDS = {"yes": True, "on": True, "y": True, "no": False, "off": False, "n": False}
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw]?)")


class Shape(Protocol):
    """Reads one kind of value."""

    label: str
    """what it is, for people: `a number`"""

    def read(self, node: Node, report: Report) -> Any:
        """The value, or BAD after `report` was told why."""
        ...

    def schema(self) -> Schema:
        """What an editor may accept."""
        ...


def wrong(node: Node, expected: str, report: Report, *, fix: str = "") -> Any:
    """Report that a node is something else than expected."""
    if isinstance(node, Scalar):
        found = "nothing" if is_null(node) else repr(node.text if len(node.text) < 60 else node.text[:57] + "…")
    else:
        found = "a list" if isinstance(node, Sequence) else "a mapping"
    report.error("wrong-value", node.at, f"this must be {expected}, not {found}", fix=fix)
    return BAD


class Text:
    """Text; any scalar but null, as it was written."""

    def __init__(self, label: str = "text", pattern: str = "") -> None:
        self.label = label
        self.pattern = pattern

    def read(self, node: Node, report: Report) -> Any:
        if not isinstance(node, Scalar) or is_null(node):
            return wrong(node, self.label, report)
        if self.pattern and not re.fullmatch(self.pattern, node.text):
            return wrong(node, self.label, report)
        return node.text

    def schema(self) -> Schema:
        if self.pattern:
            return {"type": "string", "pattern": f"^(?:{self.pattern})$"}
        return {"type": ["string", "number", "boolean"]}


class Name(Text):
    """A name: letters, digits, _ and what else it may have; a letter or _ comes first."""

    MOST = 100

    def __init__(self, marks: str = "") -> None:
        super().__init__(
            f"a name of letters, digits{''.join(f', {mark}' for mark in marks)} and _",
            rf"[A-Za-z_][A-Za-z0-9_{marks}]{{0,{self.MOST - 1}}}",
        )
        self._letters = re.compile(rf"[A-Za-z0-9_{marks}]+")

    def read(self, node: Node, report: Report) -> Any:
        if not isinstance(node, Scalar) or is_null(node):
            return wrong(node, self.label, report)
        expected = self.missed_by(node.text)
        return wrong(node, expected, report) if expected else node.text

    def missed_by(self, text: str) -> str:
        """What a text would have to be that is no such name; empty for one that is."""
        if not self._letters.fullmatch(text):
            return self.label
        if not re.match(r"[A-Za-z_]", text):
            return "a name that begins with a letter or _"
        return f"a name of at most {self.MOST} characters" if len(text) > self.MOST else ""


class Number:
    """A number within bounds."""

    def __init__(self, *, least: float | None = None, above: float | None = None, most: float | None = None) -> None:
        self.least, self.above, self.most = least, above, most
        bounds = [f"at least {least:g}"] if least is not None else []
        bounds += [f"more than {above:g}"] if above is not None else []
        bounds += [f"at most {most:g}"] if most is not None else []
        self.label = " ".join((self._noun, " and ".join(bounds))).strip()

    _noun = "a number"
    _types: Any = (int, float)

    def read(self, node: Node, report: Report) -> Any:
        value: Any = node.value if isinstance(node, Scalar) else None
        return value if self._fits(value) else wrong(node, self.label, report)

    def _fits(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, self._types):
            return False
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
        )

    def schema(self) -> Schema:
        bounds = {"minimum": self.least, "exclusiveMinimum": self.above, "maximum": self.most}
        kind = "integer" if self._types == (int,) else "number"
        return {"type": kind} | {name: value for name, value in bounds.items() if value is not None}


class Whole(Number):
    """A whole number within bounds."""

    _noun = "a whole number"
    _types = (int,)


class Flag:
    """True or false; `yes`, `no`, `on` and `off` are understood."""

    label = "true or false"

    def read(self, node: Node, report: Report) -> Any:
        if isinstance(node, Scalar):
            if isinstance(node.value, bool):
                return node.value
            if node.is_plain and node.text.lower() in _WORDS:
                return _WORDS[node.text.lower()]
        return wrong(node, self.label, report)

    def schema(self) -> Schema:
        return {"type": "boolean"}


class OneOf:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.label = f"one of {', '.join(words)}" if len(words) > 1 else words[0]

    def read(self, node: Node, report: Report) -> Any:
        if isinstance(node, Scalar) and node.text in self.words:
            return node.text
        meant = nearest(node.text, self.words) if isinstance(node, Scalar) else None
        return wrong(node, self.label, report, fix=f"did you mean {meant}?" if meant else "")

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


class Anything:
    """Any data at all."""

    label = "any value"

    def read(self, node: Node, report: Report) -> Any:
        return plain(node)

    def schema(self) -> Schema:
        return {}


class Seconds:
    """A time: a number of seconds, or `90s`, `15m`, `12h`, `7d`."""

    label = "a duration: seconds, or 90s, 15m, 12h, 7d"

    def read(self, node: Node, report: Report) -> Any:
        match = _DURATION.fullmatch(node.text.strip().lower()) if isinstance(node, Scalar) else None
        seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
        return seconds if seconds > 0 else wrong(node, self.label, report)

    def schema(self) -> Schema:
        return {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": "^\\d+(\\.\\d+)?\\s*[smhdwSMHDW]?$"},
            ]
        }


class Formula:
    """An expression. What it may read is checked later, when the step's inputs are known."""

    label = "an expression"

    def read(self, node: Node, report: Report) -> Any:
        if not isinstance(node, Scalar) or is_null(node):
            return wrong(node, self.label, report)
        try:
            compiled = compile_expression(node.text, node.inner)
        except ExpressionError as error:
            report_expression("bad-expression", error, node.inner, report)
            return BAD
        return Expression(node.text, node.inner, compiled.names)

    def schema(self) -> Schema:
        return {"type": ["string", "boolean", "number"]}


class Prompt:
    """Text with `$name` in it."""

    label = "text"

    def read(self, node: Node, report: Report) -> Any:
        if not isinstance(node, Scalar) or is_null(node):
            return wrong(node, self.label, report)
        return Template(node.text, node.inner)

    def schema(self) -> Schema:
        return {"type": ["string", "number", "boolean"]}


class Many:
    """A list of one kind of value; a lone one counts as a list of one."""

    def __init__(self, item: Shape) -> None:
        self.item = item
        self.label = f"a list ({item.label})"

    def read(self, node: Node, report: Report) -> Any:
        if isinstance(node, Scalar) and is_null(node):
            return wrong(node, self.label, report)
        items = node.items if isinstance(node, Sequence) else (node,)
        values = [(item.at, self.item.read(item, report)) for item in items]
        return [(at, value) for at, value in values if value is not BAD]

    def schema(self) -> Schema:
        item = self.item.schema()
        return {"anyOf": [{"type": "array", "items": item}, item]}


class Table:
    """A mapping from names that the author chooses to one kind of value. Reads as `[(place, name, value), …]`."""

    def __init__(self, item: Shape, name: Text) -> None:
        self.item, self.name = item, name
        self.label = f"a mapping of names ({name.label}) to {item.label}"

    def read(self, node: Node, report: Report) -> Any:
        if not isinstance(node, MappingNode):
            return wrong(node, self.label, report)
        found = []
        for key, value in node.entries:
            name, read = self.name.read(key, report), self.item.read(value, report)
            if name is not BAD and read is not BAD:
                found.append((key.at, name, read))
        return found

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.item.schema(), "propertyNames": self.name.schema()}


class ByForm:
    """One shape for a scalar, another for a list, another for a mapping."""

    def __init__(
        self, *, scalar: Shape | None = None, sequence: Shape | None = None, mapping: Shape | None = None
    ) -> None:
        self.scalar, self.sequence, self.mapping = scalar, sequence, mapping
        self.label = " or ".join(shape.label for shape in (scalar, sequence, mapping) if shape)

    def read(self, node: Node, report: Report) -> Any:
        forms = ((Scalar, self.scalar), (Sequence, self.sequence), (MappingNode, self.mapping))
        shape = next(shape for kind, shape in forms if isinstance(node, kind))
        return shape.read(node, report) if shape else wrong(node, self.label, report)

    def schema(self) -> Schema:
        return {"anyOf": [shape.schema() for shape in (self.scalar, self.sequence, self.mapping) if shape]}


class Empty:
    """Nothing was written after the colon."""

    label = "nothing"

    def read(self, node: Node, report: Report) -> Any:
        return None if is_null(node) else wrong(node, self.label, report)

    def schema(self) -> Schema:
        return {"type": "null"}


class Deferred:
    """A value that is kept as it stands, for a reader that knows more; its schema is defined elsewhere."""

    def __init__(self, name: str, label: str) -> None:
        self.name, self.label = name, label

    def read(self, node: Node, report: Report) -> Any:
        return node

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/{self.name}"}


class Key:
    """A key of a record."""

    def __init__(self, shape: Shape, says: str, *, is_required: bool = False, note: str = "") -> None:
        self.shape = shape
        self.says = says
        """what it means, in a sentence or less: for the schema and the reference page"""
        self.is_required = is_required
        self.note = note
        """set for a key that is accepted and not acted on, or read as another: what to say about it"""


class Fields:
    """What a record held: the values of its keys, and where they stand."""

    def __init__(self, at: Position) -> None:
        self.at = at
        self.values: dict[str, Any] = {}
        self.places: dict[str, Position] = {}

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    def place(self, key: str) -> Position:
        """Where a key stands, or the record itself if it does not."""
        return self.places.get(key, self.at)

    def __contains__(self, key: str) -> bool:
        """Whether the key was given, readable or not."""
        return key in self.places


class Record:
    """A mapping with keys that are known beforehand."""

    def __init__(self, label: str, keys: Mapping[str, Key], *, foreign: Mapping[str, str] | None = None) -> None:
        self.label = label
        self.keys = keys
        self.foreign = foreign or {}
        """keys that are known but belong elsewhere, with what to say about them"""

    def read(self, node: Node, report: Report) -> Any:
        if not isinstance(node, MappingNode):
            return wrong(node, self.label, report)
        fields = Fields(node.at)
        for name, value in node.entries:
            self._read_key(name, value, fields, report)
        for name_, key in self.keys.items():
            if key.is_required and name_ not in fields.places:
                report.error(
                    "missing-key", node.at, f"{self.label} needs {name_}", fix=f"add {name_}: ({key.shape.label})"
                )
        return fields

    def _read_key(self, name: Scalar, value: Node, fields: Fields, report: Report) -> None:
        key = self.keys.get(name.text)
        if key is None:
            return self._unknown(name, report)
        fields.places[name.text] = name.at
        if key.note:
            report.note("accepted-key", name.at, f"{name.text}: {key.note}")
        if is_null(value) and not key.is_required and not isinstance(key.shape, Anything):
            return None  # a key with nothing after it is as good as none
        read = key.shape.read(value, report)
        if read is not BAD:
            fields.values[name.text] = read
        return None

    def _unknown(self, name: Scalar, report: Report) -> None:
        if name.text in self.foreign:
            report.error("misplaced-key", name.at, self.foreign[name.text])
            return
        meant = nearest(name.text, self.keys)
        fix = f"did you mean {meant}?" if meant else f"it may have {', '.join(self._offered())}"
        report.error("unknown-key", name.at, f"{self.label} has no key {_short(name.text)}", fix=fix)

    def _offered(self) -> list[str]:
        return [name for name, key in self.keys.items() if not key.note]

    def schema(self) -> Schema:
        properties = {name: {**key.shape.schema(), "description": key.says} for name, key in self.keys.items()}
        required = [name for name, key in self.keys.items() if key.is_required]
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return schema | ({"required": required} if required else {})


def report_expression(code: str, error: ExpressionError, otherwise: Position, report: Report) -> None:
    """Report what is wrong with an expression, where it is wrong."""
    file, line, column = (error.at or str(otherwise)).rsplit(":", 2)
    message, _, fix = str(error).removeprefix(f"{error.at}: ").rpartition("; ")
    at = Position(file, int(line), int(column))
    report.error(code, at, message or fix, fix=fix if message else "correct the expression")


def _short(text: str) -> str:
    return repr(text) if len(text) < 60 else repr(text[:57] + "…")


def names_of(items: Iterable[tuple[Position, Any]]) -> tuple[Any, ...]:
    """The values of a list, without their places."""
    return tuple(value for _, value in items)
