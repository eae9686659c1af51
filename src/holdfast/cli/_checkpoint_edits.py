"""`--set PATH=VALUE` and `--state FILE`: how a state is edited before a branch begins."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.deltas import decode_plain
from holdfast.errors import StorageError, UsageError

_PART = re.compile(r"""\.?([^.\[\]"]+)|\[(\d+)\]|\["([^"]*)"\]""")
Edit = tuple[list[str | int], Any]


class Edits(Struct, frozen=True):
    """Changes to a plain state."""

    fields: dict[str, Any]
    """whole fields, from the file"""
    single: list[Edit]
    """values by path, from `--set`, made after them"""

    @classmethod
    def of(cls, changes: list[str], file: Path | None) -> Edits:
        """What the command line says. Raises UsageError for what cannot be read."""
        return cls(_read_fields(file) if file is not None else {}, [_read_change(change) for change in changes])

    def apply(self, state: dict[str, Any]) -> dict[str, Any]:
        """The fields of a plain state that change, with their new values. Raises UsageError for a path that leads nowhere."""
        changed: dict[str, Any] = dict(self.fields)
        for path, value in self.single:
            name = str(path[0])
            if len(path) > 1 and name not in changed:
                changed[name] = copy.deepcopy(state.get(name))
            changed[name] = _put(changed.get(name), path[1:], value, name)
        return changed


def _put(target: Any, path: list[str | int], value: Any, where: str) -> Any:
    """A value with another one put at a path below it."""
    if not path:
        return value
    part, *rest = path
    if isinstance(target, dict):
        target[part] = _put(target.get(part), rest, value, f"{where}.{part}")
    elif isinstance(target, list) and isinstance(part, int) and part <= len(target):
        target[part : part + 1] = [_put(target[part] if part < len(target) else None, rest, value, f"{where}[{part}]")]
    else:
        raise UsageError(
            f"--set: {where} is {_kind(target)}, and has no {part!r} to set; name a path that the state has"
        )
    return target


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "not there" if value is None else f"a {type(value).__name__}"


def _read_change(change: str) -> Edit:
    where, equals, text = change.partition("=")
    path = _read_path(where.strip().removeprefix("$"))
    if not equals or not path or not isinstance(path[0], str):
        raise UsageError(f'--set {change!r}: write PATH=VALUE, such as limit=3 or items[0].name="x"')
    try:
        return path, decode_plain(text)
    except StorageError:  # not JSON: taken as text
        return path, text


def _read_path(text: str) -> list[str | int]:
    """The parts of a path; empty if it is none."""
    parts: list[str | int] = []
    place = 0
    while place < len(text):
        match = _PART.match(text, place)
        if match is None:
            return []
        name, index, quoted = match.groups()
        parts.append(int(index) if index is not None else quoted if quoted is not None else name)
        place = match.end()
    return parts


def _read_fields(file: Path) -> dict[str, Any]:
    try:
        fields = decode_plain(file.read_bytes())
    except OSError as error:
        raise UsageError(f"--state: {file} cannot be read: {error.strerror}") from error
    except StorageError as error:
        raise UsageError(f"--state: {file} is not JSON: {error.__cause__ or error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"--state: {file} holds a {type(fields).__name__}; it must be a JSON object of fields")
    return fields
