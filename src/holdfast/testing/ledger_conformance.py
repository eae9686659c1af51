"""What every `Ledger` must do. Subclass the suite in your tests and say how to make yours.

    class TestMine(LedgerConformance):
        def make_ledger(self) -> Ledger:
            return MyLedger(...)

Wants pytest with `asyncio_mode = "auto"`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from holdfast.errors import ClosedError, StorageError
from holdfast.ids import new_id
from holdfast.ports import Ledger, LedgerRow, Owner, Place, ProcessIdentity

PLACE = Place("here", "boot-1", "pid:[1]")


def make_row(**changes: Any) -> LedgerRow:
    """An intent to spawn a process."""
    owner = Owner(new_id(), ProcessIdentity(PLACE, 100, 12345, 2**63 + 5))
    values: dict[str, Any] = {"id": new_id(), "kind": "process", "name": "agent", "owner": owner, "since_us": 1}
    return LedgerRow(**(values | changes))


class LedgerConformance(ABC):
    """Every promise of `holdfast.ports.Ledger`. Fill `make_ledger`; and `make_twin` if storage can be shared."""

    @abstractmethod
    def make_ledger(self) -> Ledger:
        """A ledger on storage that is new and empty."""

    def make_twin(self, ledger: Ledger) -> Ledger | None:
        """Another ledger object on the same storage, as another process would have; None if it cannot be shared."""
        return None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Ledger]:
        ledger = self.make_ledger()
        try:
            yield ledger
        finally:
            await ledger.aclose()

    async def test_a_new_ledger_is_empty(self) -> None:
        async with self.opened() as ledger:
            assert await ledger.rows() == []

    async def test_a_row_comes_back_as_it_was_put(self) -> None:
        leader = ProcessIdentity(PLACE, 4_000_000, 2**62, 2**63 + 7)
        row = make_row(
            name="agent «ä»\n",
            tag=2**62 - 1,
            runs=("a", "b"),
            leader=leader,
            keeper=leader,
            path="/tmp/ü",
            since_us=2**52,
        )
        async with self.opened() as ledger:
            await ledger.put(row)
            assert await ledger.rows() == [row]

    async def test_rows_are_listed_oldest_first_and_replaced_in_place(self) -> None:
        first, second = make_row(), make_row()
        async with self.opened() as ledger:
            await ledger.put(first)
            await ledger.put(second)
            done = replace(first, leader=first.owner.process, runs=("r",))
            await ledger.put(done)
            assert await ledger.rows() == [done, second]

    async def test_removing_takes_out_one_row_and_twice_is_fine(self) -> None:
        first, second = make_row(), make_row()
        async with self.opened() as ledger:
            await ledger.put(first)
            await ledger.put(second)
            await ledger.remove(first.id)
            await ledger.remove(first.id)
            await ledger.remove("nobody")
            assert await ledger.rows() == [second]

    async def test_many_at_once_are_all_there(self) -> None:
        rows = [make_row() for _ in range(50)]
        async with self.opened() as ledger:
            await asyncio.gather(*(ledger.put(row) for row in rows))
            await asyncio.gather(*(ledger.remove(row.id) for row in rows[::2]))
            assert {row.id for row in await ledger.rows()} == {row.id for row in rows[1::2]}

    async def test_another_object_on_the_same_storage_sees_what_was_put(self) -> None:
        async with self.opened() as ledger:
            await ledger.put(row := make_row())
            twin = self.make_twin(ledger)
            if twin is None:
                return
            try:
                assert await twin.rows() == [row]
                await twin.remove(row.id)
                assert await ledger.rows() == []
            finally:
                await twin.aclose()

    async def test_a_closed_ledger_refuses_and_may_be_closed_twice(self) -> None:
        ledger = self.make_ledger()
        await ledger.put(make_row())
        await ledger.aclose()
        await ledger.aclose()
        for call in (ledger.rows(), ledger.put(make_row()), ledger.remove("x")):
            try:
                await call
            except (ClosedError, StorageError):
                continue
            raise AssertionError("a closed ledger answered")
