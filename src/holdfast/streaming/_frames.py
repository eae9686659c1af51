"""Frames: what a stream yields, and which event becomes what frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from holdfast.events._base import BaseEvent

ChannelName = Literal["text", "thinking", "tool", "step", "lifecycle", "human", "custom"]

_FAMILIES: dict[str, ChannelName] = {
    "acp": "step",
    "agent": "step",
    "exit": "step",
    "for_each": "step",
    "human": "human",
    "llm": "step",
    "loop": "step",
    "mcp": "tool",
    "step": "step",
    "task": "step",
    "tool": "tool",
}
"""Families of events that have a channel of their own; all other events of ours tell of the run's life."""
_TAGS: dict[str, ChannelName] = {
    "flow_input_": "human",
    "llm_stream_chunk": "text",
    "llm_thinking_chunk": "thinking",
    "method_execution_": "step",
}
"""Events that go another way than their family, by how their tag begins."""
_OURS = "holdfast.events.families."


class Frame(Struct, frozen=True):
    """One thing that happened in a run, as its stream tells it."""

    id: str
    """of the event it tells of; empty for a `dropped` frame"""
    seq: int
    """the event's number in its run tree: later frames have higher ones, not always the next"""
    run_id: str
    """the run it happened in: the stream's own, or one inside it"""
    path: tuple[str, ...]
    """that run's name, after the names of the runs around it, from the root down"""
    channel: ChannelName
    type: str
    """the event's tag, such as `llm_stream_chunk`"""
    at: int
    """when, in microseconds since 1970, UTC"""
    data: dict[str, Any]
    """the event's payload, as it is: not copied"""

    @property
    def text(self) -> str:
        """The piece of text in a frame of the channels text and thinking; empty in others."""
        return str(self.data.get("chunk", "")) if self.channel in ("text", "thinking") else ""


def dropped(number: int, after: Frame) -> Frame:
    """Stands where an observer has missed frames; `data["count"]` says how many. `after` is the last one it missed."""
    return Frame("", after.seq, after.run_id, after.path, "lifecycle", "dropped", after.at, {"count": number})


def channel_of(event_type: type[BaseEvent]) -> ChannelName:
    """The channel that events of a class go to. A subclass goes where the class of ours goes that it is made from."""
    for base in event_type.__mro__:
        if base.__module__.startswith(_OURS):
            tag: str = vars(base)["type"]
            by_tag = next((channel for begins, channel in _TAGS.items() if tag.startswith(begins)), None)
            return by_tag or _FAMILIES.get(base.__module__.removeprefix(_OURS), "lifecycle")
    return "custom"


class FrameMaker:
    """Makes the frames of one channel."""

    def __init__(self, path_of: Callable[[str | None], tuple[str, ...]]) -> None:
        self._path_of = path_of
        self._kinds: dict[type[BaseEvent], tuple[ChannelName, tuple[str, ...]]] = {}

    def frame(self, event: BaseEvent) -> Frame:
        """What the stream tells of an event that was emitted."""
        kind = type(event)
        channel, names = self._kinds.get(kind) or self._learn(kind)
        env = event.env
        assert env is not None
        data = {name: getattr(event, name) for name in names}
        return Frame(
            env.event_id, env.emission_sequence, env.run_id or "", self._path_of(env.run_id),
            channel, event.type, env.at_us, data,
        )  # fmt: skip

    def _learn(self, kind: type[BaseEvent]) -> tuple[ChannelName, tuple[str, ...]]:
        names = tuple(name for name in kind.__struct_fields__ if name != "env")
        known = self._kinds[kind] = (channel_of(kind), names)
        return known
