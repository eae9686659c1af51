"""Frames: which event goes to which channel, and what a frame carries."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.streaming.support import say, texts, think

from holdfast import BaseEvent, Flow, Runtime, events, start
from holdfast.events.families import WHERE
from holdfast.streaming._frames import channel_of


class OrderPlacedEvent(BaseEvent):
    number: int


class LoudChunkEvent(events.LLMStreamChunkEvent):
    """A user's own kind of chunk."""


@pytest.mark.parametrize(
    ("event_type", "channel"),
    [
        (events.LLMStreamChunkEvent, "text"),
        (LoudChunkEvent, "text"),
        (events.LLMThinkingChunkEvent, "thinking"),
        (events.LLMCallStartedEvent, "step"),
        (events.ToolUsageStartedEvent, "tool"),
        (events.MCPToolExecutionStartedEvent, "tool"),
        (events.MethodExecutionStartedEvent, "step"),
        (events.StepFailedEvent, "step"),
        (events.TaskCompletedEvent, "step"),
        (events.AgentExecutionStartedEvent, "step"),
        (events.FlowStartedEvent, "lifecycle"),
        (events.RunCompletedEvent, "lifecycle"),
        (events.CrewKickoffStartedEvent, "lifecycle"),
        (events.CheckpointCompletedEvent, "lifecycle"),
        (events.HumanFeedbackRequestedEvent, "human"),
        (events.FlowInputRequestedEvent, "human"),
        (events.FlowInputReceivedEvent, "human"),
        (OrderPlacedEvent, "custom"),
        (BaseEvent, "custom"),
    ],
)
def test_each_event_has_its_channel(event_type: type[BaseEvent], channel: str) -> None:
    assert channel_of(event_type) == channel


def test_no_event_of_ours_is_taken_for_a_users() -> None:
    assert [name for name in WHERE if channel_of(getattr(events, name)) == "custom"] == []


def test_a_frame_carries_the_payload_and_can_be_written_as_json(runtime: Runtime) -> None:
    class Talks(Flow[Any]):
        @start()
        def talk(self) -> str:
            think("hm")
            say("hello")
            runtime.event_bus.emit(self, OrderPlacedEvent(number=7))
            return "done"

    frames = list(Talks(name="talks", runtime=runtime).kickoff(stream=True))
    by_channel = {frame.channel: frame for frame in frames}
    assert by_channel["text"].data == {"call_id": "", "chunk": "hello"}
    assert (by_channel["text"].text, by_channel["thinking"].text, by_channel["custom"].text) == ("hello", "hm", "")
    assert by_channel["custom"].type == "order_placed"
    assert by_channel["custom"].data == {"number": 7}
    assert texts(frames) == ["hello"]
    written = json.loads(msgspec.json.encode(by_channel["text"]))
    assert written["path"] == ["talks"]
    assert list(written) == ["id", "seq", "run_id", "path", "channel", "type", "at", "data"]
