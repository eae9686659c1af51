"""Statuses: the table, the compare-and-set, what follows an end."""

from __future__ import annotations

import asyncio

from holdfast.errors import TransitionError, UsageError
from holdfast.ports import JOB_TRANSITIONS, Ask, Job, JobQuery, JobStatus, JobStore
from holdfast.testing._job_base import (
    ANY,
    JobStoreCase,
    added,
    make_job,
    make_request,
    make_worker,
    moved,
    read,
    refused,
    running,
    to,
)

S = JobStatus
LOST = (S.FAILED, S.CANCELLED)


async def in_status(store: JobStore, status: JobStatus) -> Job:
    """A job brought to a status by edges of the table."""
    if status in (S.AWAITING_APPROVAL, S.QUEUED):
        return await added(store, status=status)
    job = await running(store)
    return job if status is S.RUNNING else await moved(store, job, status)


class JobMoves(JobStoreCase):
    async def test_a_job_comes_back_as_it_was_added(self) -> None:
        async with self.opened() as store:
            need = await added(store)
            job = make_job(
                flow="ä «flow»",
                name="night\nly",
                labels={"team": "x", "émoji": "🙂"},
                priority=-3,
                uses=("executor:agent", "agent:claude", "executor:agent"),
                needs=(need.id,),
                definition=b'{"a":1}',
                inputs=b'{"b":[2]}',
                status=S.AWAITING_APPROVAL,
                reason="asked for",
                created_us=7,
            )
            await store.add([job])
            found = await read(store, job)
            assert (found.flow, found.name, found.labels, found.priority) == (
                job.flow,
                job.name,
                job.labels,
                job.priority,
            )
            assert (found.definition, found.inputs, found.outputs) == (job.definition, job.inputs, None)
            assert (found.uses, found.needs) == (("agent:claude", "executor:agent"), (need.id,))
            assert (found.status, found.reason, found.version, found.created_us) == (job.status, "asked for", 0, 7)
            assert (found.worker, found.runs, found.started_us, found.ended_us) == ("", 0, None, None)

    async def test_jobs_are_added_all_or_none(self) -> None:
        async with self.opened() as store:
            known, new = await added(store), make_job()
            for second, problem in (
                (known, "already"),
                (make_job(needs=("nobody",)), "no such job"),
                (new, "same id"),
                (make_job(status=S.RUNNING), "cannot be running"),
                (make_job(id="self", needs=("self",)), "needs itself"),
            ):
                await refused(store.add([new, second]), UsageError, problem)
                assert await store.job(new.id) is None

    async def test_every_edge_of_the_table_can_be_taken_and_is_written_down(self) -> None:
        async with self.opened() as store:
            for edge in JOB_TRANSITIONS:
                if edge.target is S.RUNNING:
                    continue  # that is a claim
                job = await in_status(store, edge.source)
                after = await moved(store, job, edge.target, reason=f"{edge.when} ä", by="me", outputs=b"[1]")
                assert (after.version, after.reason, after.worker) == (job.version + 1, f"{edge.when} ä", "")
                assert (after.outputs, after.runs) == (b"[1]", job.runs)
                assert (after.ended_us is not None) == edge.target.is_terminal
                last = (await store.changes(job_id=job.id))[-1]
                assert (last.source, last.target, last.at_us) == (edge.source, edge.target, after.updated_us)
                assert (last.reason, last.by) == (after.reason, "me")

    async def test_no_other_edge_can_be_taken(self) -> None:
        edges = {(edge.source, edge.target) for edge in JOB_TRANSITIONS}
        async with self.opened() as store:
            for source in S:
                job = await in_status(store, source)
                for target in S:
                    if (source, target) in edges:
                        continue
                    await refused(store.advance([to(job, target)]), TransitionError, job.id, f"is {source}")
                assert await read(store, job) == job

    async def test_a_late_mover_loses(self) -> None:
        async with self.opened() as store:
            job = await running(store)
            waits = await moved(store, job, S.WAITING)
            again = await moved(store, waits, S.QUEUED)
            assert await store.advance([to(job, S.COMPLETED), to(waits, S.QUEUED)]) == [None, None]
            assert await read(store, job) == again
            assert len(await store.changes(job_id=job.id)) == 4

    async def test_of_many_movers_at_once_one_wins(self) -> None:
        async with self.opened() as store:
            job = await running(store)
            targets = [S.COMPLETED, S.FAILED, S.WAITING] * 5
            results = await asyncio.gather(*(store.advance([to(job, target)]) for target in targets))
            (winner,) = [after for (after,) in results if after is not None]
            assert await read(store, job) == winner
            assert winner.version == job.version + 1

    async def test_asks_stay_until_they_are_replaced_or_the_job_ends(self) -> None:
        ask = Ask("a1", "approve", "ok?", {"ok": {"type": "bool"}}, expires_us=9)
        async with self.opened() as store:
            job = await running(store)
            assert await store.show(job.id, job.version, asks=[ask], now_us=3)
            assert not await store.show(job.id, job.version - 1, asks=[], now_us=3)
            assert (await read(store, job)).asks == (ask,)
            other = Ask("a2", "review")
            waits = await moved(store, job, S.WAITING, asks=(ask, other))
            assert not await store.show(job.id, waits.version, asks=[], now_us=3)
            queued = await moved(store, waits, S.QUEUED)
            assert queued.asks == (ask, other)
            assert (await moved(store, queued, S.CANCELLED)).asks == ()

    async def test_a_waiting_job_is_queued_when_its_time_has_come(self) -> None:
        async with self.opened() as store:
            early, late, never = [await running(store) for _ in range(3)]
            await moved(store, early, S.WAITING, wake_us=100)
            await moved(store, late, S.WAITING, wake_us=200)
            await moved(store, never, S.WAITING)
            assert await store.wake(now_us=99) == 100
            assert await store.wake(now_us=150) == 200
            assert [(await read(store, job)).status for job in (early, late, never)] == [
                S.QUEUED,
                S.WAITING,
                S.WAITING,
            ]
            assert await store.wake(now_us=200) is None
            assert (await read(store, late)).wake_us is None

    async def test_a_job_may_run_when_all_it_needs_has_completed(self) -> None:
        async with self.opened() as store:
            first, second = await running(store), await running(store)
            job = await added(store, needs=(first.id, second.id))
            worker = make_worker()
            await store.register(worker)
            await moved(store, first, S.COMPLETED)
            assert await store.claim_job(job.id, worker.id, ANY, now_us=9) is None
            await moved(store, second, S.COMPLETED)
            assert await store.claim_job(job.id, worker.id, ANY, now_us=9) is not None

    async def test_what_has_completed_already_holds_nobody_up(self) -> None:
        async with self.opened() as store:
            done = await moved(store, await running(store), S.COMPLETED)
            job = await added(store, needs=(done.id,))
            worker = make_worker()
            await store.register(worker)
            assert await store.claim_job(job.id, worker.id, ANY, now_us=9) is not None

    async def test_a_completed_job_that_goes_on_has_no_result_and_holds_up_those_that_need_it(self) -> None:
        async with self.opened() as store:
            first, second = await running(store), await added(store)
            child = await added(store, needs=(first.id, second.id))
            first = await moved(store, first, S.COMPLETED, outputs=b"1")
            first = await moved(store, first, S.QUEUED)
            assert (first.outputs, first.ended_us) == (None, None)
            worker = make_worker()
            await store.register(worker)
            claimed = {job.id: job for job in await store.claim(worker.id, ANY, now_us=9, limit=9)}
            assert set(claimed) == {first.id, second.id}
            await moved(store, claimed[first.id], S.COMPLETED)
            assert await store.claim(worker.id, ANY, now_us=9, limit=9) == []
            await moved(store, claimed[second.id], S.COMPLETED)
            assert [job.id for job in await store.claim(worker.id, ANY, now_us=9, limit=9)] == [child.id]

    async def test_jobs_that_need_a_lost_one_fail_with_it_at_any_depth(self) -> None:
        for ending in LOST:
            async with self.opened() as store:
                first = await running(store)
                child = await added(store, needs=(first.id,))
                unseen = await added(store, needs=(first.id,), status=S.AWAITING_APPROVAL)
                held = await moved(store, await added(store, needs=(first.id,)), S.PAUSED)
                grandchild = await added(store, needs=(child.id, unseen.id))
                await moved(store, first, ending)
                for job, cause in ((child, first), (unseen, first), (held, first), (grandchild, child)):
                    found = await read(store, job)
                    assert found.status is S.FAILED
                    assert f"needs job {cause.id}, which" in found.reason
                await refused(added(store, needs=(first.id,)), UsageError, "retry that first")

    async def test_a_job_that_has_begun_goes_on_whatever_becomes_of_what_it_needed(self) -> None:
        for ending in LOST:
            async with self.opened() as store:
                needed = await moved(store, await running(store), S.COMPLETED)
                mine, asked, late = [await running(store, needs=(needed.id,)) for _ in range(3)]
                asked = await moved(store, asked, S.WAITING)
                needed = await moved(store, needed, S.QUEUED)
                worker = make_worker()
                await store.register(worker)
                claimed = await store.claim_job(needed.id, worker.id, ANY, now_us=9)
                assert claimed is not None
                await moved(store, claimed, ending)
                late = await moved(store, late, S.WAITING, wake_us=10)
                assert await store.lose(mine.worker, reason="killed", now_us=11) == [mine.id]
                assert await store.request(make_request(asked), to(asked, S.QUEUED))
                assert await store.wake(now_us=11) is None
                again = await store.claim(worker.id, ANY, now_us=12, limit=9)
                assert {job.id for job in again} == {mine.id, asked.id, late.id}

    async def test_a_job_is_not_queued_again_before_what_it_needs(self) -> None:
        async with self.opened() as store:
            first = await running(store)
            child = await added(store, needs=(first.id,))
            first = await moved(store, first, S.FAILED)
            child = await read(store, child)
            assert await store.advance([to(child, S.QUEUED)]) == [None]
            first = await moved(store, first, S.QUEUED)
            await moved(store, child, S.QUEUED)
            worker = make_worker()
            await store.register(worker)
            assert await store.claim_job(child.id, worker.id, ANY, now_us=9) is None
            claimed = await store.claim_job(first.id, worker.id, ANY, now_us=9)
            assert claimed is not None
            await moved(store, claimed, S.COMPLETED)
            assert await store.claim_job(child.id, worker.id, ANY, now_us=9) is not None

    async def test_only_an_ended_job_is_archived_or_deleted(self) -> None:
        async with self.opened() as store:
            job = await running(store)
            assert not await store.archive(job.id, archived=True, now_us=5)
            assert not await store.delete(job.id)
            assert not await store.delete("nobody")
            failed = await moved(store, job, S.FAILED)
            assert await store.archive(job.id, archived=True, now_us=5)
            assert (await read(store, job)).archived
            assert await store.jobs(JobQuery()) == []
            assert await store.archive(job.id, archived=False, now_us=6)
            assert [one.id for one in await store.jobs(JobQuery())] == [failed.id]
            assert await store.delete(job.id)
            assert await store.job(job.id) is None
            assert await store.changes(job_id=job.id) == []

    async def test_who_needs_a_deleted_job_needs_it_no_more(self) -> None:
        async with self.opened() as store:
            first = await running(store)
            child = await added(store, needs=(first.id,))
            await moved(store, first, S.FAILED)
            assert await store.delete(first.id)
            child = await read(store, child)
            assert child.needs == ()
            assert (await moved(store, child, S.QUEUED)).status is S.QUEUED
