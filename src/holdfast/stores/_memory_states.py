"""`MemoryPersistence`: states of `@persist` flows that end with the process. For tests."""

from __future__ import annotations

import threading
from typing import Any

from holdfast.deltas import decode_plain, encode_plain
from holdfast.stores import _rules as rules
from holdfast.stores._closing import Closing


class MemoryPersistence(Closing):
    """The newest state under each id, written out as a file would have it, so that nobody can change it in place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, bytes] = {}
        self._closed = False

    def __repr__(self) -> str:
        return "MemoryPersistence()"

    def save_state(self, state_id: str, method: str, state: dict[str, Any]) -> None:
        data = encode_plain(state)
        with self._lock:
            self._check_open()
            self._states[state_id] = data

    def load_state(self, state_id: str) -> dict[str, Any] | None:
        with self._lock:
            self._check_open()
            data = self._states.get(state_id)
        return None if data is None else decode_plain(data)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._states.clear()

    async def aclose(self) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise rules.store_closed(repr(self))
