"""How a job is drawn on a terminal: nested as it runs, and never longer than a screen."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from holdfast.cli._job_views import outcome_lines, step_tree
from holdfast.cli._watch import echo_log
from holdfast.ports import Ask, Job, JobStatus, LogLine, StepInfo

JOB = Job("01234567-89ab", "research", JobStatus.RUNNING, 0)


def drawn(*steps: StepInfo) -> list[str]:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(step_tree(JOB, steps, 5_000_000))
    return [line.rstrip() for line in capture.get().splitlines()]


def step(path: str, status: Any, **more: Any) -> StepInfo:
    return StepInfo(path, status, **more)


def test_steps_of_items_and_sub_flows_hang_below_the_step_that_started_them() -> None:
    assert drawn(
        step("plan", "completed", started_us=1_000_000, ended_us=2_500_000),
        step("look", "running", started_us=3_000_000, attempt=2),
        step("look/0/search", "failed", reason="no\x1b[31m answer"),
        step("look/1/search", "waiting"),
        step("report", "pending"),
    ) == [
        "research 567-89ab running",
        "├── ✓ plan  1.5 s",
        "├── ▶ look  attempt 2, 2.0 s",
        "│   ├── [0]",
        "│   │   └── ✗ search  no\\x1b[31m answer",
        "│   └── [1]",
        "│       └── … search",
        "└── · report",
    ]


def test_of_a_thousand_items_only_those_at_work_or_gone_wrong_are_shown() -> None:
    items = [step(f"each/{n}/do", "running" if n == 7 else "completed") for n in range(1000)]
    lines = drawn(step("each", "running"), *items)
    assert lines[1:] == [
        "├── ▶ each",
        "│   └── [7]",
        "│       └── ▶ do",
        "└── … and 999 steps inside others that are done or have not begun",
    ]


def test_a_job_says_its_reason_if_that_says_more_than_its_status_and_a_paused_one_how_to_go_on_first() -> None:
    asks = (Ask("a1", "review", "good?", {"ok": {"type": "bool"}}),)
    waits = replace(JOB, status=JobStatus.WAITING, reason="waits for an answer to review", asks=asks)
    assert outcome_lines(waits) == [
        f"job {JOB.id} waiting: waits for an answer to review",
        "  waits at review: good?",
        "  holdfast answer 567-89ab --output ok='yes|no'",
    ]
    paused = replace(waits, status=JobStatus.PAUSED, reason="paused")
    assert outcome_lines(paused) == [f"job {JOB.id} paused", "  waits at review: good?", "  holdfast resume 567-89ab"]


def test_in_a_pipe_chunks_of_one_text_are_put_together(capsys: pytest.CaptureFixture[str]) -> None:
    chunks = [LogLine(1, "write", "text", piece) for piece in ("one ", "line\nand", " more")]
    echo_log(
        [
            *chunks,
            LogLine(2, "write", "stderr", "a\n"),
            LogLine(2, "write", "stderr", "a\n"),
            LogLine(3, "", "step", "x\x1b"),
        ]
    )
    assert capsys.readouterr().out == (
        "write\ttext\tone line\nwrite\ttext\tand more\nwrite\tstderr\ta\nwrite\tstderr\ta\n-\tstep\tx\\x1b\n"
    )
