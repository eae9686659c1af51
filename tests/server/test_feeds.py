"""The parts of a stream that need no server: the ring, the log file, the bucket of tries."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from holdfast.clock import SystemClock
from holdfast.ports import LogLine
from holdfast.server import Settings
from holdfast.server._feeds import Entry, Feed, Feeds, Gone
from holdfast.server._logfile import PART, read_end, read_part
from holdfast.server._metrics import Metrics
from holdfast.server._rates import MAX_KNOWN, Rates
from holdfast.server._stream import Following
from holdfast.testing import ManualClock


class NumberTail:
    """Numbers from 1 on, as many as it is told."""

    def __init__(self) -> None:
        self.head = 0
        self.first = 1
        self.is_over = False

    async def now(self) -> str:
        return str(self.head)

    async def read(self, after: str, upto: str | None = None) -> list[Entry]:
        if int(after) + 1 < self.first:
            raise Gone
        last = min(int(after) + 3, self.head if upto is None else int(upto))
        return [Entry(str(number), "number", str(number).encode()) for number in range(int(after) + 1, last + 1)]

    async def snapshot(self, event: str) -> Entry:
        return Entry(str(self.head), event, b"null")

    async def may_have_grown(self) -> bool:
        return True

    async def ending(self) -> bytes | None:
        return b"{}" if self.is_over else None


def numbers(wire: bytes | None) -> list[int] | None:
    return None if wire is None else [int(line[6:]) for line in wire.split(b"\n") if line.startswith(b"data: ")]


async def test_a_place_in_the_ring_gives_what_came_since_until_it_has_left() -> None:
    tail = NumberTail()
    feed = Feed(tail, Settings(kept_frames=4), SystemClock())
    await feed.begin()
    tail.head = 3
    await feed.catch_up()
    assert (feed.position, feed.end) == ("3", 3)
    assert numbers(feed.since(0)) == [1, 2, 3]
    assert numbers(feed.since(3)) == []
    tail.head = 7
    await feed.catch_up()
    assert numbers(feed.since(3)) == [4, 5, 6, 7]
    assert feed.since(2) is None
    assert [feed.place_of(str(number)) for number in (2, 3, 4, 7)] == [None, None, 4, 7]


async def test_a_source_that_lost_its_past_is_told_as_one_resync() -> None:
    tail = NumberTail()
    feed = Feed(tail, Settings(), SystemClock())
    await feed.begin()
    tail.head, tail.first = 90, 80
    await feed.catch_up()
    assert feed.since(0) == b"id: 90\nevent: resync\ndata: null\n\n"


async def test_the_end_comes_after_everything_that_was_there_before_it() -> None:
    tail = NumberTail()
    feed = Feed(tail, Settings(), SystemClock())
    await feed.begin()
    tail.head, tail.is_over = 5, True
    await feed.catch_up()
    assert (numbers(feed.since(0)), feed.over) == ([1, 2, 3, 4, 5], b"{}")


async def test_one_feed_serves_all_who_want_the_same_and_goes_with_the_last() -> None:
    feeds, made = Feeds(Settings(poll_seconds=0.001), SystemClock(), Metrics()), list[NumberTail]()

    def make() -> NumberTail:
        made.append(NumberTail())
        return made[-1]

    async with feeds.join("a", make) as (first, waker):
        async with feeds.join("a", make) as (second, _), feeds.join("b", make):
            assert first is second
            assert (len(made), feeds.clients) == (2, 3)
        made[0].head = 1
        await asyncio.wait_for(waker.wait(), 10)
        assert feeds.clients == 1
    async with feeds.join("a", make) as (third, _):
        assert third is not first
    assert feeds.clients == 0


async def test_a_client_that_begins_with_a_snapshot_is_told_nothing_that_the_snapshot_says() -> None:
    """The feed may be behind what is stored when a client comes: what it reads then is no news to that client."""
    tail, clock = NumberTail(), ManualClock()
    feeds = Feeds(Settings(), clock, Metrics())
    async with feeds.join("a", lambda: tail) as (feed, _):
        await clock.until_sleeping()  # the feed has looked, and will not look again
        tail.head = 5
        async with aclosing(Following(feeds, "a", lambda: tail, "").frames()) as frames:
            assert await anext(frames) == b"retry: 1000\n\n"
            assert (await anext(frames)).startswith(b"id: 5\nevent: snapshot\n")
            tail.head = 6
            assert numbers(await anext(frames)) == [6]
        assert feed.position == "6"


async def test_a_source_that_breaks_leaves_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(NumberTail):
        async def may_have_grown(self) -> bool:
            raise ZeroDivisionError

    feeds = Feeds(Settings(), SystemClock(), Metrics())
    async with asyncio.timeout(10), aclosing(Following(feeds, "a", Broken, "0").frames()) as frames:
        told = [frame async for frame in frames]
    assert told[-1].startswith(b"event: dropped\n")
    assert "ZeroDivisionError" in caplog.text
    assert feeds.clients == 0


def written(path: Path, *texts: str) -> None:
    with path.open("ab") as file:
        file.writelines(msgspec.json.encode(LogLine(1, "s", "stderr", text)) + b"\n" for text in texts)


def test_a_log_is_read_in_whole_lines_from_any_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert read_part(path, 0) == []
    written(path, "one", "two")
    with path.open("ab") as file:
        file.write(b'{"at_us": 1, "st')
    ((after_one, one), (after_two, two)) = read_part(path, 0)
    assert (one.text, two.text) == ("one", "two")
    assert [line.text for _, line in read_part(path, after_one)] == ["two"]
    assert read_part(path, after_two) == []
    assert [line.text for _, line in read_part(path, 0, after_one)] == ["one"]
    assert read_part(path, 2**53) == []  # no file system lets one go there: a call that asked for it broke


def test_a_line_longer_than_a_part_and_one_that_is_no_line_stop_nobody(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written(path, "x" * (PART + 10))
    with path.open("ab") as file:
        file.write(b"no json\n")
    written(path, "last")
    ((place, long),) = read_part(path, 0)
    assert len(long.text) == PART + 10
    assert [line.text for _, line in read_part(path, place)] == ["last"]
    assert [line.text for line in read_end(path, path.stat().st_size)] == ["last"]


def test_tries_fill_up_with_time_and_whoever_was_not_seen_for_long_is_forgotten() -> None:
    clock = ManualClock()
    rates = Rates(clock, per_second=2, burst=2)
    assert [rates.wait_for("a"), rates.wait_for("a")] == [0, 0]
    assert rates.wait_for("a") == 0.5
    assert rates.wait_for("b") == 0
    clock.advance(0.5)
    assert [rates.wait_for("a"), rates.wait_for("a")] == [0, 0.5]
    for number in range(MAX_KNOWN):
        rates.wait_for(str(number))
    assert len(rates._known) == MAX_KNOWN
