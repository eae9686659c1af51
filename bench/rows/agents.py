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
    ToolCall,
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
MAX_OBJECTS = 10
MAX_BLOCKS = 50
"""Of an allocator that keeps a few; one left a kickoff would be a thousand."""

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


def _calls_of(agent: Agent) -> list[list[Message]]:
    """What the model was told in each call of an agent's latest work."""
    said = agent.messages
    answers = [place for place, message in enumerate(said) if isinstance(message, AssistantMessage)]
    return [said[:place] for place in answers]


async def _bare(model: Model, calls: list[list[Message]]) -> None:
    """The same calls, of the model alone."""
    async with model.opened():
        for messages in calls:
            await model.request(messages, [note.spec])


def _over_bare(runtime: Runtime, model: Model) -> float:
    """Seconds of processor time of a crew's kickoff, over those of the same calls alone: measured in turns, the median."""
    crew = _crew(runtime, model)
    agent = Agent(role="Worker", goal="Work", llm=model, tools=[note], runtime=runtime)
    agent.kickoff("Do it\n\nWhat the answer must be: An answer")
    calls = _calls_of(agent)
    taken = []
    for _ in range(KICKOFFS + 1):
        before = time.process_time()
        crew.kickoff()
        between = time.process_time()
        runtime.loop_thread.submit(_bare(model, calls)).result()
        taken.append(2 * between - before - time.process_time())
    return statistics.median(taken[1:])


def measure_calls() -> list[Row]:
    """The loop's own cost of one model call and the tool call that follows it."""
    with Runtime() as runtime:
        scripted = ScriptedModel(_tool_calls)
        alone = _median(_crew(runtime, scripted).kickoff) / CALLS * 1000
        with _served() as url:
            model = ProviderModel("openai:gpt-4o", base_url=url, api_key="k")
            ours = max(_over_bare(runtime, model) / CALLS * 1000, 0.001)
            theirs = peer("crewai", "crewai_crews.py", url, str(CALLS))
    crewai = theirs["crew_ms"] - theirs["bare_ms"]
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
    return {"objects": objects, "blocks": blocks}


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
        Row("objects left after 1,000 crew kickoffs", "objects", growth["objects"], limit=0.0,
            target=f"< {MAX_OBJECTS}", ok=growth["objects"] < MAX_OBJECTS),
        Row("blocks left after 1,000 crew kickoffs", "blocks", growth["blocks"], limit=0.0,
            target=f"< {MAX_BLOCKS}", ok=growth["blocks"] < MAX_BLOCKS),
    ]  # fmt: skip


ROWS = {"agents": measure_calls, "agent-chunks": measure_chunks, "crew-leaks": measure_crew_leaks}
