"""Programs that own process trees and are killed. `python -m tests.resources.owners WHAT ARGUMENTS`; each says when it is ready."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.resources.boxes import confined
from tests.resources.trees import HEAVY_CHAIN, HOSTILE, left, plant, shell
from tests.runs.support import until

from holdfast import Run, Runtime
from holdfast.resources import (
    Command,
    DirectoryManager,
    DirectorySpec,
    Keeper,
    KeptProcess,
    Limits,
    ProcessManager,
    ProcessSpec,
)
from holdfast.runs import End, RunStatus
from holdfast.stores import MemoryLedger, SqliteLedger
from holdfast.testing._audit import started_here
from holdfast.testing.resource_conformance import Borrower


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def hold(count: str) -> None:
    """Keep so many trees, of all kinds in turn."""
    keeper = Keeper()
    scripts = [*HOSTILE.values()]
    trees = [await plant(keeper, scripts[i % len(scripts)]) for i in range(int(count))]
    pids = [use.pid for tree in trees for use in tree.processes()]
    stubs = [tree.keeper.pid for tree in trees if tree.keeper]
    tell(pids=pids, keepers=[keeper.pid, *stubs], leaders=[tree.pid for tree in trees])
    await asyncio.Event().wait()


async def forks(count: str) -> None:
    """As `hold`, with a forked child that has inherited every file and lives on."""
    keeper = Keeper()
    trees = [await plant(keeper, HOSTILE["setsid"]) for _ in range(int(count))]
    child = os.fork()
    if not child:
        signal.pause()
    tell(pids=[use.pid for tree in trees for use in tree.processes()], child=child)
    await asyncio.Event().wait()


async def unwinds() -> None:
    """A forked child ends what it took along; says how the child ended, and whether the tree is still there."""
    with Keeper() as keeper:
        tree = await keeper.spawn(Command(("cat",)))
        child = os.fork()
        if not child:
            signal.alarm(10)
            asyncio.run(tree.end(0))
            os._exit(0)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        await tree.write(b"still here\n")
        tell(status=status, said=(await tree.readline()).decode())
        await tree.end()


async def closes() -> None:
    """Closes its keeper, with a stub that waits, while a forked child has every file; says whether the zygote has left by then."""
    keeper = Keeper()
    async with await keeper.spawn(shell("exit")) as tree:
        await tree.gone()
    child = os.fork()
    if not child:
        signal.pause()
    keeper.close()
    ended = {found.pid for found in started_here()} == {child}
    os.kill(child, signal.SIGKILL)
    tell(ended=ended)


async def closer() -> None:
    """Keeps a program that has closed every file it does not need, as daemons do."""
    keeper = Keeper()
    script = "import os, signal; os.closerange(3, 1000); print('ready', flush=True); signal.pause()"
    tree = await keeper.spawn(Command((sys.executable, "-I", "-S", "-c", script)))
    await tree.readline()
    assert tree.keeper is not None
    tell(keepers=[keeper.pid, tree.keeper.pid], leaders=[tree.pid])
    await asyncio.Event().wait()


async def stopped() -> None:
    """Keeps a tree that has stopped its own stub."""
    keeper = Keeper()
    tree = await plant(keeper, "(setsid sleep 1000 &) ; kill -STOP $PPID; echo ready; sleep 1000")
    tell(pids=[use.pid for use in tree.processes()])
    await asyncio.Event().wait()


async def overfull() -> None:
    """Has more files on their way through sockets than it may, so that none can be sent to the zygote, while it keeps a tree."""
    with Keeper() as keeper:
        tree = await keeper.spawn(Command(("cat",)))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        one, other = socket.socketpair()
        with one, other:
            socket.send_fds(one, [b"many"], [0] * 100)
            refused = await asyncio.gather(keeper.spawn(Command(("true",))), return_exceptions=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await tree.write(b"still here\n")
        said = await tree.readline()
        await tree.end()
        tell(refused=str(refused[0]), said=said.decode())


async def starts(program: str) -> None:
    """Starts a program whose file does not open."""
    keeper = Keeper()
    spawning = asyncio.create_task(keeper.spawn(Command((program,))))
    await until(lambda: len(started_here()) == 3)
    tell(pids=[found.pid for found in started_here()])
    await spawning


async def execs() -> None:
    """Becomes another program, which keeps the pid."""
    keeper = Keeper()
    tree = await plant(keeper, HOSTILE["setsid"])
    tell(pids=[use.pid for use in tree.processes()])
    sys.stdin.readline()
    os.execv("/bin/sleep", ["sleep", "1000"])


async def spawn_for_ever() -> None:
    """Starts trees without an end, to be killed in the middle of it."""
    keeper = Keeper()
    started = 0

    async def one() -> None:
        nonlocal started
        await keeper.spawn(shell(HOSTILE["setsid"]))
        started += 1
        tell(started=started)

    tell(ready=True)
    while True:
        await asyncio.gather(*(one() for _ in range(4)))


async def confine(count: str) -> None:
    """Keep so many trees in sandboxes."""
    keeper = Keeper()
    trees = [await keeper.spawn(confined(HOSTILE["setsid"])) for _ in range(int(count))]
    for tree in trees:
        await tree.readline()
    tell(pids=[use.pid for tree in trees for use in tree.processes()])
    await asyncio.Event().wait()


async def confine_for_ever() -> None:
    """Starts trees in sandboxes without an end."""
    keeper = Keeper()

    async def one() -> None:
        await keeper.spawn(confined(HOSTILE["setsid"]))
        tell(started=True)

    while True:
        await asyncio.gather(*(one() for _ in range(3)))


async def leases(path: str) -> None:
    """Holds a process and a directory, written down in a ledger."""
    ledger = SqliteLedger(path)
    processes, directories = ProcessManager(ledger), DirectoryManager(ledger)
    run = Borrower()
    process = (await processes.acquire(ProcessSpec(shell(HOSTILE["setsid"]), handshake=greet), run)).resource
    folder = (await directories.acquire(DirectorySpec(), run)).resource
    assert process.keeper is not None
    stub = process.keeper.pid
    (folder / "file").write_text("x")
    (zygote,) = [found.pid for found in started_here() if "holdfast-keeper" in found.command and found.pid != stub]
    pids = [use.pid for use in process.processes()]
    tell(pids=pids, leader=process.pid, keepers=[zygote, stub], folder=str(folder), run=run.id)
    await asyncio.Event().wait()


async def group() -> None:
    """Keeps trees that fork, hide and dodge, and ends them when told to."""
    logged = _debug_lines()
    with Keeper() as keeper:
        trees = [await plant(keeper, HOSTILE[name]) for name in ("chain", "double_fork", "setsid", "hopper")]
        inside = [_groups_of(use.pid) for use in trees[2].processes()]
        pids = [use.pid for tree in trees for use in tree.processes()]
        tell(pids=pids, tags=[tree.tag for tree in trees], inside=inside, logged=logged)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(tree.end(0.05) for tree in trees))
        tell(gone=all(tree.is_gone for tree in trees))
    await asyncio.Event().wait()


async def abandon(count: str) -> None:
    """Twice so many runs with a chain each, abandoned; what they took, and what was left the second time."""
    runtime, manager = Runtime(), ProcessManager(MemoryLedger(), limits=Limits(total=int(count)))
    runtime.register(manager)
    measured = [await _abandoned(runtime, manager, int(count)) for _ in range(2)]
    tell(during=measured[1][0], left=[after - before for before, after in zip(*(m[1:] for m in measured), strict=True)])
    await runtime.aclose()


async def _abandoned(runtime: Runtime, manager: ProcessManager, count: int) -> list[int]:
    """Memory of the chains while they stand; then that of us and our keeper, our blocks, our files, and processes."""
    standing = asyncio.Semaphore(0)

    async def body(run: Run, number: int) -> None:
        await manager.acquire(ProcessSpec(shell(HEAVY_CHAIN), shaped_by=(number,), handshake=greet), run)
        standing.release()
        await asyncio.Event().wait()

    runs = [runtime.start(body, number) for number in range(count)]
    for _ in runs:
        await standing.acquire()
    during = sum(use.memory_bytes for held in manager.inventory() for use in held.processes)
    for run in runs:
        run.request_end(End(RunStatus.FAILED, "abandoned: step review, rule on_failure"))
    await asyncio.gather(*runs, return_exceptions=True)
    del runs
    gc.collect()
    processes = [os.getpid(), manager._keeper.pid or 0, *(found.pid for found in left(manager._keeper))]
    memory = sum(map(_pss, processes))
    return [during, memory, sys.getallocatedblocks(), len(os.listdir("/proc/self/fd")), len(processes)]


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _groups_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def _debug_lines() -> list[str]:
    """What is logged about control groups from now on."""
    lines: list[str] = []
    logger = logging.getLogger("holdfast.resources")
    logger.setLevel(logging.DEBUG)
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    return lines


async def greet(process: KeptProcess) -> None:
    await process.readline()


if __name__ == "__main__":
    programs: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
        "abandon": abandon,
        "closer": closer,
        "closes": closes,
        "confine_for_ever": confine_for_ever,
        "confined": confine,
        "execs": execs,
        "forks": forks,
        "group": group,
        "hold": hold,
        "leases": leases,
        "overfull": overfull,
        "spawn_for_ever": spawn_for_ever,
        "starts": starts,
        "stopped": stopped,
        "unwinds": unwinds,
    }
    asyncio.run(programs[sys.argv[1]](*sys.argv[2:]))
