"""Plain values as JSON, exactly: what JSON has no form for is an object with one key that begins with `$`.

    {"$set": [1, 2]}  {"$frozenset": []}  {"$tuple": [1]}  {"$bytes": "YQ=="}  {"$float": "nan"}  {"$int": "0x1…"}
    {"$datetime": "…"}  {"$date": "…"}  {"$time": "…"}  {"$timedelta": [days, seconds, microseconds]}
    {"$decimal": "1.0"}  {"$uuid": "…"}  {"$str": "…"}  {"$secret": null}  {"$dict": [[key, value], …]}

`$str` is text that is not valid Unicode; `$dict` a dict whose keys are not all text, or that looks like one of these.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from holdfast.deltas._secrets import WITHHELD, Withheld
from holdfast.errors import StorageError

JSON = frozenset({str, bool, type(None)})
_TEXT = frozenset({str})


def encode_plain(value: object) -> bytes:
    """A plain value, such as a plain state, as compact JSON that `decode_plain` reads back exactly."""
    return msgspec.json.encode(tag(value))


def decode_plain(data: bytes | str) -> Any:
    """What `encode_plain` wrote. Raises StorageError when this is something else."""
    try:
        return untag(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageError(f"this is not a stored state: {error}") from error


def tag(value: Any) -> Any:
    """The form of a plain value that JSON can carry."""
    kind = type(value)
    if kind is str and value.isascii():  # as most often
        return value
    writer = _WRITERS.get(kind)
    if writer is None:
        raise TypeError(f"{kind.__name__} is not plain; make it so with holdfast.deltas.plain")
    return writer(value)


def untag(value: Any) -> Any:
    """What `tag` was given."""
    if type(value) is list:
        return value if JSON.issuperset(map(type, value)) else [untag(item) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key.startswith("$"):
            return _read(key, inner)
    return {key: untag(item) for key, item in value.items()}


def _read(key: str, inner: Any) -> Any:
    reader = _READERS.get(key)
    if reader is None:
        raise StorageError(f"stored data has an unknown tag {key}; was it written by a later version?")
    try:
        return reader(inner)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise StorageError(f"stored data has a damaged {key}: {error}") from error


def _same(value: object) -> object:
    return value


def _write_str(value: str) -> object:
    return value if _is_unicode(value) else {"$str": _to_base64(value.encode("utf-8", "surrogatepass"))}


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can carry this text: it has no half of a surrogate pair."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _write_int(value: int) -> object:
    # Python refuses to print or read very long integers in decimal.
    return value if value.bit_length() <= 64 else {"$int": hex(value)}


def _write_float(value: float) -> object:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _write_list(value: list[Any]) -> list[Any]:
    return [*map(tag, value)]


def _write_dict(value: dict[Any, Any]) -> dict[str, Any]:
    if _TEXT.issuperset(map(type, value)) and not _looks_tagged(value) and _is_unicode("".join(value)):
        return {key: tag(item) for key, item in value.items()}
    return {"$dict": [[tag(key), tag(item)] for key, item in value.items()]}


def _looks_tagged(value: dict[Any, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith("$")


def _write_members(value: set[Any] | frozenset[Any]) -> list[Any]:
    """The members in one order, whatever the hash seed."""
    return sorted(map(tag, value), key=msgspec.json.encode)


def _to_base64(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()


def _from_base64(value: str) -> bytes:
    return binascii.a2b_base64(value, strict_mode=True)


_WRITERS: dict[type, Callable[[Any], Any]] = {
    type(None): _same,
    bool: _same,
    int: _write_int,
    float: _write_float,
    str: _write_str,
    list: _write_list,
    dict: _write_dict,
    tuple: lambda value: {"$tuple": [tag(item) for item in value]},
    set: lambda value: {"$set": _write_members(value)},
    frozenset: lambda value: {"$frozenset": _write_members(value)},
    bytes: lambda value: {"$bytes": _to_base64(value)},
    datetime: lambda value: {"$datetime": value.isoformat()},
    date: lambda value: {"$date": value.isoformat()},
    time: lambda value: {"$time": value.isoformat()},
    timedelta: lambda value: {"$timedelta": [value.days, value.seconds, value.microseconds]},
    Decimal: lambda value: {"$decimal": str(value)},
    UUID: lambda value: {"$uuid": str(value)},
    Withheld: lambda value: {"$secret": None},
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "$int": lambda inner: int(inner, 16),
    "$float": float,
    "$str": lambda inner: _from_base64(inner).decode("utf-8", "surrogatepass"),
    "$dict": lambda inner: {untag(key): untag(item) for key, item in inner},
    "$tuple": lambda inner: tuple(map(untag, inner)),
    "$set": lambda inner: set(map(untag, inner)),
    "$frozenset": lambda inner: frozenset(map(untag, inner)),
    "$bytes": _from_base64,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda inner: timedelta(*inner),
    "$decimal": Decimal,
    "$uuid": UUID,
    "$secret": lambda inner: WITHHELD,
}
