"""Of the outbox suite: who gets which delivery when, and what becomes of it."""

from __future__ import annotations

import asyncio

from holdfast.errors import ClosedError
from holdfast.ports import Backlog, Delivery, DeliveryQuery, Job, JobStatus
from holdfast.testing._job_base import moved, read, running
from holdfast.testing._outbox_base import EVERYTHING, LATE, Office, OutboxCase, claimed, events, written

S = JobStatus


async def three_for(office: Office) -> Job:
    """A job that was paused, resumed, paused again and failed: three things to tell."""
    job = await running(office.jobs)
    for target in (S.PAUSED, S.QUEUED, S.PAUSED, S.FAILED):
        job = await moved(office.jobs, await read(office.jobs, job), target)
    return job


async def one_for(office: Office) -> Delivery:
    """A job that completed, and what is told of it, claimed."""
    await moved(office.jobs, await running(office.jobs), S.COMPLETED)
    (one,) = await claimed(office.outbox)
    return one


class OutboxDelivering(OutboxCase):
    """What becomes of deliveries."""

    async def test_a_claimed_delivery_is_nobody_elses_until_the_hold_ends(self) -> None:
        async with self.opened(EVERYTHING) as office:
            one = await one_for(office)
            assert (one.owner, one.attempts) == ("me", 1)
            assert await claimed(office.outbox, "other", now_us=LATE + 59) == []
            assert await office.outbox.next_due() == LATE + 60
            (again,) = await claimed(office.outbox, "other", now_us=LATE + 60)
            assert (again.id, again.owner, again.attempts) == (one.id, "other", 2)
            assert not await office.outbox.delivered(one, now_us=LATE)
            assert await office.outbox.delivered(again, now_us=LATE)

    async def test_a_delivery_that_arrived_is_done(self) -> None:
        async with self.opened(EVERYTHING) as office:
            one = await one_for(office)
            assert await office.outbox.delivered(one, now_us=LATE + 1)
            found = await office.outbox.delivery(one.id)
            assert found is not None
            assert (found.status, found.settled_us, found.next_us) == ("delivered", LATE + 1, None)
            assert await office.outbox.next_due() is None
            assert not await office.outbox.give_up(one, error="late", now_us=LATE)
            assert not await office.outbox.retry(one.id, now_us=LATE)

    async def test_one_that_is_put_off_comes_again_when_it_is_due(self) -> None:
        async with self.opened(EVERYTHING) as office:
            one = await one_for(office)
            assert await office.outbox.put_off(one, error="refused", next_us=LATE + 500)
            assert await claimed(office.outbox, now_us=LATE + 499) == []
            (again,) = await claimed(office.outbox, now_us=LATE + 500)
            assert (again.attempts, again.error, again.status) == (2, "refused", "pending")

    async def test_one_job_is_told_of_in_order_and_others_do_not_wait_for_it(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job, other = await three_for(office), await three_for(office)
            first = await claimed(office.outbox)
            assert [(one.job_id, one.event) for one in first] == [(job.id, "paused"), (other.id, "paused")]
            await office.outbox.put_off(first[0], error="refused", next_us=LATE + 500)
            await office.outbox.delivered(first[1], now_us=LATE)
            second = await claimed(office.outbox)
            assert [one.job_id for one in second] == [other.id]
            third = await claimed(office.outbox, now_us=LATE + 500)
            assert {one.id for one in third} == {first[0].id, second[0].id}

    async def test_a_dead_one_lets_those_behind_it_go_and_can_be_tried_again_by_hand(self) -> None:
        async with self.opened(EVERYTHING) as office:
            job = await three_for(office)
            (first,) = await claimed(office.outbox)
            assert await office.outbox.give_up(first, error="gone", now_us=LATE)
            (second,) = await claimed(office.outbox)
            dead = await office.outbox.deliveries(DeliveryQuery(("dead",)))
            assert [(one.id, one.error) for one in dead] == [(first.id, "gone")]
            assert await office.outbox.retry(first.id, now_us=LATE + 5)
            (again,) = await claimed(office.outbox, now_us=LATE + 5)
            assert (again.id, again.attempts, again.status, again.settled_us) == (first.id, 1, "pending", None)
            assert await office.outbox.delivered(second, now_us=LATE)
            assert await office.outbox.delivered(again, now_us=LATE + 6)
            assert [one.event for one in await claimed(office.outbox, now_us=LATE + 7)] == ["failed"]
            assert await events(office.outbox, job) == ["paused", "paused", "failed"]

    async def test_one_that_waits_for_its_turn_cannot_be_tried_out_of_it(self) -> None:
        async with self.opened(EVERYTHING) as office:
            await three_for(office)
            _, second, _ = await written(office.outbox)
            assert second.next_us is None
            assert not await office.outbox.retry(second.id, now_us=LATE)
            assert not await office.outbox.retry("nobody", now_us=LATE)

    async def test_a_claim_takes_no_more_than_its_limit_those_due_longest_first(self) -> None:
        async with self.opened(EVERYTHING) as office:
            for _ in range(5):
                await moved(office.jobs, await running(office.jobs), S.COMPLETED)
            ids = [one.id for one in await written(office.outbox)]
            got = [[one.id for one in await claimed(office.outbox, limit=2)] for _ in range(4)]
            assert sorted(one for part in got for one in part) == sorted(ids)
            assert [len(part) for part in got] == [2, 2, 1, 0]

    async def test_listing_is_newest_first_by_status_and_job(self) -> None:
        async with self.opened(EVERYTHING) as office:
            one = await one_for(office)
            await office.outbox.delivered(one, now_us=LATE)
            job = await three_for(office)
            listed = await office.outbox.deliveries(DeliveryQuery())
            assert [found.event for found in listed] == ["failed", "paused", "paused", "completed"]
            assert len(await office.outbox.deliveries(DeliveryQuery(limit=2))) == 2
            assert [found.id for found in await office.outbox.deliveries(DeliveryQuery(("delivered",)))] == [one.id]
            assert len(await office.outbox.deliveries(DeliveryQuery(("pending", "dead"), job.id))) == 3
            assert await office.outbox.delivery("nobody") is None

    async def test_what_is_behind_is_counted(self) -> None:
        async with self.opened(EVERYTHING) as office:
            assert await office.outbox.backlog() == Backlog(0, 0, 0, 0, None)
            arrived, dead, late = await one_for(office), await one_for(office), await one_for(office)
            await three_for(office)
            await office.outbox.delivered(arrived, now_us=LATE)
            await office.outbox.give_up(dead, error="gone", now_us=LATE)
            assert await office.outbox.backlog() == Backlog(4, 0, 1, 1, late.created_us)
            await office.outbox.put_off(late, error="refused", next_us=LATE + 500)
            assert await office.outbox.backlog() == Backlog(4, 1, 1, 1, late.created_us)

    async def test_old_ones_that_are_settled_are_forgotten(self) -> None:
        async with self.opened(EVERYTHING) as office:
            old, dead = await one_for(office), await one_for(office)
            await office.outbox.delivered(old, now_us=100)
            await office.outbox.give_up(dead, error="x", now_us=100)
            kept = await one_for(office)
            assert await office.outbox.prune(delivered_before_us=101, dead_before_us=100) == 1
            assert [one.id for one in await written(office.outbox)] == [dead.id, kept.id]
            assert await office.outbox.prune(delivered_before_us=LATE, dead_before_us=LATE) == 1

    async def test_two_that_claim_at_once_never_get_the_same(self) -> None:
        async with self.opened(EVERYTHING) as office:
            for _ in range(20):
                await moved(office.jobs, await running(office.jobs), S.COMPLETED)
            twin = self.make_twin(office) or office.outbox
            try:
                parts = await asyncio.gather(
                    *(
                        claimed(box, name, limit=3)
                        for _ in range(4)
                        for box, name in ((office.outbox, "a"), (twin, "b"))
                    )
                )
            finally:
                if twin is not office.outbox:
                    await twin.aclose()
            ids = [one.id for part in parts for one in part]
            assert len(ids) == len(set(ids)) == 20

    async def test_a_closed_one_refuses(self) -> None:
        async with self.opened(EVERYTHING) as office:
            pass
        try:
            await office.outbox.next_due()
        except ClosedError:
            return
        raise AssertionError("a closed outbox answered")
