"""`PostgresLedger`: live resources written down in the PostgreSQL schema that journals are kept in."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.ports import LedgerRow
from holdfast.stores._closing import Closing
from holdfast.stores._ledger_rows import decode_row, encode_row
from holdfast.stores._postgres import check_schema
from holdfast.stores._postgres_engine import PostgresEngine
from holdfast.stores._queries import load


class PostgresLedger(Closing):
    """A ledger in a PostgreSQL schema, which may be a `PostgresStore`'s; made on first use. Needs `holdfast[postgres]`.

    Machines may share it: each sweeps only what its own dead owners left. `connections` bounds the pool; `seconds` bounds each
    statement. Raises UsageError if the schema's name is not a plain lower-case one.
    """

    def __init__(self, dsn: str, *, schema: str = "holdfast", connections: int = 2, seconds: float = 10.0) -> None:
        self.schema = check_schema(schema)
        self._engine = PostgresEngine(dsn, schema, connections, seconds)
        self._sql = load("postgres")

    def __repr__(self) -> str:
        return f"PostgresLedger(schema={self.schema!r})"  # without the DSN: it may hold a password

    async def put(self, row: LedgerRow) -> None:
        await self._execute("put_resource", row.id, encode_row(row))

    async def remove(self, row_id: str) -> None:
        await self._execute("remove_resource", row_id)

    async def rows(self) -> list[LedgerRow]:
        found = await self._engine.call(lambda connection: connection.fetch(self._sql["resources"]))
        return [decode_row(row_id, data, f"the schema {self.schema}") for row_id, data in found]

    async def _execute(self, query: str, *values: object) -> None:
        async def work(connection: Any) -> None:
            await connection.execute(self._sql[query], *values)

        await self._engine.call(work)

    def close(self) -> None:
        self._engine.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self._engine.close)

    def _holds_something(self) -> bool:
        engine = getattr(self, "_engine", None)
        return engine is not None and not engine.closed and engine.used
