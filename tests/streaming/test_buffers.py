"""Buffers under threads: no frame lost, no wake-up missed, whoever waits."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import UsageError
from holdfast.streaming._buffers import Buffer, ObserverBuffer, OwnerBuffer
from holdfast.streaming._frames import Frame
from holdfast.streaming._reader import FrameReader

MANY = 5000


def frame(number: int) -> Frame:
    return Frame(str(number), number, "run", ("run",), "text", "llm_stream_chunk", 0, {"chunk": str(number)})


@pytest.fixture
def hectic() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hectic")
def test_a_writer_that_waits_for_room_and_a_reader_that_waits_for_frames_never_miss_each_other() -> None:
    buffer = OwnerBuffer(capacity=2)

    def write() -> None:
        for number in range(MANY):
            if (room := buffer.crowded()) is not None:
                room.result(30)
            buffer.put(frame(number))
        buffer.close()

    writing = threading.Thread(target=write)
    writing.start()
    assert [one.seq for one in FrameReader(buffer, None)] == list(range(MANY))
    writing.join()


@pytest.mark.usefixtures("hectic")
def test_several_threads_may_read_one_stream_and_share_its_frames() -> None:
    buffer = Buffer()
    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(lambda: [one.seq for one in FrameReader(buffer, None)]) for _ in range(3)]
        for number in range(MANY):
            buffer.put(frame(number))
        buffer.close()
        assert sorted(seq for read in reading for seq in read.result(30)) == list(range(MANY))


@pytest.mark.usefixtures("hectic")
def test_several_writers_that_wait_for_room_are_all_let_go() -> None:
    buffer = OwnerBuffer(capacity=1)
    buffer.put(frame(0))
    with ThreadPoolExecutor(4) as pool:
        waits = [pool.submit(buffer.crowded) for _ in range(40)]
        rooms = [room for wait in waits if (room := wait.result(30)) is not None]
    assert len(rooms) == 40
    buffer.pop()
    assert all(room.done() for room in rooms)


@pytest.mark.parametrize("way", ["close", "leave"])
def test_a_writer_that_waits_for_room_is_let_go_when_nobody_will_read(way: str) -> None:
    buffer = OwnerBuffer(capacity=1)
    buffer.put(frame(0))
    room = buffer.crowded()
    assert room is not None
    getattr(buffer, way)()
    assert room.done()
    assert buffer.crowded() is None


@pytest.mark.usefixtures("hectic")
def test_an_observer_sees_or_is_told_of_every_frame() -> None:
    buffer = ObserverBuffer(capacity=3)

    def write() -> None:
        for number in range(MANY):
            buffer.put(frame(number))
        buffer.close()

    writing = threading.Thread(target=write)
    writing.start()
    seen = list(FrameReader(buffer, None))
    writing.join()
    missed = sum(one.data["count"] for one in seen if one.type == "dropped")
    kept = [one.seq for one in seen if one.type != "dropped"]
    assert len(kept) + missed == MANY
    assert kept == sorted(kept)


def test_what_comes_after_the_end_or_after_the_reader_left_is_ignored() -> None:
    closed, left = OwnerBuffer(), OwnerBuffer()
    closed.put(frame(0))
    closed.close()
    closed.put(frame(1))
    left.put(frame(0))
    left.leave()
    left.put(frame(1))
    assert ([one.seq for one in FrameReader(closed, None)], list(FrameReader(left, None))) == ([0], [])


def test_a_stream_that_holds_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 frame"):
        ObserverBuffer(0)
