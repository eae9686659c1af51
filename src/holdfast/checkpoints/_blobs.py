"""Large values are stored once, under the hash of their content; rows and snapshots name the hash instead.

In stored JSON `{"$blob": digest}` stands for a text, `{"$blob+json": digest}` for any other value. Data of a user's that looks
like it is escaped by the codec (`$dict`), so the two are never confused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.errors import StorageError
from holdfast.ports import Row

LARGE = 16_384
_TEXT, _JSON = "$blob", "$blob+json"


class BlobWriter:
    """Takes large values out of encoded data and keeps them for the next batch."""

    def __init__(self) -> None:
        self.taken: dict[str, bytes] = {}

    def extract(self, data: bytes) -> bytes:
        """Encoded data with its large values named by their hashes."""
        if len(data) < LARGE:
            return data
        small, taken = _shrunk(msgspec.json.decode(data))
        self.taken |= taken
        return msgspec.json.encode(small)

    def take_all(self) -> tuple[tuple[str, bytes], ...]:
        """What was taken out since this was last asked."""
        taken, self.taken = self.taken, {}
        return tuple(taken.items())


def _shrunk(value: Any) -> tuple[Any, dict[str, bytes]]:
    """A value with large parts named by their hashes, and these parts. None holds another: a row spells out all it needs."""
    if isinstance(value, str):
        return _kept(_TEXT, value.encode()) if len(value) >= LARGE else (value, {})
    if isinstance(value, dict):
        parts = {key: _shrunk(item) for key, item in value.items()}
        small: Any = {key: part for key, (part, _) in parts.items()}
        taken = [found for _, found in parts.values()]
    elif isinstance(value, list):
        items = [_shrunk(item) for item in value]
        small, taken = [part for part, _ in items], [found for _, found in items]
    else:
        return value, {}
    if len(msgspec.json.encode(small)) >= LARGE:  # many small things
        return _kept(_JSON, msgspec.json.encode(value))
    return small, {digest: content for found in taken for digest, content in found.items()}


def _kept(kind: str, content: bytes) -> tuple[Any, dict[str, bytes]]:
    digest = hashlib.sha256(content).hexdigest()
    return {kind: digest}, {digest: content}


class BlobReader:
    """Puts large values back. Remembers none: a run may have many."""

    def __init__(self, blob: Callable[[str], Awaitable[bytes]]) -> None:
        self._blob = blob

    async def resolve_row(self, row: Row) -> Row:
        """A row with its large values in place."""
        if b'"$blob' not in row.payload and (row.delta is None or b'"$blob' not in row.delta):
            return row
        delta = await self.resolve(row.delta) if row.delta is not None else None
        return replace(row, payload=await self.resolve(row.payload), delta=delta)

    async def resolve(self, data: bytes) -> bytes:
        """Encoded data with its large values in place. Raises StorageError if one is gone or damaged."""
        if b'"$blob' not in data:
            return data
        return msgspec.json.encode(await self._grown(msgspec.json.decode(data)))

    async def _grown(self, value: Any) -> Any:
        if isinstance(value, list):
            return [await self._grown(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((key, digest),) = value.items()
            if key == _TEXT:
                return (await self._fetch(digest)).decode()
            if key == _JSON:
                return msgspec.json.decode(await self._fetch(digest))
        return {key: await self._grown(item) for key, item in value.items()}

    async def _fetch(self, digest: str) -> bytes:
        content = await self._blob(digest)
        if hashlib.sha256(content).hexdigest() != digest:
            raise StorageError(f"the stored value {digest} is damaged: its content does not have that hash")
        return content
