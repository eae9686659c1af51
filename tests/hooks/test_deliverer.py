"""Deliveries to real receivers: each arrives at least once, in order, and what cannot arrive says why."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.hooks.receiver import Behaviour, Receiver
from tests.hooks.support import Post, hook

from holdfast.errors import StoreUnavailableError
from holdfast.hooks import Patience, project_key, verify
from holdfast.ports import JobStatus
from holdfast.stores import SqliteOutbox
from holdfast.testing._job_base import to
from holdfast.testing._outbox_base import written

Make = Callable[[str], Post]
QUICK = Patience(post=0.2, command=0.5)


async def test_what_happened_arrives_signed_with_the_projects_own_key(make_post: Make) -> None:
    async with Receiver() as receiver:
        post = make_post(hook(receiver.url))
        job = await post.ended(JobStatus.FAILED, name="nightly", reason="broke")
        async with post.deliverer():
            (one,) = await post.settled()
        (got,) = receiver.got
        now = post.clock.time_ns() / 1e9
        told = verify(project_key(post.home), got.headers, got.body, now=now)
        assert (got.path, told["event"], told["job"]["id"]) == ("/told", "failed", job.id)
        assert got.headers["Holdfast-Delivery"] == told["id"] == one.id
        assert (one.attempts, one.error, one.settled_us) == (1, "", post.clock.time_ns() // 1000)


async def test_one_that_fails_is_tried_again_later_and_later_with_the_same_id(make_post: Make) -> None:
    async with Receiver(500, 503, 404) as receiver:
        post = make_post(hook(receiver.url))
        await post.ended()
        async with post.deliverer():
            for attempt, (status, wait) in enumerate(((500, 5), (503, 10), (404, 20)), 1):
                one = await post.tried(attempt)
                assert one.error == f"127.0.0.1:{receiver.port} answered {status}"
                assert one.next_us == post.clock.time_ns() // 1000 + wait * 1_000_000
                post.clock.advance(wait - 1)
                assert len(receiver.got) == attempt
                post.clock.advance(1)
                await receiver.until(attempt + 1)
            (one,) = await post.settled()
    assert {got.headers["Holdfast-Delivery"] for got in receiver.got} == {one.id}
    assert one.attempts == len(receiver.got) == 4


class Broken(SqliteOutbox):
    """Fails in the moment its caller is cancelled, as a store does that waits for what is being written."""

    is_called = asyncio.Event()

    async def next_due(self) -> int | None:
        self.is_called.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise StoreUnavailableError("the disk is full: make room") from None
        return None


async def test_it_leaves_when_it_is_told_to_although_the_store_is_away(make_post: Make) -> None:
    """It heard of the store alone, and tried again for ever: `holdfast worker` could not be ended."""
    post = make_post("")
    broken = Broken.beside(post.store, hooks=post.settings.subscriptions)
    async with asyncio.timeout(20), post.deliverer(outbox=broken):
        await broken.is_called.wait()


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("hang", "did not answer within 0.2 s"),
        ("drop", "closed the connection without an answer"),
        (b"SSH-2.0-nothing\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "more than any answer needs"),
        (302, "redirects are not followed"),
    ],
)
async def test_an_answer_that_is_none_is_a_failed_try(make_post: Make, behaviour: Behaviour, error: str) -> None:
    async with Receiver(behaviour) as receiver:
        post = make_post(hook(receiver.url))
        await post.ended()
        async with post.deliverer(patience=QUICK):
            one = await post.tried(1)
        assert error in one.error
        assert (one.status, len(receiver.got)) == ("pending", 1)


async def test_a_receiver_that_floods_after_accepting_is_not_read_for_ever(make_post: Make) -> None:
    flood = b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000
    async with Receiver(flood) as receiver:
        post = make_post(hook(receiver.url))
        await post.ended()
        async with post.deliverer():
            await post.settled()


async def test_nobody_there_is_a_failed_try(make_post: Make) -> None:
    async with Receiver() as receiver:
        url = receiver.url
    post = make_post(hook(url))
    await post.ended()
    async with post.deliverer():
        assert "cannot be reached" in (await post.tried(1)).error


async def test_a_receiver_that_is_gone_for_good_is_not_tried_again_and_what_comes_next_is(make_post: Make) -> None:
    async with Receiver(410) as receiver:
        post = make_post(hook(receiver.url))
        job = await post.ended(JobStatus.PAUSED)
        await post.jobs.advance([to(job, JobStatus.FAILED)])
        async with post.deliverer():
            first, second = await post.until(lambda found: found[1].status == "delivered")
        assert (first.status, first.attempts) == ("dead", 1)
        assert "410" in first.error
        assert [got.told["event"] for got in receiver.got] == ["paused", "failed"]
        assert second.attempts == 1


async def test_after_its_last_try_it_is_dead_until_someone_retries_it(make_post: Make) -> None:
    async with Receiver(500, 500) as receiver:
        post = make_post(hook(receiver.url))
        await post.ended()
        async with post.deliverer(attempts=2):
            await post.tried(1)
            post.clock.advance(5)
            (one,) = await post.settled("dead")
            assert (one.attempts, "answered 500" in one.error) == (2, True)
            assert await post.outbox.next_due() is None
            assert await post.outbox.retry(one.id, now_us=post.clock.time_ns() // 1000)
            post.clock.advance(1)
            await post.settled()
    assert len(receiver.got) == 3


async def test_a_job_whose_receiver_fails_holds_up_no_other_and_keeps_its_order(make_post: Make) -> None:
    async with Receiver(500) as receiver, Receiver() as other:
        post = make_post(hook(receiver.url) + hook(other.url, name="two"))
        job = await post.ended(JobStatus.PAUSED)
        await post.jobs.advance([to(job, JobStatus.FAILED)])
        async with post.deliverer():
            await other.until(2)
            await post.tried(1)
            assert len(receiver.got) == 1
            post.clock.advance(5)
            await post.settled()
    for one in (receiver, other):
        events = [got.told["event"] for got in one.got]
        assert [*dict.fromkeys(events)] == ["paused", "failed"]


async def test_no_more_than_its_places_are_under_way_and_leaving_puts_them_back(make_post: Make) -> None:
    async with Receiver("hang", "hang", "hang", "hang") as receiver:
        post = make_post(hook(receiver.url))
        for _ in range(5):
            await post.ended()
        async with post.deliverer(places=2):
            await receiver.until(2)
        found = await written(post.outbox)
        assert receiver.most_open == 2
        assert [one.attempts for one in found].count(1) == 2
        now_us = post.clock.time_ns() // 1000
        assert all(one.next_us is not None and one.next_us <= now_us for one in found)


async def test_two_deliverers_share_the_work_and_nothing_comes_twice(make_post: Make) -> None:
    async with Receiver() as receiver:
        post = make_post(hook(receiver.url))
        for _ in range(20):
            await post.ended()
        twin = SqliteOutbox(post.store.path, hooks=post.settings.subscriptions)
        async with twin, post.deliverer(), post.deliverer(outbox=twin):
            await post.settled()
    ids = [got.headers["Holdfast-Delivery"] for got in receiver.got]
    assert len(ids) == len(set(ids)) == 20


async def test_a_receiver_whose_certificate_nobody_vouches_for_is_told_nothing(make_post: Make) -> None:
    post = make_post("")
    made = ["req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=localhost", "-keyout", "key", "-out", "cert"]
    subprocess.run(["openssl", *made], cwd=post.folder, check=True, capture_output=True)  # noqa: ASYNC221
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(post.folder / "cert", post.folder / "key")
    async with Receiver(ssl=context) as receiver:
        post = make_post(hook(receiver.url.replace("http:", "https:")))
        await post.ended()
        async with post.deliverer():
            assert "certificate verify failed" in (await post.tried(1)).error.lower()
        assert receiver.got == []


# -- keys ----------------------------------------------------------------------------------------------------------


async def test_nothing_is_sent_unsigned_when_the_key_is_missing_and_it_goes_out_once_it_is_there(
    make_post: Make,
) -> None:
    async with Receiver() as receiver:
        post = make_post(hook(receiver.url, more='secret_env = "HOOK_KEY"'))
        await post.ended()
        async with post.deliverer():
            one = await post.tried(1)
        assert "HOOK_KEY is not set" in one.error
        assert receiver.got == []
        post.clock.advance(5)
        async with post.deliverer(environ={"HOOK_KEY": "a key of ours"}):
            await post.settled()
        (got,) = receiver.got
        assert verify("a key of ours", got.headers, got.body, now=post.clock.time_ns() / 1e9)["id"] == one.id
    assert b"a key of ours" not in post.store.path.read_bytes()


async def test_a_hook_that_is_in_the_file_no_more_waits_for_one_who_knows_it(make_post: Make) -> None:
    async with Receiver() as receiver:
        post = make_post(hook(receiver.url))
        await post.ended()
        post.settings.hooks.clear()
        async with post.deliverer():
            assert "there is no hook one" in (await post.tried(1)).error


# -- webhooks of jobs ----------------------------------------------------------------------------------------------


async def test_a_jobs_webhook_reaches_our_own_machines_only_where_the_file_allows_it(make_post: Make) -> None:
    async with Receiver() as receiver:
        post = make_post("")
        await post.ended(webhook=receiver.url)
        async with post.deliverer():
            (one,) = await post.settled("dead")
        assert "127.0.0.1, which webhooks may not reach; if it is meant, add it to `allow`" in one.error
        assert receiver.got == []
        post = make_post('[webhooks]\nallow = ["127.0.0.0/8"]\n')
        assert await post.outbox.retry(one.id, now_us=0)
        async with post.deliverer():
            await post.settled()
        assert [got.told["event"] for got in receiver.got] == ["completed"]


async def test_an_address_that_cannot_be_one_is_given_up(make_post: Make) -> None:
    post = make_post("")
    await post.ended(webhook="ftp://example.org/")
    async with post.deliverer():
        (one,) = await post.settled("dead")
    assert "is no address" in one.error


# -- killed --------------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.hooks.support import Post
from holdfast.hooks import Deliverer, Sender

async def main():
    post = Post(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
    async with Deliverer(post.outbox, post.jobs, Sender(post.settings, post.home, post.folder)):
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_deliverer_killed_before_it_could_note_that_it_arrived_delivers_again_with_the_same_id(
    make_post: Make,
) -> None:
    killed = asyncio.Event()

    def kill() -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed.set()

    async with Receiver(kill) as receiver:
        post = make_post(hook(receiver.url))
        await post.ended()
        toml = post.home / "holdfast.toml"
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", PROGRAM, str(post.folder), str(toml)]
        )
        await killed.wait()
        (one,) = await written(post.outbox)
        assert (one.status, one.attempts) == ("pending", 1)
        assert one.next_us is not None
        post.clock.advance(one.next_us / 1e6 - post.clock.time_ns() / 1e9 + 1)
        async with post.deliverer():
            await post.settled()
    assert [got.headers["Holdfast-Delivery"] for got in receiver.got] == [one.id, one.id]


async def test_old_deliveries_are_forgotten(make_post: Make) -> None:
    async with Receiver() as receiver:
        post = make_post(hook(receiver.url))
        await post.ended()
        async with post.deliverer():
            await post.settled()
            second = await post.ended()
            post.clock.advance(2 * 24 * 3600)
            await post.settled()
            post.clock.advance(2 * 24 * 3600)
            (kept,) = await post.until(lambda found: len(found) == 1)
    assert kept.job_id == second.id
