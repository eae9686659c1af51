"""Owners of process trees, to be killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from holdfast.testing._audit import outlast

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def owner(
    *arguments: str, module: str = "tests.resources.owners", wrapper: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A process that owns trees, begun by a wrapper if there is one. Killed at the end, if it is not dead by then."""
    command = [*wrapper, sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the owner says next."""
    output: IO[str] | None = process.stdout
    assert output is not None
    said: dict[str, Any] = json.loads(output.readline())
    return said


def all_end(pids: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    return all(outlast(pid, deadline - time.monotonic()) for pid in pids)
