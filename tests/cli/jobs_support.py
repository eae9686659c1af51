"""The command inside this process, in a project of its own: as a user types it, without the cost of a new interpreter."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from holdfast.cli import main
from holdfast.ports import WorkerInfo
from holdfast.stores import SqliteJobs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "flows"


class Said(Struct, frozen=True):
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """`cli("run", "hello", "--wait")` in the project's folder."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capture = folder, capture
        self.database = folder / ".holdfast" / "holdfast.db"

    def __call__(self, *arguments: str) -> Said:
        self._capture.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["holdfast", *arguments])
            patch.delenv("HOLDFAST_HOME", raising=False)
            patch.setenv("COLUMNS", "120")
            patch.setenv("HOLDFAST_WORKER_IDLE_SECONDS", "10")
            with pytest.raises(SystemExit) as leaving:
                main()
        said = self._capture.readouterr()
        return Said(int(leaving.value.code or 0), said.out, said.err)

    def ok(self, *arguments: str) -> Said:
        said = self(*arguments)
        assert said.code == 0, said
        return said

    def flow(self, name: str, text: str) -> str:
        """Write a flow, and give its name."""
        (self.folder / "flows").mkdir(exist_ok=True)
        (self.folder / "flows" / f"{name}.flow.yaml").write_text(text)
        return name

    def submit(self, flow: str, *arguments: str) -> str:
        return self.ok("run", flow, "--async", *arguments).out.strip()

    def workers(self) -> list[WorkerInfo]:
        async def read() -> list[WorkerInfo]:
            async with SqliteJobs(self.database) as jobs:
                return await jobs.workers()

        return asyncio.run(read())

    def end_workers(self) -> None:
        """Have the detached workers leave, and wait until they have."""
        workers = self.workers() if self.database.exists() else []
        for worker in workers:
            with gone_is_fine():
                os.kill(worker.owner.process.pid, signal.SIGTERM)
        for worker in workers:
            with gone_is_fine():
                os.waitpid(worker.owner.process.pid, 0)  # in this process the detached worker is a child of the tests


def poll(check: Callable[[], object]) -> None:
    """Look again and again: what is looked at is another process's, and gives no signal."""
    while not check():
        time.sleep(0.01)


@contextmanager
def gone_is_fine() -> Iterator[None]:
    try:
        yield
    except (ProcessLookupError, ChildProcessError):
        return
