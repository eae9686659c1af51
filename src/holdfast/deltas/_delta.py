"""What changed, as data."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from holdfast.deltas._codec import JSON, tag, untag
from holdfast.deltas._paths import Path
from holdfast.errors import StorageError

_Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Set(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="="):
    """The value at `path` is now this one; a dict's new key comes last."""

    path: Path
    value: Any


class Delete(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="x"):
    """The field or key is gone."""

    path: Path


class Append(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="a"):
    """The list, or the text, at `path` has grown at its end."""

    path: Path
    values: list[Any] | str


class Splice(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="s"):
    """`count` items of the list at `path`, from `start` on, gave way to `values`."""

    path: Path
    start: _Natural
    count: _Natural
    values: list[Any]


class Add(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="+"):
    """The set at `path` has new members."""

    path: Path
    values: list[Any]


class Discard(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="-"):
    """The set at `path` has lost members."""

    path: Path
    values: list[Any]


Operation: TypeAlias = Set | Delete | Append | Splice | Add | Discard

_KINDS: dict[Any, type[Operation]] = {kind.__struct_config__.tag: kind for kind in get_args(Operation)}
_TEXT = frozenset({str})
_LARGE = 2**63
_encode = msgspec.json.Encoder().encode


class Delta(msgspec.Struct, frozen=True, gc=False):
    """Operations, to be done in this order. Empty, it is false."""

    operations: tuple[Operation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.operations)

    def encode(self) -> bytes:
        """This delta as compact JSON. Every step comes here: if no part of it is to be tagged, msgspec writes it as it is."""
        for operation in self.operations:
            if type(operation) is Set:
                value = operation.value
            elif type(operation) is Append:
                value = operation.values
            else:
                break
            path, kind = operation.path, type(value)
            if not (type(path[0]) is str if len(path) == 1 else _TEXT.issuperset(map(type, path))):
                break
            if kind is int:
                if not -_LARGE < value < _LARGE:
                    break
            elif kind is float:
                if not isfinite(value):
                    break
            elif not (kind in JSON or (kind is list and JSON.issuperset(map(type, value)))):
                break
        else:  # as nearly always
            try:
                return _encode(self.operations)
            except UnicodeEncodeError:  # text that is not valid Unicode
                pass
        return _encode([*map(_row, self.operations)])

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
    """An operation as it is stored: its code, its path, and what else it has."""
    path, *rest = msgspec.structs.astuple(operation)
    return [operation.__struct_config__.tag, list(map(tag, path)), *map(tag, rest)]


def _read(row: list[Any]) -> Operation:
    code, path, *rest = row
    kind = _KINDS[code]
    if not isinstance(path, list) or not path:
        raise TypeError(f"{path!r} is not a path")
    if len(row) != len(kind.__struct_fields__) + 1:
        raise TypeError(f"{row!r} is too long or too short")
    return msgspec.convert([code, tuple(untag(path)), *map(untag, rest)], kind)
