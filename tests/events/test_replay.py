from __future__ import annotations

import functools

import pytest
from tests.events.samples import EchoEvent, NumberEvent, OpenedEvent, emitted, reread

from holdfast import Run, Runtime, UnknownEvent
from holdfast.context import is_replaying
from holdfast.errors import EventNotEmittedError
from holdfast.events import BaseEvent, event_from_dict


async def awaited(source: object, event: object) -> None: ...


def test_a_replayed_event_is_shown_as_it_was_and_flagged(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    old = emitted(runtime, NumberEvent(n=7))
    envelope = old.env

    async def anote(source: object, event: BaseEvent) -> None:
        seen.append((source, event, is_replaying()))

    def note(source: object, event: BaseEvent) -> None:
        seen.append((source, event, is_replaying()))

    bus.on(NumberEvent)(note)
    bus.on(NumberEvent)(anote)
    bus.on(NumberEvent, background=True)(functools.partial(note))
    bus.replay("me", old)
    bus.replay("me", old)
    bus.flush()
    assert seen == [("me", old, True)] * 6
    assert old.env is envelope
    assert not is_replaying()
    seen.clear()
    live = emitted(runtime, NumberEvent(), "me")
    bus.flush()
    assert seen == [("me", live, False)] * 3


def test_a_replayed_event_is_neither_recorded_nor_numbered_nor_counted(runtime: Runtime) -> None:
    bus, old = runtime.event_bus, reread(emitted(runtime, NumberEvent()))
    bus.on(NumberEvent)(lambda source, event: None)
    bus.enable_recording()
    before, after = NumberEvent(), NumberEvent()

    def body(run: Run) -> None:
        bus.emit(None, before)
        bus.replay(None, old)
        bus.emit(None, after)

    runtime.run(body)
    assert bus.runtime_state is not None
    assert old.event_id not in bus.runtime_state.event_record
    assert after.emission_sequence == before.emission_sequence + 1
    assert after.previous_event_id == before.event_id
    assert bus.statistics().outside_runs == 0


def test_a_replayed_opener_does_not_move_the_one_who_replays(runtime: Runtime) -> None:
    bus, opener, after = runtime.event_bus, OpenedEvent(), NumberEvent()
    bus.on(OpenedEvent)(lambda source, event: None)
    emitted(runtime, opener)

    def body(run: Run) -> None:
        bus.replay(None, opener)
        bus.emit(None, after)

    runtime.run(body)
    assert after.parent_event_id != opener.event_id


@pytest.mark.parametrize("background", [True, False])
def test_live_only_handlers_are_not_shown_replayed_events(background: bool, runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    bus.on(NumberEvent, live_only=True, background=background)(lambda source, event: seen.append(event))
    bus.on(NumberEvent, live_only=True)(awaited)
    live = emitted(runtime, NumberEvent())
    bus.replay(None, live)
    bus.flush()
    assert seen == [live]


def test_what_a_handler_emits_while_it_is_shown_an_old_event_is_new(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    old = emitted(runtime, NumberEvent())
    bus.on(NumberEvent)(lambda source, event: bus.emit(None, EchoEvent()))
    bus.on(EchoEvent)(lambda source, event: seen.append(("any", is_replaying())))
    bus.on(EchoEvent, live_only=True)(lambda source, event: seen.append(("live", is_replaying())))
    runtime.run(lambda run: bus.replay(None, old))
    assert seen == [("any", False), ("live", False)]


def test_replay_reaches_the_handlers_of_the_run_it_happened_in_while_that_lives(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []

    def body(run: Run) -> None:
        run.on(NumberEvent)(lambda source, event: seen.append(event.n))
        mine = NumberEvent(n=1)
        bus.emit(None, mine)
        bus.replay(None, mine)
        bus.replay(None, elsewhere)

    elsewhere = emitted(runtime, NumberEvent(n=2))
    runtime.run(body)
    assert seen == [1, 1]


def test_an_unknown_event_can_be_replayed_and_an_event_without_identity_cannot(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    bus.on(BaseEvent)(lambda source, event: seen.append(event.type))
    stored = {"type": "sample_gone", "event_id": "e", "timestamp": "2024-05-06T07:08:09+00:00", "x": 1}
    unknown = event_from_dict(stored)
    assert isinstance(unknown, UnknownEvent)
    bus.replay(None, unknown)
    assert seen == ["sample_gone"]
    with pytest.raises(EventNotEmittedError):
        bus.replay(None, NumberEvent())
