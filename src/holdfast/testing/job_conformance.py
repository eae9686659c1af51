"""What every `JobStore` must do. Subclass the suite in your tests and say how to make yours.

    class TestMine(JobStoreConformance):
        def make_store(self) -> JobStore:
            return MyJobs(...)

Wants pytest with `asyncio_mode = "auto"`.
"""

from __future__ import annotations

from holdfast.testing._job_moves import JobMoves
from holdfast.testing._job_queue import JobQueue


class JobStoreConformance(JobMoves, JobQueue):
    """Every promise of `holdfast.ports.JobStore`. Fill `make_store`; and `make_twin` if storage can be shared."""
