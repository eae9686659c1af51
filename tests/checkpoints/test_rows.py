"""What nobody hears is stored as what somebody hears is, though nobody looks at most of it before."""

from __future__ import annotations

import enum
import gc
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast.checkpoints._rows import encode_fields, encoder_of, stored_fields
from holdfast.errors import NotStorableError
from holdfast.events._base import BaseEvent
from holdfast.events._codec import event_classes
from holdfast.events.families.flow import MethodExecutionFinishedEvent, MethodExecutionStartedEvent


class Name(enum.StrEnum):
    LOOP = "loop"


RESULTS: list[Any] = [
    None, True, 7, 2**53, -(2**60), 2**200, 1.5, float("nan"), float("inf"), "text", "\ud800", b"bytes", [], {},
    [1, {"a": (2, {3})}], {"nested": {"$tag": 1}}, datetime(2026, 11, 17, tzinfo=UTC), Name.LOOP,
]  # fmt: skip


@pytest.mark.parametrize("result", RESULTS, ids=repr)
@pytest.mark.parametrize("name", ["Loop", "ein\ud800", "größe"])
def test_s1_7_a_payload_that_nobody_hears_is_stored_as_if_it_were_heard(result: Any, name: str) -> None:
    payload = {"flow_name": name, "method_name": "m", "execution": 3, "result": result, "route": None, "items": None}
    event = MethodExecutionFinishedEvent(**payload)
    stored = encoder_of(MethodExecutionFinishedEvent)(payload)
    assert msgspec.json.decode(stored) == msgspec.json.decode(encode_fields(stored_fields(event)))


def test_what_is_not_stored_is_left_out_and_stays_in_the_payload() -> None:
    payload = {"flow_name": "f", "method_name": "m", "execution": 1, "params": {"result": object()}}
    assert msgspec.json.decode(encoder_of(MethodExecutionStartedEvent)(payload)) == {
        "flow_name": "f",
        "method_name": "m",
        "execution": 1,
    }
    assert "params" in payload


def test_a_name_that_is_no_text_is_stored_all_the_same() -> None:
    payload = {"flow_name": Name.LOOP, "method_name": "m", "execution": 1, "params": {}}
    assert b'"loop"' in encoder_of(MethodExecutionStartedEvent)(payload)


def test_what_cannot_be_stored_is_refused_with_its_path() -> None:
    payload = {"flow_name": "f", "method_name": "m", "execution": 1, "result": [object()], "route": None, "items": None}
    with pytest.raises(NotStorableError, match=r"result\[0\]"):
        encoder_of(MethodExecutionFinishedEvent)(payload)


def test_every_event_has_an_encoder_whatever_it_says_of_its_fields() -> None:
    class OddEvent(BaseEvent):
        """Its annotation is for type checkers only."""

        what: Unheard  # type: ignore[name-defined]  # noqa: F821

    assert encoder_of(OddEvent)({"what": 2**60}) == encode_fields({"what": 2**60})
    del OddEvent
    gc.collect()  # whoever lists event classes would meet it
    for event_type in event_classes().values():
        assert callable(encoder_of(event_type))
