"""What a person on a Mac does first, run by `darwin.py`: a flow that is kept, a held tree of processes, a job from a flow file."""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import sys
from pathlib import Path
from typing import Any

from holdfast import CheckpointConfig, Flow, Run, Runtime, listen, start
from holdfast.cli import main
from holdfast.errors import SandboxError
from holdfast.resources import (
    Command,
    DirectoryManager,
    DirectorySpec,
    ProcessManager,
    ProcessSpec,
    Sandbox,
    SystemProcessTable,
    list_held,
)
from holdfast.stores import SqliteLedger

CHAIN = "sh -c 'sleep 1000 & (setsid sleep 1000 &); echo ready; wait'; :"
FLOW = """name: greet
steps:
  greet:
    outputs: [greeting]
    run: |
      echo '{"greeting": "hello"}'
"""


class Adds(Flow[dict[str, Any]]):
    @start()
    def one(self) -> int:
        return 1

    @listen(one)
    def two(self, number: int) -> int:
        return number + 1


async def hold(folder: Path) -> None:
    ledger = SqliteLedger(folder / "ledger.db")
    processes, directories = ProcessManager(ledger), DirectoryManager(ledger)
    runtime = Runtime()
    runtime.register(processes)
    runtime.register(directories)

    async def body(run: Run) -> list[int]:
        process = (await processes.acquire(ProcessSpec(Command(("/bin/sh", "-c", CHAIN))), run)).resource
        assert await process.readline() == b"ready\n"
        (listed,) = await list_held(ledger, SystemProcessTable())
        assert (listed.state, len(listed.processes)) == ("held", 4)
        locked = (await directories.acquire(DirectorySpec(parent=str(folder)), run)).resource / "locked"
        locked.mkdir()
        locked.chmod(0)
        asked = processes.acquire(ProcessSpec(Command(("true",), sandbox=Sandbox())), run)
        (refused,) = await asyncio.gather(asked, return_exceptions=True)
        assert isinstance(refused, SandboxError), refused
        return [use.pid for use in listed.processes]

    pids = await runtime.arun(body)
    assert not [pid for pid in pids if SystemProcessTable().identify(pid)]
    assert await ledger.rows() == []
    await runtime.aclose()
    await ledger.aclose()


def run_command(*words: str) -> int:
    sys.argv = ["holdfast", *words]
    try:
        main()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def go() -> None:
    assert sys.platform == "darwin"
    assert not hasattr(os, "pidfd_open")
    assert selectors.DefaultSelector.__name__ == "PollSelector"
    folder = Path(os.environ["TMPDIR"])
    os.chdir(folder)
    assert Adds(checkpoint=CheckpointConfig()).kickoff() == 2
    asyncio.run(hold(folder))
    (folder / "greet.flow.yaml").write_text(FLOW)
    for words in (("run", "greet.flow.yaml", "--wait"), ("doctor",), ("resources",)):
        assert run_command(*words) == 0, words
    sys.stdout.write(json.dumps("all is well") + "\n")


if __name__ == "__main__":
    go()
