"""The store in memory keeps every promise of the port."""

from __future__ import annotations

from holdfast.ports import JournalStore
from holdfast.stores import MemoryStore
from holdfast.testing.journal_conformance import JournalStoreConformance


class TestMemoryStore(JournalStoreConformance):
    def make_store(self) -> JournalStore:
        return MemoryStore()
