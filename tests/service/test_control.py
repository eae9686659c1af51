"""What a runner hears: every request once, in order, until its job is in other hands."""

from __future__ import annotations

import asyncio

from holdfast.ports import Ask
from holdfast.service._control import Control
from holdfast.stores import MemoryJobs
from holdfast.testing._job_base import make_request, read, running


async def test_a_request_is_delivered_once_however_often_it_is_read_from_the_store() -> None:
    jobs = MemoryJobs()
    job = await running(jobs)
    first, second = make_request(job), make_request(job, kind="cancel")
    control = Control(jobs, job, None)
    control.deliver([first])
    control.deliver([first, second])
    control.deliver([first, second])
    assert [await control.next_request(), await control.next_request()] == [first, second]
    assert control.has_delivered_all


async def test_a_settled_request_is_gone_and_what_is_shown_is_stored() -> None:
    jobs = MemoryJobs()
    job = await running(jobs)
    request = make_request(job)
    await jobs.request(request)
    control = Control(jobs, job, None)
    await control.settle(request)
    assert await jobs.requests(job_id=job.id) == []
    await control.show([ask := Ask("a1", "review")])
    assert (await read(jobs, job)).asks == (ask,)


async def test_who_waits_for_a_request_gets_the_next_one() -> None:
    jobs = MemoryJobs()
    job = await running(jobs)
    control = Control(jobs, job, None)
    waiting = asyncio.create_task(control.next_request())
    await asyncio.sleep(0)
    control.deliver([request := make_request(job)])
    assert await waiting == request
