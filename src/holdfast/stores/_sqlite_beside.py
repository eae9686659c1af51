"""What jobs, schedules and the outbox share: each in a file of its own, or beside the journals of a store."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores._closing import Closing
from holdfast.stores._sqlite import SqliteEngine


class Beside(Closing):
    """Something in an SQLite file whose engine it has made, or borrows from a store that outlives it."""

    path: Path
    _engine: SqliteEngine
    _owns_engine: bool

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def close(self) -> None:
        if self._owns_engine:
            self._engine.close()

    async def aclose(self) -> None:
        if self._owns_engine:
            await self._engine.aclose()

    def _holds_something(self) -> bool:
        engine = getattr(self, "_engine", None)
        return engine is not None and self._owns_engine and not engine.closed and engine.connections.used
