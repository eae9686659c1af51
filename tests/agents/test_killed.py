"""Agents and crews whose process is killed at any moment end as if it had not been, and repeat at most what was unfinished."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest
from tests.agents.stories import Kind, Life

from holdfast.testing import Answer, CrashPoint, ModelServer, Received, ToolUse

KILLED = -signal.SIGKILL


class Zygotes:
    """Two processes that fork one for each life."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.agents.stories"]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) for _ in range(2)
        ]
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)

    def live(self, life: Life) -> int:
        """How the life ended: 0, or -9 if it was killed."""
        process = self._idle.get()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(life) + b"\n")
            return int(process.stdout.readline())
        finally:
            self._idle.put(process)

    def close(self) -> None:
        for process in self._processes:
            process.communicate(timeout=10)


@pytest.fixture(scope="module")
def zygotes() -> Iterator[Zygotes]:
    zygotes = Zygotes()
    yield zygotes
    zygotes.close()


class Provider:
    """A provider that outlives its clients: what it answers follows from what it is told, and it counts."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: Received) -> str | Answer:
        turn = sum(1 for message in request.messages if message["role"] == "assistant")
        prompt = json.dumps(request.messages) + json.dumps(request.body.get("system", ""))
        who = next(
            word for word in ("Sum up.", "Say hello.", "Have it noted.", "Note a, b and c.", "dig") if word in prompt
        )
        with self._lock:
            self.asked[f"{who} {turn}"] += 1
        if who == "Note a, b and c.":
            pair = Answer(ToolUse("note", {"text": "a"}), ToolUse("note", {"text": "b"}))
            return (pair, Answer(ToolUse("note", {"text": "c"})), Answer("all noted"))[turn]
        if who == "Have it noted.":
            work = {"task": "Note a, b and c.", "context": "", "coworker": "Clerk"}
            return (Answer(ToolUse("delegate_work_to_coworker", work)), Answer("it is"))[turn]
        return f"said {who}"


class Story:
    """The lives of one run, against a provider of its own."""

    def __init__(self, zygotes: Zygotes, folder: Path, kind: Kind) -> None:
        folder.mkdir()
        self._zygotes = zygotes
        self._folder = folder
        self._kind = kind
        self.provider = Provider()

    def tell(self, *points: CrashPoint) -> int:
        """Die at these points, then live to the end. Says how often it died."""
        died = 0
        with ModelServer(self.provider) as server:
            life = Life(str(self._folder), self._kind, server.url)
            for point in points:
                if not self.is_over:
                    died += self._live(msgspec.structs.replace(life, point=point))
            if not self.is_over:
                assert not self._live(life)
        return died

    def _live(self, life: Life) -> bool:
        code = self._zygotes.live(life)
        assert code in (0, KILLED), f"a life of {self._folder} ended with {code}: see what it said"
        return code == KILLED

    @property
    def is_over(self) -> bool:
        return (self._folder / "outcome").exists()

    @property
    def outcome(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self._folder / "outcome").read_text())
        return told

    @property
    def effects(self) -> Counter[str]:
        return Counter((self._folder / "effects").read_text().split())


def check(story: Story, whole: Story, died: int, at_once: int) -> None:
    """That it ended as one that nobody killed, with at most what was under way done again."""
    mine, theirs = story.outcome, whole.outcome
    for key in (theirs.keys() - {"writes", "uses"}) if "raw" in mine else ():
        assert mine[key] == theirs[key]
    asked = story.provider.asked
    assert asked.keys() == whole.provider.asked.keys()
    assert asked.total() <= whole.provider.asked.total() + died * at_once
    assert all(times <= 1 + died for times in asked.values())
    assert story.effects.keys() == whole.effects.keys()
    assert all(times <= 1 + died for times in story.effects.values())
    if "uses" in mine:
        assert theirs["uses"] <= mine["uses"] <= theirs["uses"] + 2 * died


@pytest.mark.parametrize(
    ("kind", "every", "at_once"),
    [("agent", 1, 1), ("crew", 1, 2), ("flow", 3, 2), ("managed", 1, 1)],
)
def test_s1_5_killed_at_any_write_it_ends_as_if_it_had_not_been(
    zygotes: Zygotes, tmp_path: Path, kind: Kind, every: int, at_once: int
) -> None:
    whole = Story(zygotes, tmp_path / "whole", kind)
    assert whole.tell() == 0
    writes = whole.outcome["writes"]

    def killed(point: CrashPoint) -> int:
        story = Story(zygotes, tmp_path / f"{point.moment} {point.number}", kind)
        died = story.tell(point)
        check(story, whole, died, at_once)
        return died

    points = [CrashPoint(number, "before" if number % 2 else "after") for number in range(1, writes + 1, every)]
    points += [CrashPoint(number, "after" if number % 2 else "before") for number in range(2, writes + 1, 4 * every)]
    with ThreadPoolExecutor(2) as threads:
        assert sum(threads.map(killed, points)) > 0


def test_s1_5_killed_again_while_it_is_taken_up_it_does_too(zygotes: Zygotes, tmp_path: Path) -> None:
    whole = Story(zygotes, tmp_path / "whole", "crew")
    whole.tell()
    story = Story(zygotes, tmp_path / "often", "crew")
    died = story.tell(CrashPoint(4), CrashPoint(2, "after"), CrashPoint(3), CrashPoint(1), CrashPoint(2))
    assert died >= 4
    check(story, whole, died, 2)


def test_s1_12_a_new_process_makes_exactly_the_calls_of_the_task_that_was_not_done(
    zygotes: Zygotes, tmp_path: Path
) -> None:
    provider = Provider()
    with ModelServer(provider) as server:
        life = Life(str(tmp_path), "pair", server.url, event="llm_call_started two")
        assert zygotes.live(life) == KILLED
        assert provider.asked == {"Say hello. 0": 1}
        assert zygotes.live(msgspec.structs.replace(life, event="")) == 0
        assert [request.protocol for request in server.requests] == ["openai", "anthropic"]
    assert provider.asked == {"Say hello. 0": 1, "Sum up. 0": 1}
    outcome = json.loads((tmp_path / "outcome").read_text())
    assert outcome["tasks"] == [["said Say hello.", 1], ["said Sum up.", 1]]
    assert outcome["requests"] == {"Clerk": 1, "Other": 1}
