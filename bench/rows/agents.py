"""What our agents and crews cost over the models they ask, beside crewAI on the same loopback server.

Processor time of the client alone, so that the server and other programs do not count; medians.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench._harness import BENCH, Row, compare, peer
from holdfast import Agent, Crew, Runtime, ScriptedModel, Task, tool
from holdfast.models import (
    AssistantMessage,
    Message,
    Model,
    ModelSettings,
    ProviderModel,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

CALLS = 10
"""Model calls of one kickoff, all but the last asking for a tool."""
KICKOFFS = 12
CHUNKS = 10_000
STREAMS = 200
MAX_CALL_MS = 2.0
MAX_CHUNK_US = 30.0
TIMES_CREWAI = 10
LEAK_RUNS = 1_000
MAX_BLOCKS = 5.0

SERVER = f"""
import sys
from holdfast.testing import Answer, ModelServer, ToolUse

def answer(request):
    turns = sum(1 for message in request.body["messages"] if message["role"] == "assistant")
    has_tools = bool(request.body.get("tools"))
    return Answer(ToolUse("note", {{"text": str(turns)}})) if has_tools and turns < {CALLS - 1} else "done"

with ModelServer(answer) as server:
    print(server.openai_url, flush=True)
    sys.stdin.read()
"""


@tool
def note(text: str) -> str:
    """Takes a note."""
    return "noted"


@contextmanager
def _served() -> Iterator[str]:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _tool_calls(messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings) -> Any:
    turns = sum(1 for message in messages if type(message).__name__ == "AssistantMessage")
    return ToolCall(f"c{turns}", "note", '{"text": "x"}') if turns < CALLS - 1 else "done"


def _crew(runtime: Runtime, model: Model) -> Crew:
    agent = Agent(role="Worker", goal="Work", llm=model, tools=[note])
    task = Task(description="Do it", expected_output="An answer", agent=agent)
    return Crew(agents=[agent], tasks=[task], runtime=runtime)


def _median(call: Callable[[], object]) -> float:
    """Seconds of processor time, after one call that warms up."""
    taken = []
    for _ in range(KICKOFFS + 1):
        before = time.process_time()
        call()
        taken.append(time.process_time() - before)
    return statistics.median(taken[1:])


def _conversation(turns: int) -> list[Message]:
    """What an agent says in its nth call."""
    said: list[Message] = [
        SystemMessage("You are Worker.\nYour goal: Work"),
        UserMessage("Do it\n\nWhat the answer must be: An answer"),
    ]
    for turn in range(turns):
        said += [
            AssistantMessage((ToolCall(f"c{turn}", "note", '{"text": "x"}'),)),
            ToolMessage(f"c{turn}", "note", "noted"),
        ]
    return said


async def _bare(model: Model) -> float:
    """Seconds of processor time for as many calls of a model alone."""
    asked = [_conversation(turns) for turns in range(CALLS)]
    taken = []
    async with model.opened():
        for _ in range(KICKOFFS + 1):
            before = time.process_time()
            for messages in asked:
                await model.request(messages, [note.spec])
            taken.append(time.process_time() - before)
    return statistics.median(taken[1:])


def measure_calls() -> list[Row]:
    """The loop's own cost of one model call and the tool call that follows it."""
    with Runtime() as runtime:
        scripted = ScriptedModel(_tool_calls)
        alone = _median(_crew(runtime, scripted).kickoff) / CALLS * 1000
        with _served() as url:
            model = ProviderModel("openai:gpt-4o", base_url=url, api_key="k")
            crew = _median(_crew(runtime, model).kickoff) / CALLS * 1000
            bare = asyncio.run(_bare(model)) / CALLS * 1000
            theirs = peer("crewai", "crewai_crews.py", url, str(CALLS))
    ours, crewai = max(crew - bare, 0.001), theirs["crew_ms"] - theirs["bare_ms"]
    return [
        Row("a model call and a tool call in a crew, scripted model", "ms of CPU", alone,
            target=f"≤ {MAX_CALL_MS:g}", ok=alone <= MAX_CALL_MS),
        compare("a crew's own cost of a model call, over loopback HTTP", "ms of CPU", ours, better="lower",
                peers={"crewai": crewai}, target=f"≤ {MAX_CALL_MS:g}, ≥ {TIMES_CREWAI}× crewAI",
                ok=ours <= MAX_CALL_MS and crewai / ours >= TIMES_CREWAI),
    ]  # fmt: skip


async def _streamed(agents: int, chunks: int) -> float:
    """Seconds of processor time a chunk, read from as many agents at once."""
    said = ["word "] * chunks

    async def read(agent: Agent) -> int:
        stream = await agent.akickoff("go", stream=True)
        return len([None async for frame in stream if frame.channel == "text"])

    with Runtime() as runtime:
        made = [Agent(role="Talker", llm=ScriptedModel([said]), runtime=runtime) for _ in range(agents)]
        before = time.process_time()
        read_chunks = await asyncio.gather(*map(read, made))
        taken = time.process_time() - before
    if read_chunks != [chunks] * agents:
        raise AssertionError("chunks were lost")
    return taken / (agents * chunks)


async def _port(chunks: int) -> float:
    model = ScriptedModel(lambda *call: ["word "] * chunks)
    before = time.process_time()
    async for _ in model.stream([UserMessage("go")]):
        pass
    return (time.process_time() - before) / chunks


def measure_chunks() -> list[Row]:
    """A streamed chunk, from the model's port to the reader of the stream, over what the port itself takes."""
    port = min(asyncio.run(_port(CHUNKS)) for _ in range(5)) * 1e6
    rows = []
    for name, agents, chunks in (("one agent", 1, CHUNKS), (f"{STREAMS} agents on one loop", STREAMS, CHUNKS // 100)):
        best = min(asyncio.run(_streamed(agents, chunks)) for _ in range(5)) * 1e6 - port
        rows.append(
            Row(f"a streamed chunk, {name}", "µs of CPU", best, target=f"≤ {MAX_CHUNK_US:g}", ok=best <= MAX_CHUNK_US)
        )
    return rows


def count_what_crews_leave() -> dict[str, float]:
    """Growth over many kickoffs of one crew with a tool: objects and blocks per 1,000."""
    with Runtime() as runtime:
        crew = _crew(runtime, ScriptedModel(_tool_calls))
        for _ in range(300):
            crew.kickoff()
        before = _counts()
        for _ in range(LEAK_RUNS):
            crew.kickoff()
        objects, blocks = (after - first for first, after in zip(before, _counts(), strict=True))
    return {"objects": objects / LEAK_RUNS * 1000, "blocks": blocks / LEAK_RUNS * 1000}


def _counts() -> tuple[int, int]:
    for _ in range(3):
        gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


def measure_crew_leaks() -> list[Row]:
    """What 1,000 kickoffs of a crew leave, in a process of their own."""
    code = "import json; from bench.rows.agents import count_what_crews_leave as c; print(json.dumps(c()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCH.parent, check=True, capture_output=True, text=True, timeout=600
    )
    growth = json.loads(done.stdout)
    return [
        Row("objects left per 1,000 crew kickoffs", "objects", round(growth["objects"], 3), limit=0.0,
            target="0", ok=abs(growth["objects"]) < 1),
        Row("blocks left per 1,000 crew kickoffs", "blocks", round(growth["blocks"], 3), limit=0.0,
            target=f"< {MAX_BLOCKS:.0f}", ok=growth["blocks"] < MAX_BLOCKS),
    ]  # fmt: skip


ROWS = {"agents": measure_calls, "agent-chunks": measure_chunks, "crew-leaks": measure_crew_leaks}
