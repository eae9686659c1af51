"""The state that a program's steps share."""

from __future__ import annotations

from typing import Any


class SharedState:
    """One state, and who works on it."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def current(self) -> Any:
        """The state as the code that asks may see it."""
        return self._state

    def replace(self, state: Any) -> None:
        """Put another state in its place."""
        self._state = state

    def enter_alone(self, key: str) -> None: ...
    def enter_shared(self, key: str) -> None: ...
    def leave(self, key: str) -> None: ...
    def abandon(self, key: str) -> None: ...
