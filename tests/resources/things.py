"""A manager of things that are nothing but memory, made and ended when a test says so."""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import Future

from msgspec import Struct

from holdfast.errors import StorageError, StoreUnavailableError
from holdfast.ports import LedgerRow
from holdfast.resources import PooledManager
from holdfast.stores import MemoryLedger
from holdfast.threads import done_here


class ThingSpec(Struct, frozen=True):
    name: str
    gate: Future[None] | None = None
    """it is not made before this is done"""

    def key(self) -> Hashable:
        return self.name


class Thing:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_healthy = True
        self.is_there = True


class Things(PooledManager[ThingSpec, Thing]):
    kind = "thing"

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args or (MemoryLedger(),), **options)  # type: ignore[arg-type]
        self.made: list[str] = []
        self.ended: list[str] = []
        self.ending: dict[str, Future[None]] = {}
        """what is not ended before these are done, by name"""
        self.cannot_end: StorageError | OSError | None = None

    def intend(self, spec: ThingSpec, row: LedgerRow) -> LedgerRow:
        return row

    async def make(self, spec: ThingSpec, row: LedgerRow) -> tuple[Thing, LedgerRow]:
        if spec.gate is not None:
            await done_here(spec.gate)
            spec.gate.result()
        self.made.append(spec.name)
        return Thing(spec.name), row

    async def is_healthy(self, resource: Thing) -> bool:
        return resource.is_healthy

    async def end(self, resource: Thing) -> None:
        if self.cannot_end is not None:
            raise self.cannot_end
        if (gate := self.ending.get(resource.name)) is not None:
            await done_here(gate)
        resource.is_there = False
        self.ended.append(resource.name)

    async def end_orphan(self, row: LedgerRow) -> str:
        return ""


class BrokenLedger(MemoryLedger):
    """A ledger whose storage comes and goes."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()
        self.problem: Exception = StoreUnavailableError("the disk is full")
        self.puts: list[LedgerRow] = []

    def _check(self, what: str) -> None:
        if what in self.broken:
            raise self.problem

    async def put(self, row: LedgerRow) -> None:
        self._check("put")
        await super().put(row)
        self.puts.append(row)
        if "put after" in self.broken and len(self.puts) == 1:
            self.broken.add("put")

    async def remove(self, row_id: str) -> None:
        self._check("remove")
        await super().remove(row_id)

    async def rows(self) -> list[LedgerRow]:
        self._check("rows")
        return await super().rows()
