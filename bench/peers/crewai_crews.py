"""Measure crewAI's crews; run in crewAI's own environment as `crewai_crews.py BASE_URL CALLS`, prints one JSON object.

One agent does one task: CALLS model calls, all but the last asking for a tool. What bare calls of the same client take is
measured beside it and taken off. Processor time of this process alone, so that the server does not count.
"""

import json
import os
import statistics
import sys
import time
from typing import Any

# Set before the import, so that a run by hand is as quiet as one by the harness.
os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_DISABLE_TRACKING="true",
    CREWAI_DISABLE_VERSION_CHECK="true",
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
)

import openai
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

KICKOFFS = 12


@tool("note")
def note(text: str) -> str:
    """Takes a note."""
    return "noted"


def crew_seconds(url: str) -> float:
    agent = Agent(
        role="Worker",
        goal="Work",
        backstory="",
        llm=LLM(model="openai/gpt-4o", base_url=url, api_key="k"),
        tools=[note],
    )
    crew = Crew(agents=[agent], tasks=[Task(description="Do it", expected_output="An answer", agent=agent)])
    began = time.process_time()
    crew.kickoff()
    return time.process_time() - began


TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "note",
            "description": "Takes a note.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        },
    }
]


def conversation(turns: int) -> Any:
    """What an agent says in its nth call."""
    said: list[Any] = [{"role": "system", "content": "You are Worker."}, {"role": "user", "content": "Do it"}]
    for turn in range(turns):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "note", "arguments": "{}"}}
        said += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "noted"},
        ]
    return said


def bare_seconds(client: openai.OpenAI, calls: int) -> float:
    asked = [conversation(turns) for turns in range(calls)]
    began = time.process_time()
    for messages in asked:
        client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS)
    return time.process_time() - began


def main(url: str, calls: int) -> None:
    client = openai.OpenAI(base_url=url, api_key="k")
    crew_seconds(url), bare_seconds(client, calls)
    crews = statistics.median(crew_seconds(url) for _ in range(KICKOFFS))
    bare = statistics.median(bare_seconds(client, calls) for _ in range(KICKOFFS))
    print(json.dumps({"crew_ms": crews / calls * 1000, "bare_ms": bare / calls * 1000}))


main(sys.argv[1], int(sys.argv[2]))
