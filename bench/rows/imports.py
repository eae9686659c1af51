"""What `import holdfast` costs: a whole interpreter from start to exit, and its peak memory."""

import sys
from collections.abc import Callable
from pathlib import Path

from bench._harness import PeerError, Row, compare, median_of, peer_python, run_python, say, seconds

RUNS = 11
MAX_SECONDS = 0.25
MAX_MB = 50
# The kernel's own peak for this program alone; a parent's getrusage would include the parent.
PEAK = "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))"


def measure_import() -> list[Row]:
    """Measure Holdfast, crewAI where it can be installed, and an interpreter that imports nothing."""
    ours = Path(sys.executable)
    peers: dict[str, tuple[float, float]] = {}
    try:
        peers["crewai"] = _cost(peer_python("crewai"), "import crewai", runs=3)
    except PeerError as error:
        say(f"no figures for crewai: {error}")
    time_taken, memory = _cost(ours, "import holdfast", runs=RUNS)
    # The package loads lazily, so the fair match for a peer's import is every public name loaded.
    whole_time, whole_memory = _cost(ours, "from holdfast import *", runs=RUNS)
    bare_time, bare_memory = _cost(ours, "pass", runs=RUNS)
    times = {name: cost[0] for name, cost in peers.items()}
    memories = {name: cost[1] for name, cost in peers.items()}
    return [
        compare(
            "import time",
            "s",
            time_taken,
            better="lower",
            peers=times,
            limit=bare_time,
            target=f"≤ {MAX_SECONDS} s",
            ok=time_taken <= MAX_SECONDS,
        ),
        compare(
            "import memory",
            "MB",
            memory,
            better="lower",
            peers=memories,
            limit=bare_memory,
            target=f"≤ {MAX_MB} MB",
            ok=memory <= MAX_MB,
        ),
        compare("import time, every public name", "s", whole_time, better="lower", peers=times, limit=bare_time),
        compare(
            "import memory, every public name", "MB", whole_memory, better="lower", peers=memories, limit=bare_memory
        ),
    ]


def _cost(python: Path, statement: str, *, runs: int) -> tuple[float, float]:
    """Return seconds and MB; the import is timed from the start of the process to its end."""
    time_taken = median_of(runs, lambda: seconds(lambda: run_python(python, statement)))
    kib = median_of(3, lambda: float(run_python(python, f"{statement}\n{PEAK}")))
    return time_taken, kib * 1024 / 1e6


ROWS: dict[str, Callable[[], list[Row]]] = {"import": measure_import}
