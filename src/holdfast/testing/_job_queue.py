"""The queue: who gets which job, workers and how they are lost, requests, what others notice."""

from __future__ import annotations

import asyncio

from holdfast.errors import ClosedError
from holdfast.ports import Caps, JobQuery, JobStatus
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


class JobQueue(JobStoreCase):
    async def test_a_claim_takes_the_highest_priority_and_then_the_oldest(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            late, urgent, last = make_job(), make_job(priority=5, uses=("flow:x",)), make_job(priority=-1)
            await store.add([late, urgent, last])
            early = make_job(created_us=0)
            await store.add([early])
            order = []
            while claimed := await store.claim(worker.id, ANY, now_us=10):
                order += [job.id for job in claimed]
            assert order == [urgent.id, late.id, early.id, last.id]
            job = await read(store, urgent)
            assert (job.status, job.worker, job.runs, job.started_us) == (S.RUNNING, worker.id, 1, 10)

    async def test_a_claim_takes_no_more_than_it_is_told(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            await store.add([make_job() for _ in range(5)])
            assert len(await store.claim(worker.id, ANY, now_us=1, limit=3)) == 3
            assert len(await store.claim(worker.id, ANY, now_us=1, limit=3)) == 2

    async def test_a_worker_that_is_not_registered_gets_nothing(self) -> None:
        async with self.opened() as store:
            job = await added(store)
            assert await store.claim("nobody", ANY, now_us=1) == []
            assert await store.claim_job(job.id, "nobody", ANY, now_us=1) is None

    async def test_what_is_not_queued_is_not_claimed(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            await added(store, status=S.AWAITING_APPROVAL)
            await moved(store, await added(store), S.PAUSED)
            await moved(store, await running(store), S.WAITING)
            assert await store.claim(worker.id, ANY, now_us=1, limit=9) == []

    async def test_caps_bound_what_runs_at_once_in_all_and_by_use(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            both = ("agent:claude", "flow:fix")
            jobs = [make_job(uses=both) for _ in range(3)] + [make_job(uses=("flow:hello",)) for _ in range(3)]
            await store.add(jobs)
            caps = Caps(total=4, by_use={"agent:claude": 2, "flow:hello": 1})
            first = await store.claim(worker.id, caps, now_us=1, limit=9)
            assert [job.id for job in first] == [jobs[0].id, jobs[1].id, jobs[3].id]
            assert await store.claim(worker.id, caps, now_us=1, limit=9) == []
            await moved(store, first[0], S.COMPLETED)
            assert [job.id for job in await store.claim(worker.id, caps, now_us=1, limit=9)] == [jobs[2].id]
            await moved(store, first[2], S.WAITING)
            assert [job.id for job in await store.claim(worker.id, caps, now_us=1, limit=9)] == [jobs[4].id]
            wider = Caps(total=4)
            assert len(await store.claim(worker.id, wider, now_us=1, limit=9)) == 1

    async def test_a_full_flow_at_the_head_does_not_hold_up_the_others(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            await store.add([make_job(uses=("flow:slow",), priority=9) for _ in range(20)])
            quick = await added(store, uses=("flow:quick",))
            caps = Caps(by_use={"flow:slow": 1})
            assert len(await store.claim(worker.id, caps, now_us=1)) == 1
            assert [job.id for job in await store.claim(worker.id, caps, now_us=1)] == [quick.id]

    async def test_one_job_can_be_claimed_out_of_its_turn_once(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            await added(store)
            job = await added(store)
            tries = await asyncio.gather(*(store.claim_job(job.id, worker.id, ANY, now_us=3) for _ in range(8)))
            assert [one.id for one in tries if one] == [job.id]

    async def test_out_of_its_turn_a_job_still_keeps_to_the_caps(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            first, second = await added(store, uses=("agent:a",)), await added(store, uses=("agent:a", "flow:b"))
            caps = Caps(by_use={"agent:a": 1})
            assert await store.claim_job(first.id, worker.id, caps, now_us=3) is not None
            assert await store.claim_job(second.id, worker.id, caps, now_us=3) is None
            assert await store.claim_job(second.id, worker.id, Caps(total=1), now_us=3) is None
            assert await store.claim_job(second.id, worker.id, ANY, now_us=3) is not None

    async def test_no_job_is_claimed_twice(self) -> None:
        async with self.opened() as store:
            stores = [store, *filter(None, [self.make_twin(store)])]
            workers = [make_worker() for _ in range(4)]
            for worker in workers:
                await store.register(worker)
            jobs = [make_job() for _ in range(40)]
            await store.add(jobs)
            claims = await asyncio.gather(
                *(stores[n % len(stores)].claim(workers[n % 4].id, ANY, now_us=1, limit=3) for n in range(20))
            )
            assert sorted(job.id for claim in claims for job in claim) == sorted(job.id for job in jobs)
            for other in stores[1:]:
                await other.aclose()

    async def test_the_jobs_of_a_lost_worker_go_back_to_their_place(self) -> None:
        async with self.opened() as store:
            worker, other = make_worker(), make_worker()
            await store.register(worker)
            await store.register(other)
            await store.add([make_job() for _ in range(3)])
            mine = await store.claim(worker.id, ANY, now_us=1, limit=2)
            theirs = await store.claim(other.id, ANY, now_us=1)
            lost = await store.lose(worker.id, reason="killed", now_us=4)
            assert sorted(lost) == sorted(job.id for job in mine)
            again = await read(store, mine[0])
            assert (again.status, again.worker, again.reason, again.runs) == (S.QUEUED, "", "killed", 1)
            assert (await read(store, theirs[0])).status is S.RUNNING
            assert await store.workers() == [other]
            assert await store.lose(worker.id, reason="killed", now_us=5) == []
            assert await store.advance([to(mine[0], S.COMPLETED)]) == [None]
            assert [job.id for job in await store.claim(other.id, ANY, now_us=6)] == [mine[0].id]
            assert await store.advance([to(mine[0], S.COMPLETED)]) == [None]  # it runs again, but in other hands
            assert not await store.show(mine[0].id, mine[0].version, asks=[], now_us=3)

    async def test_a_workers_hold_is_renewed(self) -> None:
        async with self.opened() as store:
            worker = make_worker(held_until_us=10)
            await store.register(worker)
            later = make_worker(owner=worker.owner, held_until_us=20, started_us=15, serving=False)
            assert await store.renew(later)
            assert await store.workers() == [make_worker(owner=worker.owner, held_until_us=20, serving=False)]

    async def test_a_worker_that_was_struck_out_does_not_come_back_by_a_heartbeat(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            await store.lose(worker.id, reason="hung", now_us=5)
            assert not await store.renew(worker)
            assert await store.workers() == []

    async def test_of_many_that_want_to_be_the_only_worker_one_is(self) -> None:
        async with self.opened() as store:
            guest = make_worker(serving=False)
            await store.register(guest)
            tries = [make_worker(started_us=5, held_until_us=50) for _ in range(6)]
            won = await asyncio.gather(*(store.register_only(worker) for worker in tries))
            assert sum(won) == 1
            assert len(await store.workers()) == 2
            assert not await store.register_only(make_worker(started_us=49))
            assert await store.register_only(make_worker(started_us=50))

    async def test_requests_wait_in_order_until_they_are_settled(self) -> None:
        async with self.opened() as store:
            job = await running(store)
            first = make_request(job, by="me")
            second = make_request(job, kind="answer", data=b'{"x":1}')
            assert await store.request(first)
            assert await store.request(second)
            assert await store.requests(job_id=job.id) == [first, second]
            assert await store.requests(worker_id=job.worker) == [first, second]
            assert await store.requests(worker_id="nobody") == []
            await store.settle(first.id)
            await store.settle(first.id)
            assert await store.requests(job_id=job.id) == [second]

    async def test_a_request_made_twice_is_one_and_a_different_one_is_refused(self) -> None:
        async with self.opened() as store:
            job = await running(store)
            first = make_request(job, id="answer a1", kind="answer", data=b"1")
            assert await store.request(first)
            assert await store.request(make_request(job, id="answer a1", kind="answer", data=b"1", at_us=99))
            assert not await store.request(make_request(job, id="answer a1", kind="answer", data=b"2"))
            assert await store.requests(job_id=job.id) == [first]

    async def test_a_request_and_its_move_are_stored_together_or_not_at_all(self) -> None:
        async with self.opened() as store:
            waits = await moved(store, await running(store), S.WAITING)
            assert not await store.request(make_request(waits))
            assert not await store.request(make_request(make_job()))
            assert await store.request(asked := make_request(waits), to(waits, S.QUEUED, reason="asked"))
            assert (await read(store, waits)).status is S.QUEUED
            assert not await store.request(make_request(waits), to(waits, S.QUEUED))
            assert await store.requests(job_id=waits.id) == [asked]
            assert await store.request(make_request(waits))

    async def test_a_job_of_which_something_is_asked_is_not_put_down(self) -> None:
        async with self.opened() as store:
            for target in (S.WAITING, S.PAUSED):
                job = await running(store)
                asked = make_request(job)
                await store.request(asked)
                (after,) = await store.advance([to(job, target, wake_us=77)])
                assert after is not None
                assert (after.status, after.worker, after.wake_us) == (S.QUEUED, "", None)
                assert await store.requests(job_id=job.id) == [asked]

    async def test_what_a_move_leaves_unheard_stays_and_brings_no_job_to_the_queue_but_what_came_after_it_does(
        self,
    ) -> None:
        async with self.opened() as store:
            for late in (False, True):
                job = await running(store)
                known, more = make_request(job), make_request(job)
                await store.request(known)
                if late:
                    await store.request(more)
                (after,) = await store.advance([to(job, S.WAITING, unheard=(known.id,))])
                assert after is not None
                assert after.status is (S.QUEUED if late else S.WAITING)
                assert await store.requests(job_id=job.id) == ([known, more] if late else [known])

    async def test_a_job_with_a_step_to_be_run_again_does_not_end_before_that_was_heard(self) -> None:
        async with self.opened() as store:
            for target, outputs in ((S.COMPLETED, b"1"), (S.FAILED, None)):
                job = await running(store)
                rerun = make_request(job, kind="rerun")
                await store.request(rerun)
                (after,) = await store.advance([to(job, target, outputs=outputs)])
                assert after is not None
                assert (after.status, after.worker, after.outputs, after.ended_us) == (S.QUEUED, "", None, None)
                assert await store.requests(job_id=job.id) == [rerun]
            for target, unheard in ((S.CANCELLED, False), (S.FAILED, True)):
                job = await running(store)
                rerun = make_request(job, kind="rerun")
                await store.request(rerun)
                await moved(store, job, target, unheard=(rerun.id,) if unheard else ())
                assert await store.requests(job_id=job.id) == []

    async def test_a_job_that_is_to_be_cancelled_is_not_paused_instead(self) -> None:
        async with self.opened() as store:
            queued = await added(store)
            busy = await running(store)
            for job, kept in ((queued, ()), (busy, ("busy",))):
                await store.request(make_request(job, kind="cancel", id=f"{'busy' if kept else 'queued'}"))
                waits = await moved(store, job, S.WAITING, unheard=kept) if kept else job
                assert await store.advance([to(waits, S.PAUSED)]) == [None]
                assert await read(store, job) == waits

    async def test_a_request_outlives_its_worker_and_ends_with_its_job(self) -> None:
        async with self.opened() as store:
            job = await running(store)
            asked = make_request(job)
            await store.request(asked)
            await store.lose(job.worker, reason="killed", now_us=9)
            worker = make_worker()
            await store.register(worker)
            claimed = await store.claim_job(job.id, worker.id, ANY, now_us=10)
            assert claimed is not None
            assert await store.requests(worker_id=worker.id) == [asked]
            await moved(store, claimed, S.COMPLETED)
            assert await store.requests(job_id=job.id) == []

    async def test_an_answer_that_nobody_used_stays_for_the_retry_of_a_job_that_failed(self) -> None:
        async with self.opened() as store:
            for target in (S.FAILED, S.COMPLETED, S.CANCELLED):
                job = await running(store)
                answer = make_request(job, kind="answer")
                await store.request(answer)
                await store.request(make_request(job, kind="pause"))
                ended = await moved(store, job, target)
                assert await store.requests(job_id=job.id) == ([answer] if target is S.FAILED else [])
                assert await store.delete(ended.id)
                assert await store.requests(job_id=job.id) == []

    async def test_changes_are_told_in_order_across_jobs_and_numbers_are_never_given_twice(self) -> None:
        async with self.opened() as store:
            assert await store.last_change() == 0
            first, second = await added(store), await added(store)
            await moved(store, first, S.CANCELLED)
            told = await store.changes()
            assert [(one.job_id, one.target) for one in told] == [
                (first.id, S.QUEUED),
                (second.id, S.QUEUED),
                (first.id, S.CANCELLED),
            ]
            assert await store.changes(after=told[0].seq, limit=1) == [told[1]]
            last = await store.last_change()
            assert last == told[-1].seq
            await store.delete(first.id)
            await added(store)
            assert (await store.changes(after=last))[0].seq > last

    async def test_jobs_are_listed_newest_first_by_every_condition_in_pages(self) -> None:
        async with self.opened() as store:
            jobs = [
                make_job(
                    flow=f"flow{n % 2}", name=f"Nightly {n}", labels={"n": str(n % 3), "all": "y"}, definition=b"[]"
                )
                for n in range(7)
            ]
            await store.add(jobs)
            await moved(store, await read(store, jobs[6]), S.CANCELLED, reason="a special Reason")

            async def listed(**conditions: object) -> list[int]:
                found = await store.jobs(JobQuery(**conditions))  # type: ignore[arg-type]
                assert all(job.definition == b"{}" for job in found)
                return [[job.id for job in jobs].index(job.id) for job in found]

            assert await listed() == [6, 5, 4, 3, 2, 1, 0]
            assert await listed(flow="flow0", statuses=(S.QUEUED,)) == [4, 2, 0]
            assert await listed(labels={"n": "1", "all": "y"}) == [4, 1]
            assert await listed(labels={"n": "1", "all": "n"}) == []
            assert await listed(text="nightly 3") == [3]
            assert await listed(text="SPECIAL") == [6]
            assert await listed(text=jobs[2].id[-10:]) == [2]
            assert await listed(text="%") == []
            assert await listed(limit=2) == [6, 5]
            assert await listed(limit=2, before=jobs[5].id) == [4, 3]
            assert await listed(statuses=(S.CANCELLED, S.FAILED)) == [6]
            assert await store.count() == {S.QUEUED: 6}

    async def test_an_id_is_found_by_how_it_begins_or_ends(self) -> None:
        async with self.opened() as store:
            for job_id in ("aax", "aay", "bxa", "b%_"):
                await added(store, id=job_id)
            assert await store.find("aa") == ["aax", "aay"]
            assert await store.find("aa", limit=1) == ["aax"]
            assert await store.find("xa") == ["bxa"]
            assert await store.find("%") == []
            assert await store.find("_") == ["b%_"]
            assert await store.find("nobody") == []

    async def test_the_stamp_tells_when_something_was_written(self) -> None:
        async with self.opened() as store:
            twin = self.make_twin(store)
            job = await added(store)
            for writer in (store, *filter(None, [twin])):
                before = await store.stamp()
                assert await store.stamp() == before
                await writer.request(make_request(job))
                assert await store.stamp() != before
            if twin is not None:
                await twin.aclose()

    async def test_the_stamp_stays_while_a_worker_looks_and_finds_nothing(self) -> None:
        async with self.opened() as store:
            worker = make_worker()
            await store.register(worker)
            await added(store, uses=("flow:full",))
            before = await store.stamp()
            assert await store.claim(worker.id, Caps(by_use={"flow:full": 0}), now_us=1) == []
            await store.wake(now_us=1)
            await store.requests(worker_id=worker.id)
            assert await store.stamp() == before

    async def test_another_object_on_the_same_storage_sees_the_same(self) -> None:
        async with self.opened() as store:
            twin = self.make_twin(store)
            if twin is None:
                return
            job = await running(store)
            assert await twin.job(job.id) == job
            assert (await moved(twin, job, S.WAITING)).id == job.id
            assert await store.advance([to(job, S.COMPLETED)]) == [None]
            await twin.aclose()

    async def test_a_closed_store_refuses_and_may_be_closed_twice(self) -> None:
        store = self.make_store()
        job = await added(store)
        await store.aclose()
        await store.aclose()
        for call in (store.job(job.id), store.add([make_job()]), store.claim("w", ANY, now_us=1), store.stamp()):
            await refused(call, ClosedError)
