"""`Peer`, `LineSplitter` and `Inbox`: messages in order, whatever comes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.acp._inbox import Inbox
from holdfast.acp._lines import LineSplitter, LongLine
from holdfast.acp._peer import AT_ONCE, Peer, RefusedError
from holdfast.errors import AcpError, AcpGoneError, AcpRequestError


@given(st.lists(st.binary(max_size=30).filter(lambda part: b"\n" not in part)), st.integers(1, 7))
def test_lines_come_whole_however_they_are_cut(lines: list[bytes], step: int) -> None:
    splitter = LineSplitter(20)
    data = b"".join(line + b"\n" for line in lines)
    got = [line for at in range(0, len(data), step) for line in splitter.feed(data[at : at + step])]
    for line, came in zip([line for line in lines if line], got, strict=True):
        if isinstance(came, LongLine):
            assert (came.length, line.startswith(came.head)) == (len(line), True)
        else:
            assert came == line
        assert isinstance(came, LongLine) == (len(line) > 20)


def test_a_line_without_an_end_is_not_kept() -> None:
    splitter = LineSplitter(1000)
    for _ in range(1000):
        assert list(splitter.feed(b"x" * 65536)) == []
    assert sum(map(len, splitter._parts)) <= 1024
    (line,) = splitter.feed(b"\n")
    assert isinstance(line, LongLine)
    assert line.length == 65536 * 1000


class Pair:
    """Two peers that talk to each other, and what each is told."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self.queues: list[asyncio.Queue[bytes]] = [asyncio.Queue(), asyncio.Queue()]
        self.told: list[tuple[str, Any]] = []
        self.pauses: list[Callable[[], Awaitable[None]]] = []
        self.left = Peer(self.queues[0].get, self.queues[1].put, self, _gone, limit)
        self.right = Peer(self.queues[1].get, self.queues[0].put, self, _gone, limit)
        self.tasks = [asyncio.create_task(peer.serve()) for peer in (self.left, self.right)]

    async def close(self) -> None:
        for queue in self.queues:
            queue.put_nowait(b"")
        await asyncio.wait(self.tasks)
        await self.left.stop()
        await self.right.stop()

    def notified(self, method: str, params: Any, size: int) -> Awaitable[None] | None:
        self.told.append((method, params))
        return self.pauses.pop()() if self.pauses else None

    async def asked(self, method: str, params: Any) -> Any:
        if method == "refuse":
            raise RefusedError("no", 42)
        if method == "break":
            raise ValueError("oh")
        if method == "wait":
            self.told.append(("waiting", params))
            try:
                await asyncio.Event().wait()
            finally:
                self.told.append(("stopped", params))
        return {"echo": params}


def _gone() -> AcpError:
    return AcpGoneError("gone")


async def test_both_sides_ask_and_answer_at_once() -> None:
    pair = Pair()
    asked = [peer.request("echo", number) for number in range(50) for peer in (pair.left, pair.right)]
    assert [answer["echo"] for answer in await asyncio.gather(*asked)] == [n for n in range(50) for _ in range(2)]
    await pair.close()


async def test_an_error_comes_back_with_its_code_and_words() -> None:
    pair = Pair()
    with pytest.raises(AcpRequestError, match="no") as caught:
        await pair.left.request("refuse", None)
    assert caught.value.code == 42
    with pytest.raises(AcpRequestError, match="ValueError: oh"):
        await pair.left.request("break", None)
    await pair.close()


async def test_requests_over_the_bound_are_refused_at_once_and_the_others_are_worked_on() -> None:
    pair = Pair()
    asked = [asyncio.create_task(pair.left.request("wait", number)) for number in range(AT_ONCE + 20)]
    refused = [task for task in asked if task.done()]
    while len(refused) < 20:
        await asyncio.wait({task for task in asked if not task.done()}, return_when=asyncio.FIRST_COMPLETED)
        refused = [task for task in asked if task.done()]
    assert {str(task.exception()) for task in refused} == {"too many requests at once"}
    await pair.close()
    assert [type(task.exception()) for task in asked if task not in refused] == [AcpGoneError] * AT_ONCE


async def test_half_a_character_does_not_keep_the_rest_from_being_sent() -> None:
    pair = Pair()
    assert await pair.left.request("echo", "half \ud83d, and more") == {"echo": "half ?, and more"}
    await pair.close()


