"""What is stored of an execution, and what is not believed of that."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.graph import DataState, Execution, GraphState, name_all
from holdfast.graph._state import Excused

STORED = {
    "step": "work", "number": 3, "cause": "begin#1", "index": None, "uses": [], "tries": 0, "fallback": False,
    "not_before_us": 0, "until_us": None, "since_us": None, "inside": "",
}  # fmt: skip
"""As earlier versions stored it."""
EXECUTION = Execution.of("work", 3, "begin#1")


def test_an_execution_is_named_by_its_step_and_its_number() -> None:
    assert EXECUTION.key == "work#3"
    assert msgspec.json.decode(msgspec.json.encode(EXECUTION)) == STORED | {"key": "work#3"}


@pytest.mark.parametrize("stored", [STORED, STORED | {"key": "another#1"}, STORED | {"key": "work#3"}])
@pytest.mark.parametrize(
    ("place", "state"),
    [
        (lambda one: {"ready": [one]}, GraphState(ready=(EXECUTION,))),
        (lambda one: {"running": {"work#3": one}}, GraphState(running={"work#3": EXECUTION})),
        (lambda one: {"waiting": {"work#3": one}}, GraphState(waiting={"work#3": EXECUTION})),
        (lambda one: {"halted": {"work#3": one}}, GraphState(halted={"work#3": EXECUTION})),
        (
            lambda one: {"tolerated": {"work#3": {"execution": one, "error": "no"}}},
            GraphState(tolerated={"work#3": Excused(EXECUTION, "no")}),
        ),
        (
            lambda one: {"data": {"again": {"work#3": one}}},
            GraphState(data=DataState(again={"work#3": EXECUTION})),
        ),
    ],
    ids=["ready", "running", "waiting", "halted", "tolerated", "again"],
)
def test_executions_that_are_read_back_are_named_anew(stored: dict[str, Any], place: Any, state: GraphState) -> None:
    assert name_all(msgspec.convert(place(stored), GraphState)) == state
