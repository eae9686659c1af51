"""`PostgresStore`: journals for a fleet, in one PostgreSQL database."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial

from holdfast.errors import UsageError
from holdfast.ports import Batch, BranchInfo, Mark, Row, RunInfo, Session, Snapshot
from holdfast.stores import _postgres_reads as reads
from holdfast.stores import _postgres_writes as writes
from holdfast.stores import _rules as rules
from holdfast.stores._closing import Closing
from holdfast.stores._postgres_engine import PostgresEngine

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def check_schema(name: str) -> str:
    """Raises UsageError if it is not a name that needs no quotes."""
    if not _SCHEMA.fullmatch(name):
        raise UsageError(f"schema must be a plain lower-case name, not {name!r}")
    return name


class PostgresStore(Closing):
    """Journals in a PostgreSQL database, in a schema of their own, made on first use. Needs `holdfast[postgres]`.

    `connections` bounds the pool beside the one connection that appends; `seconds` bounds each statement. Works from any thread
    and any event loop through one thread of its own. A batch whose connection broke is looked for, and sent again if it is not
    there. Raises UsageError if the schema's name is not a plain lower-case one.
    """

    def __init__(self, dsn: str, *, schema: str = "holdfast", connections: int = 4, seconds: float = 60.0) -> None:
        self.dsn = dsn
        self.schema = check_schema(schema)
        self._engine = PostgresEngine(dsn, schema, connections, seconds)

    def __repr__(self) -> str:
        return f"PostgresStore(schema={self.schema!r})"  # without the DSN: it may hold a password

    # -- writing ---------------------------------------------------------------------------------------------------

    async def open(
        self, info: RunInfo, *, branch: str = "main", owner: str, now_us: int, hold_until_us: int
    ) -> Session:
        return await self._engine.call(
            partial(writes.open_run, info=info, branch=branch, owner=owner, now_us=now_us, hold_until_us=hold_until_us)
        )

    def open_now(self, info: RunInfo, *, branch: str = "main", owner: str, now_us: int, hold_until_us: int) -> Session:
        return self._engine.call_now(
            partial(writes.open_run, info=info, branch=branch, owner=owner, now_us=now_us, hold_until_us=hold_until_us)
        )

    async def append(self, batch: Batch) -> None:
        await self._engine.append(batch)

    def expect(self, session: Session, event_ids: Sequence[str]) -> None: ...

    def append_at_once(self, batch: Batch) -> bool:
        return False  # a way over the network is no matter of a moment

    def append_now(self, batch: Batch) -> None:
        self._engine.append_now(batch)

    async def close_session(self, session: Session) -> None:
        await self._engine.call(partial(writes.close_session, session=session))

    def close_session_now(self, session: Session) -> None:
        self._engine.call_now(partial(writes.close_session, session=session))

    # -- reading ---------------------------------------------------------------------------------------------------

    async def run(self, root_run_id: str) -> RunInfo | None:
        return await self._engine.call(partial(reads.run, root_run_id=root_run_id))

    async def runs(self, *, status: str | None = None, limit: int = 100) -> list[RunInfo]:
        return await self._engine.call(partial(reads.runs, status=status, limit=limit))

    async def read(
        self, root_run_id: str, *, branch: str = "main", after: int = 0, upto: int | None = None
    ) -> AsyncIterator[Row]:
        known = await self._engine.call(partial(reads.branches, root_run_id=root_run_id))
        for segment in rules.reading(known.lineage(root_run_id, branch, upto), after):
            key = known.keys[segment.branch]
            while page := await self._engine.call(partial(reads.page, branch_key=key, segment=segment)):
                for row in page:
                    yield row
                segment = segment._replace(after=page[-1].seq)

    async def last_snapshot(
        self, root_run_id: str, *, branch: str = "main", upto: int | None = None
    ) -> Snapshot | None:
        return await self._engine.call(partial(reads.last_snapshot, root_run_id=root_run_id, branch=branch, upto=upto))

    async def blob(self, digest: str) -> bytes:
        return await self._engine.call(partial(reads.blob, digest=digest))

    async def marks(self, root_run_id: str | None = None, *, limit: int = 1000) -> list[Mark]:
        return await self._engine.call(partial(reads.marks, root_run_id=root_run_id, limit=limit))

    async def mark(self, mark_id: str) -> Mark | None:
        return await self._engine.call(partial(reads.mark, mark_id=mark_id))

    async def branches(self, root_run_id: str) -> list[BranchInfo]:
        known = await self._engine.call(partial(reads.branches, root_run_id=root_run_id))
        return list(known.infos.values())

    async def size(self, root_run_id: str) -> int:
        return await self._engine.call(partial(reads.size, root_run_id=root_run_id))

    # -- changing shape --------------------------------------------------------------------------------------------

    async def fork(self, root_run_id: str, *, branch: str, parent: str, at_seq: int, now_us: int) -> BranchInfo:
        work = partial(writes.fork, root_run_id=root_run_id, branch=branch, parent=parent, at_seq=at_seq, now_us=now_us)
        return await self._engine.call(work)

    async def prune(self, root_run_id: str, *, keep_marks: Iterable[str]) -> int:
        return await self._engine.call(partial(writes.prune, root_run_id=root_run_id, keep_marks=frozenset(keep_marks)))

    async def delete(self, root_run_id: str, *, now_us: int) -> None:
        await self._engine.call(partial(writes.delete, root_run_id=root_run_id, now_us=now_us))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._engine.close)

    def close(self) -> None:
        self._engine.close()

    def _holds_something(self) -> bool:
        engine = getattr(self, "_engine", None)
        return engine is not None and not engine.closed and engine.used
