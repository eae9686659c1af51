"""`MemoryLedger`: live resources written down in memory."""

from __future__ import annotations

from holdfast.ports import LedgerRow
from holdfast.stores import _rules as rules
from holdfast.stores._closing import Closing


class MemoryLedger(Closing):
    """A ledger that ends with this process: enough where keepers do all the work and nothing is swept."""

    def __init__(self) -> None:
        self._rows: dict[str, LedgerRow] = {}
        self._closed = False

    async def put(self, row: LedgerRow) -> None:
        self._check_open()
        self._rows[row.id] = row

    async def remove(self, row_id: str) -> None:
        self._check_open()
        self._rows.pop(row_id, None)

    async def rows(self) -> list[LedgerRow]:
        self._check_open()
        return list(self._rows.values())

    def close(self) -> None:
        self._closed = True

    async def aclose(self) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise rules.store_closed("this ledger")
