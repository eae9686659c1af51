"""Measure DBOS workflows; run in DBOS' own environment as `dbos_flows.py ROW …`, prints one JSON object.

The admin server is off and only errors are logged. On SQLite it keeps the rollback journal and `synchronous` at SQLite's defaults.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbos import DBOS

FILE = "sqlite:///dbos.sqlite"


@contextmanager
def launched(address: str = FILE) -> Iterator[None]:
    DBOS(config={"name": "bench", "system_database_url": address, "run_admin_server": False, "log_level": "ERROR"})
    DBOS.launch()
    try:
        yield
    finally:
        DBOS.destroy()


@DBOS.step()
def count(n: int) -> int:
    return n + 1


@DBOS.workflow()
def count_to(steps: int) -> int:
    n = 0
    while n < steps:
        n = count(n)
    return n


@DBOS.step()
async def count_async(n: int) -> int:
    return n + 1


@DBOS.workflow()
async def count_async_to(steps: int) -> int:
    n = 0
    while n < steps:
        n = await count_async(n)
    return n


@DBOS.step()
def find_news() -> str:
    return "x" * 1024


@DBOS.workflow()
def gather_news(steps: int) -> int:
    news: list[str] = []
    while len(news) < steps:
        news.append(find_news())
    return len(news)


def milliseconds_a_step(steps: int) -> float:
    started = time.perf_counter()
    assert count_to(steps) == steps
    return (time.perf_counter() - started) / steps * 1000


def measure_durable(steps: str, address: str = FILE) -> dict[str, float]:
    """The best of five runs, after one that is thrown away."""
    with launched(address):
        taken = [milliseconds_a_step(int(steps)) for _ in range(6)]
    return {"ms": min(taken[1:])}


def measure_growing(steps: str) -> dict[str, float]:
    with launched():
        started = time.perf_counter()
        assert gather_news(int(steps)) == int(steps)
        taken = time.perf_counter() - started
    weight = sum(file.stat().st_size for file in Path().glob("dbos.sqlite*"))
    return {"ms": taken / int(steps) * 1000, "mb": weight / 1e6}


def measure_crowd(runs: str, steps: str) -> dict[str, float]:
    """Steps a second: as threads, then as async workflows on one loop, which shuts DBOS' own executor down with it."""

    async def on_a_loop() -> None:
        handles = [await DBOS.start_workflow_async(count_async_to, int(steps)) for _ in range(int(runs))]
        assert [await handle.get_result() for handle in handles] == [int(steps)] * int(runs)

    def in_threads() -> None:
        handles = [DBOS.start_workflow(count_to, int(steps)) for _ in range(int(runs))]
        assert [handle.get_result() for handle in handles] == [int(steps)] * int(runs)

    figures = {}
    with launched():
        count_to(5)
        for name, work in {"threads": in_threads, "async": lambda: asyncio.run(on_a_loop())}.items():
            started = time.perf_counter()
            work()
            figures[name] = int(runs) * int(steps) / (time.perf_counter() - started)
    return figures


if __name__ == "__main__":
    row, *arguments = sys.argv[1:]
    print(json.dumps(globals()[f"measure_{row}"](*arguments)))
