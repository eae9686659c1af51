"""A durable run of ten thousand steps: how soon it goes on after it broke, and what it holds in memory on the way."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from bench._flows import Loop
from bench._harness import BENCH, Row
from holdfast.checkpoints import CheckpointConfig
from holdfast.stores import SqliteStore

STEPS = 10_000
SAMPLE = 1_000
SETTLED = 4_000
"""From here on memory should not grow, but for what happens once: the first heartbeat loads what it needs, 1.4 MB."""


class Breaking(Loop):
    """Breaks at its last step but one, until it is mended."""

    mended_at = 0.0
    went_on_at = 0.0

    def once(self) -> Literal["again", "done"]:
        if self.state.n == STEPS - 1:
            if not type(self).mended_at:
                raise ConnectionError("the network is down")
            type(self).went_on_at = time.perf_counter()
        return super().once()


class Sampled(Loop):
    """Looks at the process every so many steps."""

    samples: list[tuple[int, float, int]] = []  # noqa: RUF012 - one run a process

    def once(self) -> Literal["again", "done"]:
        if self.state.n % SAMPLE == 0:
            gc.collect()
            self.samples.append((self.state.n, _resident_mb(), sys.getallocatedblocks()))
        return super().once()


def _resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 / 1e6


def measure_resume() -> list[Row]:
    """From `kickoff(from_checkpoint=…)` to the first step that runs again."""
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "journal.db") as store:
        config = CheckpointConfig(store)
        with suppress(ConnectionError):
            Breaking(checkpoint=config).kickoff({"limit": STEPS})
        [broken] = asyncio.run(store.runs())
        Breaking.mended_at = time.perf_counter()
        Breaking(checkpoint=config).kickoff(from_checkpoint=broken.root_run_id)
    taken = Breaking.went_on_at - Breaking.mended_at
    return [Row("resuming a run of 10,000 steps", "s", taken, target="≤ 1 s", ok=taken <= 1)]


def sample_memory() -> list[tuple[int, float, int]]:
    """Steps done, resident megabytes and allocated blocks, of one long run in this process."""
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "journal.db") as store:
        Sampled(checkpoint=CheckpointConfig(store)).kickoff({"limit": STEPS + 1})
    return Sampled.samples


def measure_memory() -> list[Row]:
    """What a run of 10,000 steps gains in memory once it has warmed up. In a process of its own."""
    code = "import json; from bench.rows.long_flows import sample_memory; print(json.dumps(sample_memory()))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=BENCH.parent, check=True, capture_output=True, text=True, timeout=110)
    samples = [sample for sample in json.loads(done.stdout) if sample[0] >= SETTLED]
    _, megabytes, blocks = (last - first for first, last in zip(samples[0], samples[-1], strict=True))
    name = "gained by a durable run, steps 4,000 to 10,000"
    return [
        Row(f"memory {name}", "MB", round(megabytes, 3), limit=0.0, target="≤ 2 MB", ok=megabytes <= 2),
        Row(f"blocks {name}", "blocks", blocks, limit=0.0),
    ]


ROWS = {"resume": measure_resume, "memory": measure_memory}
