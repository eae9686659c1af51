"""A program that holds agents and is killed. `python -m tests.acp.owners COUNT [LEDGER]`; says when it is ready."""

from __future__ import annotations

import asyncio
import json
import sys

from tests.acp.support import rogue

from holdfast import Runtime
from holdfast.acp import AgentManager
from holdfast.resources import Limits
from holdfast.runs import Run
from holdfast.stores import MemoryLedger, SqliteLedger


async def hold(count: int, ledger: MemoryLedger | SqliteLedger) -> None:
    agents = AgentManager(ledger, limits=Limits(total=count))

    async def body(run: Run, number: int) -> None:
        lease = await agents.acquire(rogue("child", "detach", shaped_by=(number,)), run)
        session = await lease.session()
        assert (await session.prompt("say hello")).text == "hello"
        ready.put_nowait(number)
        await session.prompt("ignore")

    ready: asyncio.Queue[int] = asyncio.Queue()
    runtime = Runtime()
    runs = [runtime.start(body, number) for number in range(count)]
    for _ in runs:
        await ready.get()
    pids = [use.pid for held in agents.inventory() for use in held.processes]
    sys.stdout.write(json.dumps({"pids": pids}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    where = SqliteLedger(sys.argv[2]) if len(sys.argv) > 2 else MemoryLedger()
    asyncio.run(hold(int(sys.argv[1]), where))
