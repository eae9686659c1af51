"""What every row uses: the row itself, timing helpers, and peers in environments of their own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

BENCH = Path(__file__).resolve().parent
VENVS = BENCH / ".venvs"
PEERS = BENCH / "peers"
PEER_SECONDS = 60
INSTALL_SECONDS = 900

# A peer measures itself, and talks to nobody.
QUIET_PEER = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "LANGSMITH_TRACING": "false",
    "OTEL_SDK_DISABLED": "true",
}


class PeerError(Exception):
    """A peer could not be installed or run; the message ends with what it printed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured line of the table."""

    name: str
    unit: str
    holdfast: float
    peers: dict[str, float] = field(default_factory=dict)
    limit: float | None = None
    """What this machine gives when nothing is done at all: the best anyone could reach."""
    ratio: float | None = None
    """How many times better than the best peer; under 1 is worse."""
    target: str = ""
    ok: bool | None = None
    """Whether the target is met; None when there is none."""


def compare(
    name: str,
    unit: str,
    holdfast: float,
    *,
    better: Literal["higher", "lower"],
    peers: Mapping[str, float],
    limit: float | None = None,
    target: str = "",
    ok: bool | None = None,
) -> Row:
    """Make a row and work out its ratio to the best peer."""
    ratio = None
    if peers and holdfast:
        ratio = holdfast / max(peers.values()) if better == "higher" else min(peers.values()) / holdfast
    return Row(name, unit, holdfast, dict(peers), limit, ratio, target, ok)


def say(text: str) -> None:
    """Show progress on stderr, so that stdout stays the table."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def seconds(call: Callable[[], object]) -> float:
    """Time one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def best_of(runs: int, call: Callable[[], float]) -> float:
    """Return the smallest of several figures: the right one for a time on a noisy machine."""
    return min(call() for _ in range(runs))


def median_of(runs: int, call: Callable[[], float]) -> float:
    """Return the median of several figures, after one that is thrown away to warm the caches."""
    call()
    return statistics.median(call() for _ in range(runs))


def run_python(python: Path, code: str, *, cwd: Path | None = None) -> str:
    """Run a line of Python in a fresh interpreter and return what it printed."""
    command = [str(python), "-c", code]
    done = subprocess.run(
        command, cwd=cwd, env=peer_environment(), check=False, capture_output=True, text=True, timeout=PEER_SECONDS
    )
    if done.returncode != 0:
        raise PeerError(f"{python} -c {code!r} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def peer_environment() -> dict[str, str]:
    """Return the environment of a measured process: ours, without what would change how Python starts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | QUIET_PEER


def peer_python(name: str) -> Path:
    """Return the interpreter of a peer's environment, made from `peers/<name>.txt` when missing or out of date.

    Raises PeerError when it cannot be installed.
    """
    requirements = PEERS / f"{name}.txt"
    wanted = hashlib.sha256(requirements.read_bytes() + str(VENVS).encode()).hexdigest()
    venv = VENVS / name
    stamp = venv / ".complete"
    python = venv / "bin" / "python"
    if stamp.is_file() and stamp.read_text() == wanted and python.exists():
        return python
    say(f"installing {name} into {venv.relative_to(BENCH.parent)} (minutes, once)")
    shutil.rmtree(venv, ignore_errors=True)
    _install(sys.executable, "-m", "venv", str(venv))
    # The list is complete, so pip has nothing to resolve.
    _install(str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(requirements))
    stamp.write_text(wanted)
    return python


def peer(name: str, script: str, *arguments: str) -> dict[str, Any]:
    """Run `peers/<script>` in the environment of a peer, in a folder of its own, and return the JSON object on its last line.

    Raises PeerError when it cannot be installed, fails, or takes longer than PEER_SECONDS.
    """
    python = peer_python(name)
    say(" ".join(["running", script, *arguments]))
    with tempfile.TemporaryDirectory() as home:
        command = [str(python), str(PEERS / script), *arguments]
        environment = peer_environment() | {"HOME": home, "XDG_DATA_HOME": home}
        try:
            done = subprocess.run(
                command, cwd=home, env=environment, check=False, capture_output=True, text=True, timeout=PEER_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"{script} took longer than {PEER_SECONDS} s") from error
    if done.returncode != 0:
        raise PeerError(f"{script} failed:\n{done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _install(*command: str) -> None:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=INSTALL_SECONDS
    )
    if done.returncode != 0:
        raise PeerError(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
