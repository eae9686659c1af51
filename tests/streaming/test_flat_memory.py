"""Streamed runs leave no memory behind: measured as a slope, in a process of its own."""

from __future__ import annotations

import json

import pytest
from tests.runs.support import run_script

SCRIPT = """
    import asyncio, gc, json, sys
    from holdfast import Flow, Runtime, start
    from holdfast.events import LLMStreamChunkEvent

    runtime = Runtime()

    class Talk(Flow):
        @start()
        async def talk(self):
            for word in ("a", "b", "c"):
                runtime.event_bus.emit(self, LLMStreamChunkEvent(chunk=word))
                await asyncio.sleep(0)

    async def read(flow):
        async with await flow.akickoff(stream=True) as stream:
            looking = stream.observe()
            async for frame in stream:
                if KIND == "left" and frame.channel == "text":
                    break
            looking.close()

    async def many(number):
        for _ in range(number):
            await read(Talk(runtime=runtime))

    def do(number):
        if KIND == "plain":
            for _ in range(number):
                list(Talk(runtime=runtime).kickoff(stream=True))
        else:
            asyncio.run(many(number))

    def look():
        gc.collect()
        return len(gc.get_objects()), sys.getallocatedblocks()

    do(200)
    looks = []
    for _ in range(5):
        do(200)
        looks.append(look())
    runtime.close()
    print(json.dumps(looks))
"""


@pytest.mark.parametrize("kind", ["plain", "read", "left"])
def test_a_thousand_streamed_runs_leave_memory_flat(kind: str) -> None:
    done = run_script(f"    KIND = {kind!r}\n" + SCRIPT)
    assert done.returncode == 0, done.stderr
    looks: list[list[int]] = json.loads(done.stdout)
    objects, blocks = zip(*looks, strict=True)
    # one object kept by each run would be 800 more; a thread that is still leaving its last run holds a few
    assert objects[-1] - objects[0] <= 50
    assert blocks[-1] - blocks[0] <= 200
