"""Of the outbox suite: what is told, to whom, and that it is stored with what it tells."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.errors import UsageError
from holdfast.ports import Ask, Batch, JobStatus, Subscription
from holdfast.testing._job_base import ANY, added, make_job, make_worker, moved, refused, running, to
from holdfast.testing._outbox_base import (
    EVERYTHING,
    OutboxCase,
    append,
    begin_journal,
    claimed,
    completed,
    events,
    told,
    written,
)

S = JobStatus
ASK = Ask("a1", "review", "is it good?", {"good": {"type": "bool"}})
URL = "https://example.org/told"


def subscribed(*on: str, target: str = "hook:one", flow: str = "*") -> Subscription:
    return Subscription(target, frozenset(on), flow)  # type: ignore[arg-type]


class OutboxTelling(OutboxCase):
    """What becomes a delivery."""

    async def test_without_hooks_nothing_is_written(self) -> None:
        async with self.opened() as office:
            job = await running(office.jobs)
            await moved(office.jobs, job, S.COMPLETED)
            await office.jobs.add([make_job(status=S.AWAITING_APPROVAL)])
            assert await written(office.outbox) == []
            assert await office.outbox.next_due() is None

    async def test_every_end_is_told_with_what_it_is_about(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job = await running(office.jobs, name="nightly", labels={"team": "a"})
            await moved(office.jobs, job, S.FAILED, reason="broke at step x")
            (one,) = await written(office.outbox)
            said = told(one)
            assert said.pop("at") == "1970-01-01T00:00:00.000003Z"
            assert said == {
                "id": one.id,
                "event": "failed",
                "job": {"id": job.id, "flow": "hello", "name": "nightly", "status": "failed", "labels": {"team": "a"},
                        "reason": "broke at step x"},
            }  # fmt: skip
            assert (one.status, one.attempts, one.target, one.job_id) == ("pending", 0, "hook:all", job.id)
            for target in (S.COMPLETED, S.CANCELLED, S.PAUSED):
                other = await running(office.jobs)
                await moved(office.jobs, other, target)
                assert await events(office.outbox, other) == [str(target)]

    async def test_a_job_that_needs_approval_is_told_of_when_it_is_added(self) -> None:
        async with self.opened(EVERYTHING) as office:
            jobs = [await added(office.jobs, status=S.AWAITING_APPROVAL), await added(office.jobs)]
            assert [await events(office.outbox, job) for job in jobs] == [["approval_needed"], []]

    async def test_a_hook_hears_of_its_events_and_its_flows_only(self) -> None:
        hooks = [
            subscribed("failed", target="hook:failures"),
            subscribed("completed", "failed", target="hook:deploys", flow="deploy-*"),
        ]
        async with self.opened(*hooks) as office:
            for flow in ("deploy-a", "hello"):
                for target in (S.COMPLETED, S.FAILED):
                    await moved(office.jobs, await running(office.jobs, flow=flow), target)
            got = [(one.target, told(one)["job"]["flow"], one.event) for one in await written(office.outbox)]
            assert sorted(got) == [
                ("hook:deploys", "deploy-a", "completed"),
                ("hook:deploys", "deploy-a", "failed"),
                ("hook:failures", "deploy-a", "failed"),
                ("hook:failures", "hello", "failed"),
            ]

    async def test_a_jobs_own_address_is_told_of_all_but_steps(self) -> None:
        async with self.opened(subscribed("step_completed")) as office:
            job = await added(office.jobs, webhook=URL, status=S.AWAITING_APPROVAL)
            assert job.webhook == URL
            await moved(office.jobs, job, S.CANCELLED)
            assert [one.target for one in await written(office.outbox)] == [f"webhook:{URL}"] * 2
            assert await events(office.outbox) == ["approval_needed", "cancelled"]
            other = await running(office.jobs, webhook=URL)
            session = await begin_journal(office.journals, other)
            await append(office.journals, session, [completed("first", 1, other.id)])
            await claimed(office.outbox)
            assert [one.target for one in await written(office.outbox, other)] == ["hook:one"]

    async def test_a_question_is_told_once_whether_other_steps_still_work_or_not(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job = await running(office.jobs)
            assert await office.jobs.show(job.id, job.version, asks=[ASK], now_us=7)
            assert await office.jobs.show(job.id, job.version, asks=[ASK], now_us=8)
            waits = await moved(office.jobs, job, S.WAITING, asks=(ASK,), wake_us=50)
            await office.jobs.wake(now_us=60)
            worker = make_worker()
            await office.jobs.register(worker)
            again = await office.jobs.claim_job(waits.id, worker.id, ANY, now_us=70)
            assert again is not None
            second = Ask("a2", "approve")
            await moved(office.jobs, again, S.WAITING, asks=(ASK, second))
            got = await written(office.outbox)
            assert [[ask["id"] for ask in told(one)["asks"]] for one in got] == [["a1"], ["a2"]]
            assert [(one.event, told(one)["job"]["status"]) for one in got] == [
                ("waiting", "running"),
                ("waiting", "waiting"),
            ]
            assert told(got[0])["asks"][0] == {
                "id": "a1",
                "step": "review",
                "message": "is it good?",
                "fields": {"good": {"type": "bool"}},
            }

    async def test_a_job_that_waits_for_a_time_only_is_no_news_and_one_that_is_stuck_is(self) -> None:
        async with self.opened(EVERYTHING) as office:
            polls = await moved(office.jobs, await running(office.jobs), S.WAITING, wake_us=10**12)
            stuck = await moved(office.jobs, await running(office.jobs), S.WAITING, reason="needs_secret: set X")
            assert await events(office.outbox, polls) == []
            assert await events(office.outbox, stuck) == ["waiting"]

    async def test_jobs_that_fail_with_one_they_need_are_told_of_too(self) -> None:
        async with self.opened(EVERYTHING) as office:
            first = await running(office.jobs)
            second = await added(office.jobs, needs=(first.id,))
            await moved(office.jobs, first, S.CANCELLED)
            assert await events(office.outbox, second) == ["failed"]

    async def test_a_change_that_is_not_made_is_not_told(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job = await running(office.jobs)
            await moved(office.jobs, job, S.COMPLETED)
            assert await office.jobs.advance([to(job, S.FAILED)]) == [None]
            assert not await office.jobs.show(job.id, job.version, asks=[ASK], now_us=7)
            awaiting = make_job(status=S.AWAITING_APPROVAL)
            await refused(office.jobs.add([awaiting, make_job(needs=("nobody",))]), UsageError, "no such job")
            assert await events(office.outbox) == ["completed"]

    async def test_what_a_deleted_job_had_to_tell_is_still_told(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job = await moved(office.jobs, await running(office.jobs), S.COMPLETED)
            assert await office.jobs.delete(job.id)
            assert [one.event for one in await claimed(office.outbox)] == ["completed"]

    # -- steps -----------------------------------------------------------------------------------------------------

    async def test_steps_are_told_once_each_before_the_end_and_not_those_of_flows_inside(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job = await running(office.jobs)
            session = await begin_journal(office.journals, job)
            await append(office.journals, session, [completed("first", 1, job.id), completed("inner", 2, "another")])
            assert [told(one)["step"] for one in await claimed(office.outbox)] == [{"name": "first", "attempt": 1}]
            assert await claimed(office.outbox) == []
            await append(office.journals, session, [completed("second", 3, job.id, execution=2)])
            await moved(office.jobs, job, S.COMPLETED)
            assert await events(office.outbox, job) == ["step_completed", "step_completed", "completed"]
            assert told((await written(office.outbox))[1])["step"] == {"name": "second", "attempt": 2}

    async def test_steps_go_on_where_they_were_when_another_worker_takes_the_job_up(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job = await running(office.jobs)
            session = await begin_journal(office.journals, job)
            await append(office.journals, session, [completed("first", 1, job.id)])
            await office.jobs.lose(job.worker, reason="gone", now_us=5)
            await append(office.journals, session, [completed("late", 2, job.id)])
            worker = make_worker()
            await office.jobs.register(worker)
            assert await office.jobs.claim_job(job.id, worker.id, ANY, now_us=6) is not None
            await append(office.journals, session, [completed("last", 3, job.id)])
            await claimed(office.outbox)
            assert [told(one)["step"]["name"] for one in await written(office.outbox)] == ["first", "late", "last"]

    async def test_a_step_whose_row_is_kept_by_its_hash_is_told_of_too(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job = await running(office.jobs)
            session = await begin_journal(office.journals, job)
            row, digest = completed("large", 1, job.id), "d" * 64
            named = replace(row, payload=b'{"$blob+json":"%s"}' % digest.encode())
            await office.journals.append(Batch(session, rows=(named,), blobs=((digest, row.payload),)))
            assert [told(one)["step"]["name"] for one in await claimed(office.outbox)] == ["large"]

    async def test_without_a_hook_on_steps_no_journal_is_read(self) -> None:
        async with self.opened(subscribed("completed")) as office:
            job = await running(office.jobs, webhook=URL)
            session = await begin_journal(office.journals, job)
            await append(office.journals, session, [completed("first", 1, job.id)])
            assert await claimed(office.outbox) == []
            await moved(office.jobs, job, S.COMPLETED)
            assert await events(office.outbox) == ["completed", "completed"]
