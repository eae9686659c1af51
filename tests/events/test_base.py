from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar, cast

import pytest
from tests.events.samples import BigNumberEvent, NumberEvent, emitted

from holdfast import BaseEvent, Runtime, UnknownEvent
from holdfast.errors import EventDefinitionError, EventNotEmittedError, EventReusedError, UsageError
from holdfast.events import Envelope, event_from_dict
from holdfast.events._base import tag_from_name
from holdfast.testing import ManualClock

STAMPED = [name for name in Envelope.__struct_fields__ if name != "at_us"]


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("TaskCompletedEvent", "task_completed"),
        ("LLMStreamChunkEvent", "llm_stream_chunk"),
        ("MCPToolExecutionStartedEvent", "mcp_tool_execution_started"),
        ("Shipped", "shipped"),
        ("Http2OpenedEvent", "http2_opened"),
        ("Event", "event"),
    ],
)
def test_a_tag_is_the_snake_case_of_a_class_name_without_its_suffix(name: str, tag: str) -> None:
    assert tag_from_name(name) == tag


def test_s1_7_a_class_without_a_tag_gets_one_from_its_name() -> None:
    class ParcelSentEvent(BaseEvent):
        weight: float = 0.0

    assert ParcelSentEvent.type == "parcel_sent"
    assert ParcelSentEvent().type == "parcel_sent"


def test_s1_7_a_class_keeps_the_tag_it_is_given() -> None:
    class ParcelLostEvent(BaseEvent):
        type: ClassVar[str] = "post.lost"

    assert ParcelLostEvent.type == "post.lost"


def test_s1_7_a_tag_written_as_other_frameworks_do_is_a_tag_and_no_field() -> None:
    class ParcelFoundEvent(BaseEvent):
        type: str = "post.found"  # type: ignore[misc]
        where: str = ""

    assert ParcelFoundEvent.type == "post.found"
    assert ParcelFoundEvent(where="attic").type == "post.found"
    assert ParcelFoundEvent.__struct_fields__ == ("env", "where")


def test_s1_7_a_subclass_of_a_tagged_class_gets_a_tag_of_its_own() -> None:
    class ParcelSentAgainEvent(NumberEvent):
        pass

    assert ParcelSentAgainEvent.type == "parcel_sent_again"
    assert NumberEvent.type == "sample_number"
    assert ParcelSentAgainEvent(n=3).n == 3


@pytest.mark.parametrize("name", [*STAMPED, "timestamp"])
def test_a_field_that_every_event_has_already_is_refused(name: str) -> None:
    with pytest.raises(EventDefinitionError, match=name):
        type("GreedyEvent", (BaseEvent,), {"__module__": __name__, "__annotations__": {name: str}})


@pytest.mark.parametrize("name", ["at_us", "env", "opens", "closes", "durable"])
def test_a_field_that_would_hide_what_the_bus_reads_is_refused(name: str) -> None:
    # as a payload field `opens` would be a scope of a nonsensical kind, `durable` always true, `at_us` a false time
    with pytest.raises(EventDefinitionError, match=name):
        type("GreedyEvent", (BaseEvent,), {"__module__": __name__, "__annotations__": {name: Any}})


def test_events_are_built_by_keyword_only() -> None:
    with pytest.raises(TypeError):
        cast(Any, NumberEvent)(3)


def test_events_are_frozen_before_and_after_they_are_emitted(runtime: Runtime) -> None:
    event = NumberEvent(n=1)
    with pytest.raises(AttributeError):
        event.n = 2  # type: ignore[misc]
    emitted(runtime, event)
    with pytest.raises(AttributeError):
        event.n = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        event.env = None  # type: ignore[misc]


@pytest.mark.parametrize("name", [*STAMPED, "timestamp", "at_us"])
def test_identity_cannot_be_read_before_emit_and_the_error_says_what_to_do(name: str) -> None:
    with pytest.raises(EventNotEmittedError, match="emit"):
        getattr(NumberEvent(), name)


def test_reading_identity_too_early_is_a_usage_error_and_an_attribute_error() -> None:
    assert issubclass(EventNotEmittedError, UsageError)
    assert not hasattr(NumberEvent(), "event_id")


async def test_the_same_object_cannot_be_emitted_twice(runtime: Runtime) -> None:
    seen: list[str] = []
    runtime.event_bus.on(NumberEvent)(lambda source, event: seen.append(event.event_id))
    event = emitted(runtime, NumberEvent())
    with pytest.raises(EventReusedError, match=event.event_id):
        runtime.event_bus.emit(None, event)
    with pytest.raises(EventReusedError, match="build a new event"):
        await runtime.event_bus.aemit(None, event)
    assert seen == [event.event_id]


def test_an_event_read_back_from_a_store_cannot_be_emitted_again(runtime: Runtime) -> None:
    stored = {"type": "sample_number", "event_id": "e1", "timestamp": "2024-05-06T07:08:09.000010+00:00", "n": 4}
    with pytest.raises(EventReusedError, match="e1"):
        runtime.event_bus.emit(None, event_from_dict(stored))


def test_the_timestamp_is_the_clocks_time_in_utc() -> None:
    with Runtime(clock=ManualClock(1_700_000_000_000_007_999)) as runtime:
        event = emitted(runtime, NumberEvent())
    assert event.at_us == 1_700_000_000_000_007
    assert event.timestamp == datetime(2023, 11, 14, 22, 13, 20, 7, tzinfo=UTC)
    assert event.timestamp.utcoffset() is not None


def test_two_events_with_the_same_payload_are_two_facts() -> None:
    assert NumberEvent(n=1) != NumberEvent(n=1)
    assert len({NumberEvent(n=1), NumberEvent(n=1)}) == 2


def test_what_an_event_says_of_its_source(runtime: Runtime) -> None:
    class Shop:
        id = 7
        name = "corner"

    class Nameless:
        def id(self) -> int:
            return 7

        name = None

    for source, expected in [
        (Shop(), ("Shop", "7", "corner")),
        ("corner", (None, None, "corner")),
        (None, (None, None, None)),
        (Nameless(), ("Nameless", None, None)),
    ]:
        event = emitted(runtime, NumberEvent(), source)
        assert (event.source_type, event.source_id, event.source_name) == expected


def test_an_unknown_event_has_the_tag_it_was_stored_under() -> None:
    assert UnknownEvent(tag="gone", payload={}).type == "gone"


def test_an_event_class_may_be_subclassed_by_users_with_defaults_and_required_fields(runtime: Runtime) -> None:
    class SizedEvent(BigNumberEvent):
        size: int
        colour: str = "red"

    event = SizedEvent(size=3, n=1)
    assert (event.n, event.size, event.colour) == (1, 3, "red")
    with pytest.raises(TypeError, match="size"):
        SizedEvent()  # type: ignore[call-arg]
