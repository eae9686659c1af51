"""`SqliteLedger`: live resources written down in the SQLite file that journals are kept in."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from sqlite3 import Connection

from holdfast.ports import LedgerRow
from holdfast.stores._closing import Closing
from holdfast.stores._ledger_rows import decode_row, encode_row
from holdfast.stores._queries import load
from holdfast.stores._sqlite import SqliteEngine


class SqliteLedger(Closing):
    """A ledger in an SQLite file, which may be a `SqliteStore`'s; made on first use. Several processes may share it."""

    def __init__(self, path: str | os.PathLike[str], *, busy_seconds: float = 10.0) -> None:
        self.path = Path(path).expanduser().absolute()
        self._engine = SqliteEngine(self.path, busy_seconds)
        self._sql = load("sqlite")

    def __repr__(self) -> str:
        return f"SqliteLedger({str(self.path)!r})"

    async def put(self, row: LedgerRow) -> None:
        await self._write("put_resource", row.id, encode_row(row))

    async def remove(self, row_id: str) -> None:
        await self._write("remove_resource", row_id)

    async def rows(self) -> list[LedgerRow]:
        found = await self._engine.read(lambda connection: connection.execute(self._sql["resources"]).fetchall())
        return [decode_row(row_id, data, str(self.path)) for row_id, data in found]

    async def _write(self, query: str, *values: object) -> None:
        self._engine.check_open()
        await self._engine.writer.write(partial(_execute, self._sql[query], values), alone=True)

    def close(self) -> None:
        self._engine.close()

    async def aclose(self) -> None:
        await self._engine.aclose()

    def _holds_something(self) -> bool:
        engine = getattr(self, "_engine", None)
        return engine is not None and not engine.closed and engine.connections.used


def _execute(sql: str, values: tuple[object, ...], connection: Connection) -> None:
    connection.execute(sql, values)
