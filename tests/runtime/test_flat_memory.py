"""Plain runs leave no memory behind: measured as a slope, in a process of its own."""

from __future__ import annotations

import json

import pytest
from tests.runs.support import run_script

SCRIPT = """
    import asyncio, gc, json, sys
    from holdfast import Runtime

    runtime = Runtime()

    def blocking(run):
        return None

    async def quick(run):
        return None

    async def with_everything(run):
        run.hold("thing", "it", lambda: None)
        run.on(__import__("holdfast").BaseEvent)(lambda source, event: None)
        await run.spawn(quick, run)
        await runtime.arun(quick)

    def look():
        gc.collect()
        return len(gc.get_objects()), sys.getallocatedblocks()

    async def many(body, number):
        for _ in range(number):
            await runtime.arun(body, record=RECORD)

    def do(number):
        if KIND == "sync":
            for _ in range(number):
                runtime.run(blocking, record=RECORD)
        else:
            asyncio.run(many(quick if KIND == "async" else with_everything, number))

    do(500)
    looks = []
    for _ in range(5):
        do(NUMBER // 4)
        looks.append(look())
    runtime.close()
    print(json.dumps(looks))
"""


@pytest.mark.parametrize("record", [False, True], ids=["plain", "recording"])
@pytest.mark.parametrize(("kind", "number"), [("sync", 2000), ("async", 2000), ("everything", 2000)])
def test_s0_7_two_thousand_runs_leave_memory_flat(kind: str, number: int, record: bool) -> None:
    setting = f"    KIND, NUMBER, RECORD = {kind!r}, {number}, {record}\n"
    done = run_script(setting + SCRIPT)
    assert done.returncode == 0, done.stderr
    looks: list[list[int]] = json.loads(done.stdout)
    objects, blocks = zip(*looks, strict=True)
    # one object kept by each run would be `number` more; a thread that joins the pool brings 25, a look five blocks
    assert objects[-1] - objects[1] <= 100
    assert blocks[-1] - blocks[1] <= number // 10
