"""Events as journal rows and back."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, get_args
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import asdict, astuple

from holdfast.deltas import decode_plain, encode_plain, plain
from holdfast.events._base import BaseEvent, Envelope, Links, UnknownEvent, stamp
from holdfast.events._codec import registry
from holdfast.events._delivery import Encoder
from holdfast.ports import Origin, Row

links_of: Callable[[Envelope], Links] = attrgetter("parent_event_id", "triggered_by_event_id", "started_event_id")
_said_by = attrgetter(*Origin.__struct_fields__)
_encode = msgspec.json.Encoder().encode
_PLAIN = frozenset({str, bool, type(None)})
_EMPTY = frozenset({dict, list})
_EXACT = 2**53  # integers that every reader of JSON takes for what they are
_PLAIN_OR_NUMBER = _PLAIN | {int}


def stored_fields(event: BaseEvent) -> dict[str, Any]:
    """What a journal has of an event, besides its stamp."""
    fields = asdict(event)
    for name in event.unstored:
        del fields[name]
    return fields


def encode_fields(fields: dict[str, Any]) -> bytes:
    """A payload as JSON. Most are a few short texts and numbers, which need no second look."""
    for value in fields.values():
        kind = type(value)
        if kind in _PLAIN or (kind is int and -_EXACT < value < _EXACT) or (kind in _EMPTY and not value):
            continue
        return encode_plain(plain(fields))
    try:
        return _encode(fields)
    except ValueError:  # text that is no Unicode: said here, with its path
        return encode_plain(plain(fields))


_ENCODERS: WeakKeyDictionary[type[BaseEvent], Encoder] = WeakKeyDictionary()  # to find out about a class takes a while


def encoder_of(event_type: type[BaseEvent]) -> Encoder:
    """What makes the stored form of the payload of events that we tell of ourselves.

    Of these only fields that hold anything need a second look: the others are names and numbers of our own. It raises
    NotStorableError, naming the path, for what has no stored form.
    """
    encoder = _ENCODERS.get(event_type)
    if encoder is None:
        encoder = _ENCODERS[event_type] = _make_encoder(event_type)
    return encoder


def _make_encoder(event_type: type[BaseEvent]) -> Encoder:
    names = [name for name in event_type.__struct_fields__ if name != "env"]
    unstored = [name for name in names if name in event_type.unstored]
    certain = _names_and_numbers(event_type)
    doubtful = [name for name in names if name not in unstored and name not in certain]

    def encode(payload: dict[str, Any]) -> bytes:
        if unstored:
            payload = payload.copy()
            for name in unstored:
                del payload[name]
        for name in doubtful:
            value = payload[name]
            kind = type(value)
            if kind in _PLAIN or (kind is int and -_EXACT < value < _EXACT) or (kind in _EMPTY and not value):
                continue
            return encode_plain(plain(payload))
        try:
            return _encode(payload)
        except (ValueError, TypeError):  # text that is no Unicode, or a name that is no text
            return encode_plain(plain(payload))

    return encode


def _names_and_numbers(event_type: type[BaseEvent]) -> set[str]:
    """The fields of a class that hold nothing else."""
    try:
        fields = msgspec.structs.fields(event_type)
    except NameError:  # an annotation that only a type checker can see
        return set()
    return {field.name for field in fields if _PLAIN_OR_NUMBER.issuperset(get_args(field.type) or (field.type,))}


def event_of(row: Row, root_run_id: str, previous_event_id: str | None) -> BaseEvent:
    """The event a row holds, as its own class; as an UnknownEvent if that class is gone or has changed."""
    payload = decode_plain(row.payload)
    cls = registry.get(row.type)
    event: BaseEvent
    try:
        event = msgspec.convert(payload, cls) if cls is not None else UnknownEvent(tag=row.type, payload=payload)
    except (msgspec.ValidationError, NameError, TypeError):
        event = UnknownEvent(tag=row.type, payload=payload)
    stamp(event, envelope_of(row, root_run_id, previous_event_id, row.seq))
    return event


def envelope_of(row: Row, root_run_id: str, previous_event_id: str | None, number: int) -> Envelope:
    """The stamp of the event that a row holds."""
    return Envelope(
        row.event_id,
        row.at_us,
        number,
        row.run_id,
        root_run_id,
        row.parent_event_id,
        previous_event_id,
        row.triggered_by_event_id,
        row.started_event_id,
        *astuple(row.origin),
    )


def origin_of(envelope: Envelope) -> Origin:
    """Where an event comes from."""
    return Origin(*_said_by(envelope))
