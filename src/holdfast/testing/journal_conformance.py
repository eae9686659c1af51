"""What every `JournalStore` must do. Subclass the suite in your tests and say how to make yours.

    class TestMine(JournalStoreConformance):
        def make_store(self) -> JournalStore:
            return MyStore(...)

Wants pytest with `asyncio_mode = "auto"`. A fixture that your subclass marks `autouse` can set up storage for `make_store`.
"""

from __future__ import annotations

from holdfast.testing._journal_base import JournalSuite
from holdfast.testing._journal_crowds import CrowdsConformance
from holdfast.testing._journal_reading import ReadingConformance
from holdfast.testing._journal_shape import ShapeConformance
from holdfast.testing._journal_writing import WritingConformance

__all__ = ["JournalStoreConformance"]


class JournalStoreConformance(
    WritingConformance, ReadingConformance, ShapeConformance, CrowdsConformance, JournalSuite
):
    """Every promise of `holdfast.ports.JournalStore`. Fill `make_store`; and `make_twin` if storage can be shared."""
