"""Times to wait: what is none is refused where it is given, not found out by a deadline that never comes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Budget, Flow, Runtime, human_feedback, start
from holdfast.acp import AgentSpec
from holdfast.clock import check_seconds
from holdfast.errors import FlowDefinitionError, UsageError
from holdfast.hooks import Rhythm
from holdfast.jobs import JobEngine
from holdfast.mcp import McpServer, McpSpec
from holdfast.resources import Command, Limits, ProcessSpec
from holdfast.server import Settings
from holdfast.service import WorkerOptions

COMMAND = Command(("true",))
MAKERS: list[tuple[str, Callable[..., Any]]] = [
    ("grace", Runtime),
    ("grace", lambda **given: Command(("true",), **given)),
    ("idle_timeout", Limits),
    ("handshake_timeout", lambda **given: ProcessSpec(COMMAND, **given)),
    ("handshake_timeout", lambda **given: AgentSpec(COMMAND, **given)),
    ("handshake_timeout", lambda **given: McpSpec(COMMAND, **given)),
    ("timeout", lambda **given: McpSpec(COMMAND, **given)),
    ("timeout", lambda **given: McpServer("http://host/", **given)),
    ("connect_timeout", lambda **given: McpServer("http://host/", **given)),
    ("pause_grace", lambda **given: JobEngine(None, **given)),
    ("idle_seconds", WorkerOptions),
    ("max_seconds", Budget),
    ("max_cost_usd", Budget),
    ("first_seconds", Rhythm),
    ("stuck_seconds", Settings),
]


@pytest.mark.parametrize("seconds", [math.nan, -0.001, -math.inf])
@pytest.mark.parametrize(("name", "make"), MAKERS, ids=range(len(MAKERS)))
def test_what_is_no_time_to_wait_is_refused_by_name(name: str, make: Callable[..., Any], seconds: float) -> None:
    with pytest.raises(UsageError, match=f"{name}={seconds!r}"):
        make(**{name: seconds})


def test_nothing_and_a_long_time_are_times_and_so_is_none_where_it_may_be() -> None:
    check_seconds(one=0, two=0.0, three=1e9, four=math.inf, five=None)
    Budget(max_seconds=0, max_tokens=None)
    Command(("true",), grace=math.inf)


def test_a_grace_without_end_is_none() -> None:
    with pytest.raises(UsageError, match="grace=inf bounds nothing"):
        Runtime(grace=math.inf)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_a_gate_says_when_it_is_written_that_it_cannot_wait_so_long(seconds: float) -> None:
    with pytest.raises(FlowDefinitionError, match=f"timeout={seconds!r} is no time to wait"):
        human_feedback("well?", timeout=seconds)


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
def test_a_question_that_cannot_wait_so_long_is_a_mistake_in_words(runtime: Runtime, seconds: float) -> None:
    class Asking(Flow[dict[str, Any]]):
        @start()
        def wonder(self) -> str | None:
            return self.ask("well?", timeout=seconds)

    with pytest.raises(UsageError, match=f"timeout={seconds!r} is no time to wait"):
        Asking(runtime=runtime).kickoff()


@pytest.mark.parametrize("seconds", [math.nan, -1.0, 0.0])
def test_a_manager_is_not_swept_all_the_time(runtime: Runtime, tmp_path: Path, seconds: float) -> None:
    with pytest.raises(UsageError, match=f"sweep_seconds={seconds:g}"):
        runtime.register(object(), sweep_seconds=seconds)  # type: ignore[arg-type]
    assert runtime.inventory() == []
