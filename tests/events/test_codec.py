from __future__ import annotations

import json
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.events.samples import (
    ClosedEvent,
    NumberEvent,
    OpenedEvent,
    PayloadEvent,
    build,
    emitted,
    envelope_of,
    reread,
)

from holdfast import BaseEvent, Runtime, UnknownEvent
from holdfast.context import on_behalf_of, triggered_by
from holdfast.errors import StorageError
from holdfast.events import Envelope, event_classes, event_from_dict, event_to_dict
from holdfast.events.families import FAMILIES, WHERE
from holdfast.serde import decode, encode

OURS = [cls for cls in event_classes().values() if cls.__module__.startswith("holdfast.")]
WHEN = "2024-05-06T07:08:09.000010+00:00"
LEAST: dict[str, Any] = {"type": "sample_number", "event_id": "e1", "timestamp": WHEN}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


class Point(msgspec.Struct):
    x: int
    y: int = 0


class RichEvent(BaseEvent):
    points: list[Point]
    names: dict[int, str] = {}  # noqa: RUF012 (msgspec copies it)
    raw: bytes = b""
    maybe: Point | None = None


def assert_same(again: BaseEvent, event: BaseEvent) -> None:
    assert type(again) is type(event)
    assert msgspec.structs.asdict(again) == msgspec.structs.asdict(event)


def test_every_class_of_every_family_is_in_the_registry() -> None:
    assert {cls.__name__ for cls in OURS} == set(WHERE)
    assert {cls.__module__.rpartition(".")[2] for cls in OURS} == set(FAMILIES)


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_s1_7_a_stored_event_comes_back_as_its_own_class(cls: type[BaseEvent], runtime: Runtime) -> None:
    event = emitted(runtime, build(cls))
    assert_same(reread(event), event)
    assert_same(event_from_dict(decode(encode(event_to_dict(event)))), event)


def test_s1_7_the_whole_envelope_is_stored(runtime: Runtime) -> None:
    seen: list[BaseEvent] = []

    def body(run: object) -> None:
        opener = OpenedEvent()
        runtime.event_bus.emit(None, opener)
        with triggered_by("cause"), on_behalf_of(task_id="t", task_name="T", agent_id="a", agent_role="A"):
            closer = ClosedEvent()
            runtime.event_bus.emit(run, closer)
        seen.append(closer)

    runtime.run(body, name="the run")
    (event,) = seen
    full = msgspec.structs.asdict(envelope_of(event))
    assert None not in full.values()  # so that nothing below holds only because it is empty
    stored = event_to_dict(event)
    assert stored == {"type": "sample_closed", "timestamp": event.timestamp.isoformat(timespec="microseconds")} | {
        name: value for name, value in full.items() if name != "at_us"
    }
    assert_same(event_from_dict(stored), event)


def test_s1_7_what_is_stored_is_plain_json_without_empty_fields(runtime: Runtime) -> None:
    stored = event_to_dict(emitted(runtime, NumberEvent(n=3)))
    assert json.loads(json.dumps(stored)) == stored
    assert stored["n"] == 3
    assert None not in stored.values()


@given(json_values)
def test_s1_7_any_json_payload_round_trips(data: Any) -> None:
    stored = LEAST | {"type": "sample_payload", "data": data, "emission_sequence": 1}
    event = event_from_dict(stored)
    assert isinstance(event, PayloadEvent)
    assert event.data == data
    assert event_to_dict(event) == stored
    assert_same(event_from_dict(decode(encode(event_to_dict(event)))), event)


foreign_keys = st.text().filter(lambda key: key not in Envelope.__struct_fields__)


@given(st.dictionaries(foreign_keys, json_values, max_size=5), st.text(min_size=1))
def test_s1_7_an_unknown_event_writes_back_unchanged_whatever_it_holds(payload: dict[str, Any], tag: str) -> None:
    stored = payload | LEAST | {"type": f"unheard-of {tag}", "emission_sequence": 7}
    event = event_from_dict(stored)
    assert isinstance(event, UnknownEvent)
    assert event.type == f"unheard-of {tag}"
    assert event_to_dict(event) == stored
    assert event_to_dict(reread(event)) == stored


