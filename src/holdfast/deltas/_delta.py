"""What changed, as data."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from holdfast.deltas._codec import tag, untag
from holdfast.deltas._paths import Path
from holdfast.errors import StorageError

_Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Set(msgspec.Struct, frozen=True):
    """The value at `path` is now this one; a dict's new key comes last."""

    path: Path
    value: Any


class Delete(msgspec.Struct, frozen=True):
    """The field or key is gone."""

    path: Path


class Append(msgspec.Struct, frozen=True):
    """The list, or the text, at `path` has grown at its end."""

    path: Path
    values: list[Any] | str


class Splice(msgspec.Struct, frozen=True):
    """`count` items of the list at `path`, from `start` on, gave way to `values`."""

    path: Path
    start: _Natural
    count: _Natural
    values: list[Any]


class Add(msgspec.Struct, frozen=True):
    """The set at `path` has new members."""

    path: Path
    values: list[Any]


class Discard(msgspec.Struct, frozen=True):
    """The set at `path` has lost members."""

    path: Path
    values: list[Any]


Operation: TypeAlias = Set | Delete | Append | Splice | Add | Discard

_CODES: dict[type[Operation], str] = {Set: "=", Delete: "x", Append: "a", Splice: "s", Add: "+", Discard: "-"}
_KINDS = {code: kind for kind, code in _CODES.items()}


class Delta(msgspec.Struct, frozen=True):
    """Operations, to be done in this order. Empty, it is false."""

    operations: tuple[Operation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.operations)

    def encode(self) -> bytes:
        """This delta as compact JSON."""
        return msgspec.json.encode([_row(operation) for operation in self.operations])

    @classmethod
    def decode(cls, data: bytes | str) -> Delta:
        """What `encode` wrote. Raises StorageError when this is something else."""
        try:
            rows = msgspec.json.decode(data, type=list[list[Any]])
            return cls(tuple(_read(row) for row in rows))
        # msgspec's own errors are ValueErrors
        except (LookupError, TypeError, ValueError) as error:
            raise StorageError(f"this is not a stored delta: {error}") from error


def _row(operation: Operation) -> list[Any]:
    if type(operation) is Set:  # as nearly always
        return ["=", [tag(part) for part in operation.path], tag(operation.value)]
    path, *rest = msgspec.structs.astuple(operation)
    return [_CODES[type(operation)], list(map(tag, path)), *map(tag, rest)]


def _read(row: list[Any]) -> Operation:
    code, path, *rest = row
    kind = _KINDS[code]
    if not isinstance(path, list) or not path:
        raise TypeError(f"{path!r} is not a path")
    values = dict(zip(kind.__struct_fields__, (tuple(untag(path)), *map(untag, rest)), strict=True))
    return msgspec.convert(values, kind)
