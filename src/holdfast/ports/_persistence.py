"""`FlowPersistence`: where flows with `@persist` keep their states."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class FlowPersistence(Protocol):
    """Keeps the newest state under each id. Every method blocks, and may be called from any thread, several at once.

    States are plain, as `holdfast.deltas.plain` makes them: `encode_plain` there writes one as JSON, `decode_plain` reads it
    back exactly. Whatever a method raises fails the run, and the message names the backend by its `repr`.
    """

    def save_state(self, state_id: str, method: str, state: dict[str, Any]) -> None:
        """Keep a state that a method left; when this returns it is safe. The dict is the caller's: keep a copy."""
        ...

    def load_state(self, state_id: str) -> dict[str, Any] | None:
        """The state that was saved last under an id, exactly and the caller's own; None if there is none."""
        ...

    def close(self) -> None:
        """Let go of the storage. Twice is fine; any other use afterwards is a ClosedError."""
        ...