@pytest.mark.parametrize(
    "stored",
    [
        {**LEAST, "type": "never_heard_of", "n": 1},
        {**LEAST, "type": "handler_overflow", "handler": "h"},
        {**LEAST, "n": 1, "colour": "red"},
        {**LEAST, "n": "one"},
        {**LEAST, "n": "1"},
        {**LEAST, "n": None},
        {**LEAST, "n": 1, "tag": "t", "payload": {"x": 1}},
        {**LEAST, "n": 1, "env": {}},
    ],
    ids=["unknown tag", "missing field", "extra field", "wrong type", "numeric text", "null", "own names", "env"],
)
def test_s1_7_an_unknown_or_incomplete_event_is_kept_whole(stored: dict[str, Any]) -> None:
    stored = stored | {"emission_sequence": 1}
    event = event_from_dict(stored)
    assert isinstance(event, UnknownEvent)
    assert event.type == stored["type"]
    assert event.event_id == "e1"
    assert event_to_dict(event) == stored


def test_s2_7_stored_events_that_have_no_run_id_load() -> None:
    event = event_from_dict(LEAST | {"n": 3})
    assert isinstance(event, NumberEvent)
    assert (event.n, event.run_id, event.root_run_id, event.emission_sequence) == (3, None, None, 0)
    assert event_from_dict(LEAST | {"run_id": None, "n": 3}).run_id is None


def test_loading_does_not_change_what_was_loaded_from() -> None:
    stored = LEAST | {"n": 3}
    event_from_dict(stored)
    assert stored == LEAST | {"n": 3}


def test_s1_13_the_registry_sees_classes_defined_after_it_was_built() -> None:
    stored = LEAST | {"type": "sample_late", "n": 1}
    assert isinstance(event_from_dict(stored), UnknownEvent)

    class LateEvent(NumberEvent):
        type: ClassVar[str] = "sample_late"

    assert type(event_from_dict(stored)) is LateEvent
    assert event_classes()["sample_late"] is LateEvent


def test_of_two_classes_with_one_tag_the_one_defined_last_has_it() -> None:
    # as when a module is reloaded
    stored = LEAST | {"type": "sample_reloaded", "n": 1}
    first = type("FirstEvent", (NumberEvent,), {"type": "sample_reloaded"})
    assert type(event_from_dict(stored)) is first
    second = type("SecondEvent", (NumberEvent,), {"type": "sample_reloaded"})
    assert event_classes()["sample_reloaded"] is second
    assert type(event_from_dict(stored)) is second


def test_s1_7_an_unknown_event_keeps_the_empty_fields_that_its_writer_wrote_out() -> None:
    stored = LEAST | {"type": "never_heard_of", "agent_id": None, "run_id": None, "x": None, "emission_sequence": 1}
    assert event_to_dict(event_from_dict(stored)) == stored


@pytest.mark.parametrize(
    "corrupt",
    [
        {},
        {"type": "sample_number"},
        {"type": "sample_number", "timestamp": WHEN},
        {"event_id": "e1", "timestamp": WHEN},
        {**LEAST, "timestamp": "yesterday"},
        {**LEAST, "timestamp": 17},
        {**LEAST, "timestamp": "2024-05-06T07:08:09"},
        {**LEAST, "event_id": 5},
        {**LEAST, "emission_sequence": "first"},
        {**LEAST, "run_id": ["r"]},
        {**LEAST, "type": ["sample_number"]},
        {**LEAST, "type": 3},
        [],
        None,
        "sample_number",
    ],
    ids=repr,
)
def test_what_is_no_event_at_all_is_a_storage_error(corrupt: Any) -> None:
    with pytest.raises(StorageError, match="not a stored event"):
        event_from_dict(corrupt)


def test_an_event_that_was_not_emitted_cannot_be_stored() -> None:
    with pytest.raises(AttributeError, match="emit it first"):
        event_to_dict(NumberEvent())


def test_payloads_of_rich_types_come_back_as_declared(runtime: Runtime) -> None:
    event = RichEvent(points=[Point(1), Point(2, 3)], names={7: "seven"}, raw=b"\x00\xff", maybe=Point(4))
    again = event_from_dict(decode(encode(event_to_dict(emitted(runtime, event)))))
    assert_same(again, event)


def test_s1_7_a_class_whose_annotations_cannot_be_resolved_gives_an_unknown_event() -> None:
    # as when a type is imported under TYPE_CHECKING only: it is found out when the first one is read back
    cls = type("HazyEvent", (BaseEvent,), {"__annotations__": {"item": "NotImportedHere"}, "type": "sample_hazy"})
    stored = LEAST | {"type": "sample_hazy", "item": {"a": 1}, "emission_sequence": 1}
    event = event_from_dict(stored)
    assert event_classes()["sample_hazy"] is cls
    assert isinstance(event, UnknownEvent)
    assert event_to_dict(event) == stored
