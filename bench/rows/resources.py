"""Kept processes beside bare asyncio, in one run: what a keeper costs, and how fast everything is gone."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench._harness import BENCH, Row, compare, say
from holdfast.errors import SandboxError
from holdfast.resources import Command, Keeper, KeptProcess, Limits, ProcessManager, ProcessSpec, Sandbox
from holdfast.resources._bubblewrap import enclose
from holdfast.stores import MemoryLedger, SqliteLedger
from holdfast.testing.resource_conformance import Borrower

PAIRS = 60
TREES = 100
ECHO = ("/bin/echo", "hello")
FOREST = "sleep 1000 & sleep 1000 & sleep 1000 & sleep 1000 & echo ready; exec cat"
"""five processes; with a stub each and the zygote, 100 trees are 601"""


async def _first_byte_kept(keeper: Keeper, command: Command) -> float:
    started = time.perf_counter()
    process = await keeper.spawn(command)
    await process.read(1)
    took = time.perf_counter() - started
    await process.end()
    return took


async def _first_byte_bare() -> float:
    pipe = asyncio.subprocess.PIPE
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*ECHO, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    await process.stdout.read(1)
    took = time.perf_counter() - started
    await process.communicate()
    return took


async def _first_byte_wrapped(argv: tuple[str, ...]) -> float:
    """The same bubblewrap command line, without a keeper."""
    pipe = asyncio.subprocess.PIPE
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    await process.stdout.read(1)
    took = time.perf_counter() - started
    await process.communicate()
    return took


async def _spawn_confined() -> list[Row]:
    """None where no sandbox can be had."""
    command = Command(ECHO, sandbox=Sandbox())
    try:
        enclosed = enclose(command, Sandbox())
    except SandboxError as error:
        say(f"no sandbox here: {error}")
        return []
    argv = (enclosed.argv[0], *enclosed.options, *enclosed.argv[1:])
    with Keeper() as keeper:
        await _first_byte_kept(keeper, command)
        pairs = [(await _first_byte_kept(keeper, command), await _first_byte_wrapped(argv)) for _ in range(PAIRS)]
    kept, bare = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    return [
        compare("spawn to first byte in a sandbox", "ms", kept, better="lower", peers={"asyncio + bubblewrap": bare})
    ]


async def _spawn() -> Row:
    with Keeper() as keeper:
        bare_command = Command(ECHO)
        await _first_byte_kept(keeper, bare_command)
        pairs = [(await _first_byte_kept(keeper, bare_command), await _first_byte_bare()) for _ in range(PAIRS)]
    kept, bare = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(kept / bare for kept, bare in pairs)
    return compare(
        "spawn to first byte", "ms", kept, better="lower", peers={"bare asyncio": bare},
        target="<= 4 x bare", ok=ratio <= 4,
    )  # fmt: skip


async def _second_lease() -> Row:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        async with SqliteLedger(Path(folder) / "holdfast.db") as ledger:
            manager = ProcessManager(ledger)
            spec = ProcessSpec(Command(("/bin/cat",)))
            await manager.acquire(spec, Borrower())
            took = []
            for _ in range(500):
                started = time.perf_counter()
                lease = await manager.acquire(spec, Borrower())
                took.append(time.perf_counter() - started)
                await lease.release()
            await manager.release_all()
    median = 1000 * statistics.median(took)
    return Row("second lease on a held process, ledger in SQLite", "ms", median, target="<= 1", ok=median <= 1)


def _pss(pid: int) -> float:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


async def _memory() -> list[Row]:
    with Keeper() as keeper:
        lone = await keeper.spawn(Command(("/bin/cat",)))
        assert keeper.pid is not None
        assert lone.keeper is not None
        once = _pss(keeper.pid) + _pss(lone.keeper.pid)
        trees = [await keeper.spawn(Command(("/bin/cat",))) for _ in range(TREES - 1)]
        everything = _pss(keeper.pid) + sum(_pss(tree.keeper.pid) for tree in [lone, *trees] if tree.keeper)
        each = (everything - once) / (TREES - 1)
        await asyncio.gather(*(tree.end(0) for tree in [lone, *trees]))
    return [
        Row("keeper of a tree", "MB PSS", each, target="<= 1", ok=each <= 1),
        Row("keeper, once", "MB PSS", once - each, target="<= 6", ok=once - each <= 6),
    ]


async def _plant(keeper: Keeper) -> KeptProcess:
    process = await keeper.spawn(Command(("/bin/sh", "-c", FOREST)))
    await process.readline()
    return process


async def own_a_forest() -> None:
    """In a process of its own, to be killed."""
    keeper = Keeper()
    trees = [await _plant(keeper) for _ in range(TREES)]
    pids = [use.pid for tree in trees for use in tree.processes()]
    stubs = [tree.keeper.pid for tree in trees if tree.keeper]
    print(json.dumps([*pids, *stubs, keeper.pid]), flush=True)
    await asyncio.Event().wait()


def _killed() -> Row:
    code = "import asyncio; from bench.rows.resources import own_a_forest; asyncio.run(own_a_forest())"
    with subprocess.Popen([sys.executable, "-c", code], cwd=BENCH.parent, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = json.loads(owner.stdout.readline())
        handles = [os.pidfd_open(pid) for pid in pids]
        started = time.perf_counter()
        os.kill(owner.pid, signal.SIGKILL)
        poll = select.poll()
        for handle in handles:
            poll.register(handle, select.POLLIN)
        left = set(handles)
        while left:
            for handle, _ in poll.poll(20_000):
                poll.unregister(handle)
                left.discard(handle)
        took = time.perf_counter() - started
        for handle in handles:
            os.close(handle)
    name = f"{len(pids)} processes in {TREES} trees gone after SIGKILL of the owner"
    return Row(name, "s", took, target="<= 0.5", ok=took <= 0.5)


async def _released() -> Row:
    with Keeper() as keeper:
        trees = [await _plant(keeper) for _ in range(TREES)]
        started = time.perf_counter()
        await asyncio.gather(*(tree.end(0.3) for tree in trees))
        took = time.perf_counter() - started
    return Row(f"{TREES} trees released, 0.3 s of grace", "s", took, target="<= 1", ok=took <= 1)


async def count_growth(times: int = 1000) -> dict[str, float]:
    """What is left in the owner after many acquires and releases."""
    manager = ProcessManager(MemoryLedger(), limits=Limits())
    spec = ProcessSpec(Command(("/bin/cat",), grace=0.0))

    async def cycles(number: int) -> None:
        for _ in range(number):
            await (await manager.acquire(spec, Borrower())).release()

    await cycles(100)
    before = _counts()
    await cycles(times)
    objects, blocks, handles = (after - first for first, after in zip(before, _counts(), strict=True))
    await manager.release_all()
    return {"objects": objects, "blocks": blocks, "files": handles}


def _counts() -> tuple[int, int, int]:
    for _ in range(3):
        gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))


def _flat() -> Row:
    code = "import asyncio, json; from bench.rows.resources import count_growth; print(json.dumps(asyncio.run(count_growth())))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCH.parent, check=True, capture_output=True, text=True, timeout=300
    )
    growth: dict[str, Any] = json.loads(done.stdout)
    # asyncio keeps up to a hundred cancelled timers; one object kept by each would be a thousand
    ok = growth["objects"] < 150 and growth["blocks"] < 300 and growth["files"] == 0
    return Row(
        "left in the owner after 1,000 acquire/release", "blocks", growth["blocks"], limit=0.0, target="flat", ok=ok
    )


def measure_resources() -> list[Row]:
    """All of it, beside bare asyncio."""
    return [
        asyncio.run(_spawn()),
        *asyncio.run(_spawn_confined()),
        asyncio.run(_second_lease()),
        *asyncio.run(_memory()),
        _killed(),
        asyncio.run(_released()),
        _flat(),
    ]


ROWS = {"resources": measure_resources}