async def test_a_request_that_is_cancelled_with_the_same_breath_is_answered() -> None:
    pair = Pair()
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    number = pair.left.expect(answered.set_result)
    messages = ({"id": number, "method": "wait"}, {"method": "$/cancel_request", "params": {"requestId": number}})
    pair.queues[1].put_nowait(b"".join(json.dumps(one).encode() + b"\n" for one in messages))
    assert str((await asyncio.wait_for(answered, 10)).error) == "cancelled"
    await pair.close()


async def test_nothing_more_is_taken_from_one_that_has_us_say_more_than_it_reads() -> None:
    never: asyncio.Event = asyncio.Event()
    cancelled = 0

    async def read() -> bytes:
        nonlocal cancelled
        cancelled += 1
        wait = {"id": cancelled, "method": "wait"}
        await asyncio.sleep(0)
        return "".join(
            json.dumps(one) + "\n" for one in (wait, {"method": "$/cancel_request", "params": {"requestId": cancelled}})
        ).encode()

    async def write(data: bytes) -> None:
        await never.wait()

    pair = Pair()
    peer = Peer(read, write, pair, _gone)
    serving = asyncio.create_task(peer.serve())
    for _ in range(10 * AT_ONCE):
        await asyncio.sleep(0)
    assert AT_ONCE <= cancelled <= AT_ONCE + 10
    serving.cancel()
    await asyncio.wait({serving})
    await peer.stop()
    await pair.close()


async def test_nothing_is_taken_while_the_one_before_is_waited_for() -> None:
    pair = Pair()
    go = asyncio.Event()

    async def pause() -> None:
        pair.told.append(("pause", None))
        await go.wait()
        pair.told.append(("go on", None))

    pair.pauses.append(pause)
    for number in range(3):
        await pair.left.notify("news", number)
    for _ in range(10):
        await asyncio.sleep(0)
    go.set()
    await pair.left.request("echo", None)
    assert pair.told == [("news", 0), ("pause", None), ("go on", None), ("news", 1), ("news", 2)]
    await pair.close()


async def test_cancelling_a_request_cancels_the_work_on_the_other_side() -> None:
    pair = Pair()
    asking = asyncio.create_task(pair.left.request("wait", 1))
    while ("waiting", 1) not in pair.told:
        await pair.left.request("echo", None)
    asking.cancel()
    await asyncio.wait({asking})
    while ("stopped", 1) not in pair.told:
        await pair.left.request("echo", None)
    await pair.close()


async def test_who_waits_for_an_answer_when_the_other_side_goes_is_told_and_so_is_who_asks_later() -> None:
    pair = Pair()
    asking = asyncio.create_task(pair.left.request("wait", 1))
    while ("waiting", 1) not in pair.told:
        await pair.left.request("echo", None)
    await pair.close()
    with pytest.raises(AcpGoneError):
        await asking
    with pytest.raises(AcpGoneError):
        await pair.left.request("echo", 1)


@pytest.mark.parametrize(
    "line",
    [b"{", b"null", b"[]", b"{}", b'{"id": 1}', b'{"id": 77, "result": 1}', b'{"id": [1], "result": 1}', b"\xff", b"[" * 10000,
     b'{"method": 7}', b'{"id": null, "error": {"message": "parse error"}}', b'{"id": true, "result": 1}'],
)  # fmt: skip
async def test_a_line_that_is_no_message_is_passed_over_and_counted(line: bytes) -> None:
    pair = Pair()
    pair.queues[0].put_nowait(line + b"\n")
    assert await pair.left.request("echo", 5) == {"echo": 5}
    assert pair.left.garbage == 1
    await pair.close()


async def test_an_error_of_any_shape_is_an_error() -> None:
    for error in ("words", {"code": "x"}, {"message": None}, 7, [1]):
        pair = Pair()
        asking = asyncio.create_task(pair.left.request("wait", 0))
        await asyncio.sleep(0)
        pair.queues[0].put_nowait(json.dumps({"id": 1, "error": error}).encode() + b"\n")
        with pytest.raises(AcpRequestError):
            await asking
        await pair.close()


async def test_an_inbox_carries_everything_in_order_from_another_thread_and_holds_who_writes_back() -> None:
    inbox: Inbox[int] = Inbox(limit=100)
    waited = 0

    async def write() -> None:
        nonlocal waited
        for number in range(5000):
            inbox.put(number, 10)
            if inbox.is_full:
                waited += 1
                await inbox.room()

    writing = threading.Thread(target=lambda: asyncio.run(write()))
    writing.start()
    assert [await inbox.get() for _ in range(5000)] == list(range(5000))
    await asyncio.to_thread(writing.join)
    assert waited > 0
