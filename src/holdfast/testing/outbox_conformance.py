"""What every `Outbox` must do, beside its `JobStore`. Subclass the suite in your tests and say how to make yours.

    class TestMine(OutboxConformance):
        def make_office(self, hooks: Subscriptions) -> Office:
            return Office(MyJobs(...), MyJournals(...), MyOutbox(...))

Wants pytest with `asyncio_mode = "auto"`.
"""

from __future__ import annotations

from holdfast.testing._outbox_delivering import OutboxDelivering
from holdfast.testing._outbox_telling import OutboxTelling


class OutboxConformance(OutboxTelling, OutboxDelivering):
    """Every promise of `holdfast.ports.Outbox`. Fill `make_office`; and `make_twin` if storage can be shared."""
