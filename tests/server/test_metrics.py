"""Counts for Prometheus."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.server.site import served

from holdfast.errors import StoreUnavailableError
from holdfast.ports import Job, JobMove, JobStatus
from holdfast.server import _metrics
from holdfast.server._metrics import Endings
from holdfast.stores import MemoryJobs


async def test_metrics_count_how_jobs_ended_since_the_server_started(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        await site.settled(await site.submit("hello"))
    (tmp_path / ".holdfast" / "tokens.json").unlink()  # a site makes its own
    async with served(tmp_path) as site:
        client = await site.client("operate")
        for _ in range(2):
            await site.settled(await site.submit("hello"))
        job_id = await site.submit("gate")
        await site.settled(job_id)
        await client.post(f"/api/v1/jobs/{job_id}/cancel", json={})
        async with asyncio.timeout(20):
            await site.project.service.until([job_id], lambda found: found[0].status.is_terminal)
        told = [(await client.get("/metrics")).text for _ in range(2)]
        for text in told:
            ended = [
                line.partition("_total")[2] for line in text.splitlines() if line.startswith("holdfast_jobs_ended")
            ]
            assert ended == ['{status="completed"} 2', '{status="failed"} 0', '{status="cancelled"} 1']


async def test_endings_are_counted_once_over_many_pages_and_by_who_asks_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_metrics, "PART", 3)
    jobs = MemoryJobs()
    endings = Endings(jobs)
    assert await endings.read() == {"completed": 0, "failed": 0, "cancelled": 0}
    new = [Job(f"job{n}", "f", JobStatus.AWAITING_APPROVAL, 1) for n in range(10)]
    await jobs.add(new)
    await jobs.advance([JobMove(job.id, job.status, JobStatus.CANCELLED, job.version, 2) for job in new])
    both = await asyncio.gather(endings.read(), endings.read())
    assert [told["cancelled"] for told in both] == [10, 10]


async def test_a_store_that_is_away_at_the_start_is_counted_from_the_first_call_on() -> None:
    class Away(MemoryJobs):
        is_away = True

        async def last_change(self) -> int:
            if self.is_away:
                raise StoreUnavailableError("gone")
            return await super().last_change()

    jobs = Away()
    endings = Endings(jobs)
    await endings.begin()
    with pytest.raises(StoreUnavailableError):
        await endings.read()
    jobs.is_away = False
    assert (await endings.read())["failed"] == 0
