"""Old runs of a project's own store go by themselves, at most once a day."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast import Flow, Runtime, start
from holdfast.checkpoints import collect_daily
from holdfast.stores import SqliteStore
from holdfast.testing import ManualClock

DAY = 86_400.0


class One(Flow[dict[str, Any]]):
    @start()
    def go(self) -> None: ...


def test_runs_that_ended_long_ago_are_removed_once_a_day(tmp_path: Path) -> None:
    clock, stamp = ManualClock(), tmp_path / "collected"

    def collect(store: SqliteStore) -> int:
        now = clock.time_ns() // 1000
        asyncio.run(collect_daily(store, stamp, now_us=now))
        return len(asyncio.run(store.runs()))

    with SqliteStore(tmp_path / "holdfast.db") as store, Runtime(clock=clock, store=store) as runtime:
        One(checkpoint=True, runtime=runtime).kickoff()
        assert collect(store) == 1
        seconds = clock.time_ns() / 1e9
        os.utime(stamp, (seconds, seconds))
        clock.advance(DAY / 2)
        assert collect(store) == 1
        assert stamp.stat().st_mtime == pytest.approx(seconds, abs=1)  # it did not look
        clock.advance(100 * DAY)
        assert collect(store) == 0


def test_a_store_that_cannot_be_read_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    with SqliteStore(tmp_path / "broken.db") as store:
        asyncio.run(collect_daily(store, tmp_path / "collected", now_us=2**50))
    assert "could not be collected" in caplog.text
