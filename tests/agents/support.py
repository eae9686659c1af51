"""Models, tools and ears for the tests of agents and crews."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from tests.agents.office import look

from holdfast import Agent, BaseEvent, CheckpointConfig, Crew, Runtime, ScriptedModel, Task, is_replaying, tool
from holdfast.errors import ModelRequestError
from holdfast.models import AssistantMessage, Message, ProviderModel, Reply, Retries, Text, ToolCall
from holdfast.ports import Usage
from holdfast.testing import ModelServer

PROTOCOLS = ("openai", "anthropic")
QUICK = Retries(first_wait=0.0, longest_wait=0.0)
"""Tries again at once."""


def provider_model(server: ModelServer, protocol: str = "openai", **options: Any) -> ProviderModel:
    """A model of a provider, which is the server."""
    given: dict[str, Any] = {"api_key": "sk-secret", "retries": QUICK} | options
    if protocol == "openai":
        return ProviderModel("openai:gpt-4o", base_url=server.openai_url, **given)
    return ProviderModel("anthropic:claude-opus-5", base_url=server.url, **given)


def call(name: str, arguments: str = "{}", call_id: str = "") -> ToolCall:
    return ToolCall(call_id or f"call-{name}", name, arguments)


def hear(runtime: Runtime, *types: type[BaseEvent]) -> list[Any]:
    """What is told of these events, from now on, and is new."""
    heard: list[Any] = []

    def note(source: object, event: BaseEvent) -> None:
        if not is_replaying():
            heard.append(event)

    runtime.event_bus.on(*types or (BaseEvent,))(note)
    return heard


def last_text(messages: Sequence[Message]) -> str:
    return str(getattr(messages[-1], "text", ""))


@tool
def add(a: int, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b


@tool
def explode() -> None:
    """Raises."""
    raise RuntimeError("kaboom")


@tool(max_usage_count=2)
def twice(text: str = "") -> str:
    """May be used two times."""
    return f"used {text}"


class Meeting:
    """A tool that returns only when so many of its calls are under way at once."""

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties)

    def tool(self) -> Any:
        @tool("meet")
        def meet(who: str) -> str:
            """Waits for the others."""
            self.barrier.wait(10)
            return f"{who} met"

        return meet


def used(text: str, tokens: int = 10) -> Reply:
    return Reply(AssistantMessage((Text(text),)), Usage(1, tokens))


def two_tasks(config: CheckpointConfig, runtime: Runtime, *lines: Any, **options: Any) -> Crew:
    """A crew whose script ends before its tasks do, unless there are two lines."""
    agent = Agent(role="Clerk", llm=ScriptedModel(list(lines)), tools=[look.model_copy(deep=True)])
    tasks = [Task(name=name, description=name, agent=agent) for name in ("one", "two")]
    return Crew(name="Office", tasks=tasks, checkpoint=config, runtime=runtime, **options)


def break_off(crew: Crew) -> str:
    """Let a crew run into the end of its script; its run id."""
    with pytest.raises(ModelRequestError, match="give the script more"):
        crew.kickoff()
    assert crew.run_id is not None
    return crew.run_id
