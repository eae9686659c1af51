"""What an event is: a frozen payload, and one envelope stamped on it when it is emitted."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, dataclass_transform, overload

from msgspec import Struct, StructMeta, field
from msgspec.structs import force_setattr

from holdfast.errors import EventDefinitionError, EventNotEmittedError

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ScopeKind = Literal[
    "run", "flow", "method", "crew", "task", "agent", "llm", "tool", "mcp", "human", "job", "step", "loop", "for_each",
    "checkpoint", "schedule",
]  # fmt: skip


class Envelope(Struct, frozen=True, gc=False):
    """Identity and place of one event. The fields are the columns of a journal row."""

    event_id: str
    at_us: int
    emission_sequence: int
    run_id: str | None = None
    root_run_id: str | None = None
    parent_event_id: str | None = None
    previous_event_id: str | None = None
    triggered_by_event_id: str | None = None
    started_event_id: str | None = None
    source_type: str | None = None
    source_id: str | None = None
    source_name: str | None = None
    task_id: str | None = None
    task_name: str | None = None
    agent_id: str | None = None
    agent_role: str | None = None


Links: TypeAlias = tuple[str | None, str | None, str | None]
"""The ids of the events that an event hangs under, was caused by, and closes."""


class EventMeta(StructMeta):
    """Gives every event class a literal type tag and keyword-only fields."""

    latest: ClassVar[int] = 0
    """How many event classes there are: whoever keeps a list of them compares."""
    unstored: frozenset[str]

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> EventMeta:
        if "type" not in namespace:
            namespace["type"] = tag_from_name(name)
        EventMeta.latest = namespace["definition"] = next(_definitions)
        own = {**namespace.get("__annotations__", {})} if name != "BaseEvent" else {}
        # `type: str = "my_event"` is how users of other frameworks write it: a tag, not a field of the payload
        namespace.get("__annotations__", {}).pop("type", None)
        config.setdefault("kw_only", True)
        cls = super().__new__(mcls, name, bases, namespace, **config)
        taken = [field for field in cls.__struct_fields__ if field in _RESERVED]
        taken += ["env"] if "env" in own else []
        if taken:
            raise EventDefinitionError(
                f"{name} declares {', '.join(sorted(taken))}: every event has that already, stamped by emit(); "
                f"choose another field name" + (" and write `type: ClassVar[str] = …`" if "type" in taken else "")
            )
        return cls


_RESERVED = {
    *Envelope.__struct_fields__, "type", "timestamp", "opens", "closes", "durable", "definition", "unstored",
}  # fmt: skip
_definitions = itertools.count(1)


def tag_from_name(name: str) -> str:
    """`TaskCompletedEvent` -> `task_completed`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.removesuffix("Event") or name)
    return words.lower()


class _Stamped(Generic[T]):
    """Reads one field of the envelope; before `emit` there is none, and the error says so."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._read = attrgetter(name)

    @overload
    def __get__(self, event: None, owner: type) -> Self: ...
    @overload
    def __get__(self, event: BaseEvent, owner: type | None = None) -> T: ...
    def __get__(self, event: BaseEvent | None, owner: type | None = None) -> T | Self:
        if event is None:
            return self
        if event.env is None:
            raise EventNotEmittedError(
                f"{type(event).__name__} has no {self._name} yet: emit() gives an event its identity; emit it first"
            )
        return self._read(event.env)  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class BaseEvent(Struct, frozen=True, kw_only=True, eq=False, weakref=True, metaclass=EventMeta):
    """A typed fact about a run. Subclass it with payload fields; `emit` adds everything else.

    Fields are keyword-only and frozen, and are not validated when an event is built (they are when one is read back).
    A subclass is tagged by its name, `class OrderPlacedEvent` -> `order_placed`, or by `type: ClassVar[str] = "…"`.
    """

    type: ClassVar[str] = "base"
    opens: ClassVar[ScopeKind | None] = None
    """The kind of scope this event opens: later events hang under it until its closer."""
    closes: ClassVar[ScopeKind | None] = None
    """The kind of scope this event closes; `started_event_id` then names the opener."""
    definition: ClassVar[int] = 0
    """How many event classes were defined before this one: of two with one tag, the later has it."""
    durable: ClassVar[bool] = True
    """False for what is only worth seeing live (chunks): never recorded, never journalled."""
    unstored: ClassVar[frozenset[str]] = frozenset({"env"})
    """Fields that a journal leaves out: it has them elsewhere."""

    env: Envelope | None = None

    event_id = _Stamped[str]()
    emission_sequence = _Stamped[int]()
    run_id = _Stamped[str | None]()
    root_run_id = _Stamped[str | None]()
    parent_event_id = _Stamped[str | None]()
    previous_event_id = _Stamped[str | None]()
    triggered_by_event_id = _Stamped[str | None]()
    started_event_id = _Stamped[str | None]()
    source_type = _Stamped[str | None]()
    source_id = _Stamped[str | None]()
    source_name = _Stamped[str | None]()
    task_id = _Stamped[str | None]()
    task_name = _Stamped[str | None]()
    agent_id = _Stamped[str | None]()
    agent_role = _Stamped[str | None]()
    at_us = _Stamped[int]()

    @property
    def timestamp(self) -> datetime:
        """When the event was emitted, in UTC."""
        return _EPOCH + timedelta(microseconds=self.at_us)


class UnknownEvent(BaseEvent):
    """A stored event whose class is not known here, or whose payload does not fit it. Kept whole, written back as it was."""

    tag: str
    payload: dict[str, Any]
    stored: dict[str, Any] = {}
    """All that was stored, to be written back as it was."""

    @property
    def type(self) -> str:  # type: ignore[override]
        """The tag it was stored under."""
        return self.tag


def stamp(event: BaseEvent, envelope: Envelope) -> None:
    """Give an event its envelope. Only `emit` and the decoder do this, once for each event."""
    force_setattr(event, "env", envelope)
