"""What is stored of an execution, and what is not."""

from __future__ import annotations

from copy import deepcopy

import msgspec
from msgspec.structs import replace

from holdfast.graph import Execution, GraphState

STORED = {
    "step": "work", "number": 3, "cause": "begin#1", "index": None, "uses": [], "tries": 0, "fallback": False,
    "not_before_us": 0, "until_us": None, "since_us": None, "inside": "",
}  # fmt: skip


def test_the_key_of_an_execution_is_not_stored_though_it_is_kept() -> None:
    execution = Execution("work", 3, "begin#1")
    state = GraphState(running={execution.key: execution})
    assert execution.key == "work#3"
    assert execution.key is execution.key
    assert msgspec.to_builtins(execution) == STORED | {"uses": ()}
    assert msgspec.json.decode(msgspec.json.encode(execution)) == STORED
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state))["running"] == {"work#3": STORED}


def test_an_execution_that_was_stored_is_read_with_its_key() -> None:
    assert msgspec.convert(STORED, Execution).key == "work#3"
    assert msgspec.convert({"step": "work", "number": 3}, Execution) == Execution("work", 3)


def test_executions_are_the_same_whether_their_keys_were_asked_for_or_not() -> None:
    asked, other = Execution("work", 3), Execution("work", 3)
    assert asked.key
    assert asked == other
    assert hash(asked) == hash(other)
    assert repr(asked) == repr(other)
    assert deepcopy(asked) == other


def test_a_changed_execution_has_its_own_key() -> None:
    execution = Execution("work", 3)
    assert execution.key == "work#3"
    assert replace(execution, number=4).key == "work#4"
