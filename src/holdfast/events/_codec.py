"""Events as plain data and back as their own class, losing nothing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.errors import StorageError
from holdfast.events._base import _EPOCH, BaseEvent, Envelope, EventMeta, UnknownEvent, stamp
from holdfast.events.families import FAMILIES
from holdfast.serde import from_plain, to_plain

_ENVELOPE = tuple(name for name in Envelope.__struct_fields__ if name != "at_us")


def event_classes() -> dict[str, type[BaseEvent]]:
    """Every event class of this process by its tag: ours, and those defined by the program so far.

    Where two classes claim one tag, the one defined last has it, so that a reloaded module works.
    """
    for family in FAMILIES:
        importlib.import_module(f"{__package__}.families.{family}")
    known = sorted(_subclasses(BaseEvent), key=lambda cls: cls.definition)
    return {cls.type: cls for cls in known if cls is not UnknownEvent}


def _subclasses(cls: type[BaseEvent]) -> Iterator[type[BaseEvent]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


class EventRegistry:
    """Finds an event class by its tag. Built on first use, and again when classes were defined since."""

    def __init__(self) -> None:
        self._by_tag: dict[str, type[BaseEvent]] = {}
        self._latest = 0

    def get(self, tag: str) -> type[BaseEvent] | None:
        """The class tagged `tag`, also one defined after the registry was built; None if there is none."""
        if self._latest != EventMeta.latest:
            self._by_tag = event_classes()
            self._latest = EventMeta.latest
        return self._by_tag.get(tag)


registry = EventRegistry()


def event_to_dict(event: BaseEvent) -> dict[str, Any]:
    """A stamped event as plain data: its type, its envelope without empty fields, its payload."""
    if isinstance(event, UnknownEvent) and event.stored:
        return dict(event.stored)
    stored: dict[str, Any] = {"type": event.type, "timestamp": event.timestamp.isoformat(timespec="microseconds")}
    for name in _ENVELOPE:
        if (value := getattr(event, name)) is not None:
            stored[name] = value
    payload = event.payload if isinstance(event, UnknownEvent) else payload_of(event)
    return {**stored, **payload}


def payload_of(event: BaseEvent) -> dict[str, Any]:
    """The fields an event's own class declares, as plain data."""
    return {name: to_plain(getattr(event, name)) for name in type(event).__struct_fields__ if name != "env"}


def event_from_dict(stored: dict[str, Any]) -> BaseEvent:
    """The event `event_to_dict` wrote, as its own class.

    One whose tag is unknown here, or whose payload does not fit the class, comes back as an `UnknownEvent` that holds
    everything and writes back unchanged. Raises StorageError when it is no event at all.
    """
    try:
        rest = dict(stored)
        tag = msgspec.convert(rest.pop("type"), str)
        envelope = _envelope(rest)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"this is not a stored event: {error!r}") from error
    cls = registry.get(tag)
    event: BaseEvent
    if cls is None or not rest.keys() <= set(cls.__struct_fields__) - {"env"}:
        event = UnknownEvent(tag=tag, payload=rest, stored=dict(stored))
    else:
        try:
            event = from_plain(rest, cls)
        except (msgspec.ValidationError, NameError, TypeError):  # it does not fit, or the class cannot be read
            event = UnknownEvent(tag=tag, payload=rest, stored=dict(stored))
    stamp(event, envelope)
    return event


def _envelope(rest: dict[str, Any]) -> Envelope:
    """Take the envelope's fields out of `rest`. Fields that older formats lack are empty."""
    at: timedelta = datetime.fromisoformat(rest.pop("timestamp")) - _EPOCH
    fields = {name: rest.pop(name) for name in _ENVELOPE if name in rest}
    fields.setdefault("emission_sequence", 0)
    return msgspec.convert({**fields, "at_us": at // timedelta(microseconds=1)}, Envelope)
