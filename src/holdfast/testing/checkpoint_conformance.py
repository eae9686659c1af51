"""What every `CheckpointProvider` must do. Subclass the suite in your tests and say how to make yours.

    class TestMine(CheckpointProviderConformance):
        def make_provider(self) -> CheckpointProvider:
            return MyProvider(new_place())

        def make_twin(self, provider: CheckpointProvider) -> CheckpointProvider:
            return MyProvider(provider.place)

        def twin_source(self, provider: CheckpointProvider) -> str:
            return f"from mine import MyProvider; provider = MyProvider({provider.place!r})"

Wants pytest with `asyncio_mode = "auto"`. A fixture that your subclass marks `autouse` can set up storage for `make_provider`.
"""

from __future__ import annotations

from holdfast.testing._checkpoint_base import CheckpointSuite
from holdfast.testing._checkpoint_crowds import CrowdsConformance
from holdfast.testing._checkpoint_keeping import KeepingConformance
from holdfast.testing._checkpoint_pruning import PruningConformance

__all__ = ["CheckpointProviderConformance"]


class CheckpointProviderConformance(KeepingConformance, PruningConformance, CrowdsConformance, CheckpointSuite):
    """Every promise of `holdfast.ports.CheckpointProvider`. Fill `make_provider`, `make_twin` and `twin_source`."""
