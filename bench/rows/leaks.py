"""What a run leaves behind: nothing. Counted over a hundred thousand of them, in a process of their own."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

from bench._harness import BENCH, Row

RUNS = 100_000
WARM_UP = 5_000
MAX_BLOCKS = 5.0


def count_what_is_left() -> dict[str, dict[str, float]]:
    """Runs of both kinds, and what grew: objects the collector sees, and blocks of the allocator, per 1,000 runs."""
    import asyncio

    from holdfast import Run, Runtime

    def plain(run: Run) -> int:
        return len("x" * 1024)

    async def awaiting(run: Run) -> int:
        await asyncio.sleep(0)
        return len("x" * 1024)

    def growth(work: object, runs: int) -> dict[str, float]:
        assert callable(work)
        work(WARM_UP)
        before = _counts()
        work(runs)
        objects, blocks = (after - first for first, after in zip(before, _counts(), strict=True))
        return {"objects": objects / runs * 1000, "blocks": blocks / runs * 1000}

    with Runtime() as runtime:

        def sync_runs(times: int) -> None:
            for _ in range(times):
                runtime.run(plain)

        async def many(times: int) -> None:
            for _ in range(times):
                await runtime.arun(awaiting)

        async def async_growth() -> dict[str, float]:
            await many(WARM_UP)
            before = _counts()
            await many(RUNS)
            objects, blocks = (after - first for first, after in zip(before, _counts(), strict=True))
            return {"objects": objects / RUNS * 1000, "blocks": blocks / RUNS * 1000}

        return {"plain": growth(sync_runs, RUNS), "async": asyncio.run(async_growth())}


def _counts() -> tuple[int, int]:
    for _ in range(3):
        gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


def measure_leaks() -> list[Row]:
    """Growth over 10⁵ runs of each kind."""
    code = "import json; from bench.rows.leaks import count_what_is_left; print(json.dumps(count_what_is_left()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCH.parent, check=True, capture_output=True, text=True, timeout=600
    )
    rows = []
    for kind, growth in json.loads(done.stdout).items():
        rows += [
            Row(f"objects left per 1,000 {kind} runs", "objects", round(growth["objects"], 3), limit=0.0,
                target="0", ok=abs(growth["objects"]) < 0.05),
            Row(f"blocks left per 1,000 {kind} runs", "blocks", round(growth["blocks"], 3), limit=0.0,
                target=f"< {MAX_BLOCKS:.0f}", ok=growth["blocks"] < MAX_BLOCKS),
        ]  # fmt: skip
    return rows


ROWS = {"leaks": measure_leaks}
