"""A process that is killed at any moment of a flow is followed by one that ends it as if nothing had happened."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.checkpoints.orders import ONCE
from tests.checkpoints.zygote import Nursery, Story, Zygote

from holdfast.ids import new_id
from holdfast.testing import CrashPoint

Moment = Literal["before", "after"]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: a kill loses nothing that was written, so waiting for a disk tests nothing."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="holdfast-") as found:
        yield Path(found)


class Crashes:
    """Stories that are interrupted, and the one that is not."""

    def __init__(self, nursery: Nursery, folder: Path, **options: Any) -> None:
        self.nursery = nursery
        self.folder = folder
        self.options = options
        [self.whole] = nursery.tell_all(self.begin, ["whole"])
        self.whole.live_to_the_end()

    def begin(self, zygote: Zygote, name: str) -> Story:
        options = dict(self.options)
        if "dsn" in options:
            options["schema"] = f"crash_{new_id()[-12:]}"
        return Story.begin(zygote, self.folder / name, **options)

    def kill(self, zygote: Zygote, *deaths: dict[str, Any]) -> int:
        """Die so, and so, and then live to the end. Says how often it died."""
        name = " ".join(str(value) for death in deaths for value in death.values())
        story = self.begin(zygote, "".join(c if c.isalnum() else "-" for c in name))
        died = sum(story.live(**death) for death in deaths if not story.is_over)
        story.live_to_the_end()
        story.check(self.whole)
        return died

    def kill_at_writes(self, moment: Moment, numbers: range) -> int:
        points = [{"point": CrashPoint(number, moment)} for number in numbers]
        return sum(self.nursery.tell_all(self.kill, points))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_s1_17_killed_at_any_write_a_flow_ends_as_if_it_had_not_been(
    nursery: Nursery, folder: Path, moment: Moment
) -> None:
    crashes = Crashes(nursery, folder)
    writes = crashes.whole.writes()
    # how many writes a run takes differs by a few: steps that overlap may share one
    assert crashes.kill_at_writes(moment, range(1, writes + 4)) >= writes - 4


@pytest.mark.parametrize("moment", ["before", "after"])
def test_s1_17_killed_at_any_step_it_does_too(nursery: Nursery, folder: Path, moment: Moment) -> None:
    crashes = Crashes(nursery, folder)
    died = nursery.tell_all(crashes.kill, [{"effect": f"{moment} {name}"} for name in ONCE])
    assert died == [1] * len(ONCE)
    nursery.tell_all(crashes.kill, [{"effect": f"{moment} {name}"} for name in ("fast", "slow")])  # may not come to it


def test_s1_17_killed_again_while_it_is_taken_up_it_does_too(nursery: Nursery, folder: Path) -> None:
    crashes = Crashes(nursery, folder)
    writes = crashes.whole.writes()
    luck = random.Random(7)
    moments: list[Moment] = ["before", "after"]
    pairs = [
        ({"point": CrashPoint(first, luck.choice(moments))}, {"point": CrashPoint(second, luck.choice(moments))})
        for first, second in zip(luck.sample(range(1, writes), 16), [*range(1, 9)] * 2, strict=True)
    ]
    died = nursery.tell_all(lambda zygote, pair: crashes.kill(zygote, *pair), pairs)
    assert sum(died) >= 26


def test_s1_17_restores_that_begin_with_a_snapshot_do_too(nursery: Nursery, folder: Path) -> None:
    crashes = Crashes(nursery, folder, snapshots=True)
    writes = crashes.whole.writes()
    assert crashes.whole.has_snapshots()
    assert crashes.kill_at_writes("before", range(2, writes, 5)) > 0
    assert crashes.kill_at_writes("after", range(2, writes, 5)) > 0


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_s1_17_runs_that_are_written_down_later_end_so_too(nursery: Nursery, folder: Path, durability: str) -> None:
    crashes = Crashes(nursery, folder, durability=durability)
    writes = crashes.whole.writes()
    assert crashes.kill_at_writes("before", range(1, writes, 4)) > 0
    assert crashes.kill_at_writes("after", range(1, writes, 4)) > 0


def test_s1_17_on_postgresql_it_does_too(nursery: Nursery, folder: Path, postgres: str) -> None:
    crashes = Crashes(nursery, folder, dsn=postgres)
    writes = crashes.whole.writes()
    assert crashes.kill_at_writes("before", range(1, writes, 7)) > 0
    assert crashes.kill_at_writes("after", range(1, writes, 7)) > 0
