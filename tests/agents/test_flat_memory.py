"""Crews and agents leave no memory behind: measured as a slope, in a process of its own."""

from __future__ import annotations

import json

import pytest
from tests.runs.support import run_script

SCRIPT = """
    import asyncio, gc, json, sys, threading, time
    from holdfast import Agent, CheckpointConfig, Crew, Runtime, ScriptedModel, Task, tool
    from holdfast.models import ToolCall
    from holdfast.stores import MemoryStore

    runtime = Runtime()

    @tool
    def add(a: int) -> int:
        "Adds one."
        return a + 1

    def answer(messages, tools, settings):
        return "done" if len(messages) > 3 else ToolCall("1", "add", '{"a": 1}')

    # asyncio keeps up to a hundred cancelled timers, which the few kickoffs of "durable" would not see the end of
    seconds = None if KIND == "durable" else 60
    agent = Agent(role="A", llm=ScriptedModel(answer), tools=[add], max_execution_time=seconds)
    tasks = [Task(description="x {n}", agent=agent, async_execution=True), Task(description="y", agent=agent)]
    kept = Crew(tasks=tasks, runtime=runtime)

    async def read(number):
        async with await kept.akickoff({"n": number}, stream=True) as stream:
            async for frame in stream:
                if number % 2 and frame.type == "tool_usage_started":
                    break

    def do(number):
        for n in range(number):
            if KIND == "one":
                kept.kickoff({"n": n})
            elif KIND == "new":
                fresh = agent.model_copy()
                Crew(tasks=[Task(description="x", agent=fresh)], runtime=runtime).kickoff()
            elif KIND == "stream":
                asyncio.run(read(n))
            else:
                store = CheckpointConfig(MemoryStore(), self_contained=False)
                Crew(tasks=tasks, runtime=runtime, checkpoint=store).kickoff({"n": n})

    def look():
        # a thread lets go of a call a moment after it has told its result: the least of several looks counts
        return min(count() for _ in range(5))

    def count():
        time.sleep(0.005)
        gc.collect()
        threads = threading.active_count()  # a busy machine makes the pool larger: each thread brings 25 objects
        return len(gc.get_objects()) - 25 * threads, sys.getallocatedblocks() - 100 * threads

    do(40)
    looks = []
    for _ in range(5):
        do(NUMBER // 4)
        looks.append(look())
    runtime.close()
    print(json.dumps(looks))
"""


@pytest.mark.parametrize(("kind", "number"), [("one", 400), ("new", 200), ("stream", 100), ("durable", 80)])
def test_hundreds_of_kickoffs_of_a_crew_leave_memory_flat(kind: str, number: int) -> None:
    done = run_script(f"    KIND, NUMBER = {kind!r}, {number}\n" + SCRIPT)
    assert done.returncode == 0, done.stderr
    looks: list[list[int]] = json.loads(done.stdout)
    objects, blocks = zip(*looks, strict=True)
    # one object kept by each kickoff would be `number` more
    assert objects[-1] - objects[1] <= 60, looks
    assert blocks[-1] - blocks[1] <= max(number // 4, 200), looks
