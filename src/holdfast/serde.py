"""Values to plain data and back, with errors that say where the trouble sits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec

from holdfast.errors import NotStorableError, StorageError

T = TypeVar("T")


def to_plain(value: object) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None.

    Raises NotStorableError with the path of the first value that has no such form: `$.items[1].client: cannot store a
    Socket`.
    """
    try:
        return msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)
    except RecursionError as error:
        raise NotStorableError("$", type(value).__name__, "it contains itself, or is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise _located(value) or NotStorableError("$", type(value).__name__, str(error)) from error


def encode(value: object) -> bytes:
    """`value` as JSON. Raises NotStorableError as `to_plain` does."""
    plain = to_plain(value)
    try:
        return msgspec.json.encode(plain)
    except ValueError as error:  # text that is no Unicode
        raise NotStorableError("$", type(value).__name__, str(error)) from error


def decode(data: bytes | str) -> Any:
    """What `encode` wrote, as plain data. Raises StorageError when it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise StorageError(f"this is not stored data: {error}") from error


def from_plain(plain: object, kind: type[T]) -> T:
    """Plain data as a `kind`. Raises msgspec.ValidationError, naming the path, when it does not fit."""
    return msgspec.convert(plain, kind, strict=True, str_keys=True)


def _plain(value: object) -> Any:
    """The plain form of what msgspec does not know."""
    if isinstance(value, BaseException):
        return {"error_type": type(value).__name__, "error": str(value)}
    if isinstance(value, PurePath):
        return str(value)
    dump = getattr(type(value), "model_dump", None)  # pydantic, without importing it
    if dump is not None:
        return dump(value, mode="json")
    raise TypeError(type(value).__name__)


def _located(value: object, path: str = "$") -> NotStorableError | None:
    """Find the first value below `value` that cannot be stored. Only walked once storing has failed."""
    if isinstance(value, Mapping):
        parts: list[tuple[str, object]] = [(f"{path}.{key}", item) for key, item in value.items()]
    elif isinstance(value, msgspec.Struct):
        parts = [(f"{path}.{name}", getattr(value, name)) for name in value.__struct_fields__]
    elif isinstance(value, Sequence | Set) and not isinstance(value, str | bytes | bytearray):
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        parts = []
    for where, item in parts:
        try:
            msgspec.to_builtins(item, enc_hook=_plain, str_keys=True)
        except (TypeError, ValueError):
            return _located(item, where) or NotStorableError(where, type(item).__name__)
    return None if parts or isinstance(value, Enum) else NotStorableError(path, type(value).__name__)
