"""Programs that a test runs in processes of their own: `python -m tests.checkpoints.crash NAME …`."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.checkpoints.orders import World, finish_order

from holdfast import Runtime
from holdfast.checkpoints import JsonProvider, import_checkpoint
from holdfast.errors import RunUnrecordedError, StoreUnavailableError
from holdfast.ports import Batch, BranchInfo, Session
from holdfast.stores import SqliteStore
from holdfast.testing._journal_base import NOW, SECOND


class Countdown:
    """Kills the process after so many moments."""

    def __init__(self, moments: str) -> None:
        self.left = int(moments)

    def pass_one(self) -> None:
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


class MortalStore(SqliteStore):
    """Dies before one of its writes."""

    countdown: Countdown

    async def open(self, *args: Any, **changes: Any) -> Session:
        self.countdown.pass_one()
        return await super().open(*args, **changes)

    async def append(self, batch: Batch) -> None:
        self.countdown.pass_one()
        await super().append(batch)

    async def fork(self, *args: Any, **changes: Any) -> BranchInfo:
        self.countdown.pass_one()
        return await super().fork(*args, **changes)


def import_until(folder: str, moments: str) -> None:
    """Import a document, and die before the given write."""
    store = MortalStore(Path(folder) / "journal.db")
    store.countdown = Countdown(moments)
    asyncio.run(import_checkpoint(store, Path(folder, "document.json").read_bytes(), now_us=NOW + SECOND))
    store.close()


def write_until(directory: str, document: str, moments: str) -> None:
    """Write a document to a file, and die before the given call to the system."""
    countdown = Countdown(moments)

    def mortal(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **changes: Any) -> Any:
            countdown.pass_one()
            return call(*args, **changes)

        return wrapped

    provider, data = JsonProvider(directory), Path(document).read_bytes()
    for name in ("open", "fsync", "replace", "mkdir"):
        setattr(os, name, mortal(getattr(os, name)))
    provider.write(data)


def order_until_full(folder: str, limit: str) -> None:
    """Run an order where no file may grow beyond a limit, and say how that ended."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    order_on(folder, folder)


def order_without_rights(folder: str) -> None:
    """Go on with an order as a user who may read its journal only, and say how that ended."""
    os.setgid(65534)
    os.setuid(65534)
    order_on(folder, folder)


def order_on(disk: str, folder: str) -> None:
    """Run an order with its journal on one disk and its effects in a folder, and say how that ended if it was refused."""
    with SqliteStore(Path(disk) / "journal.db") as store, Runtime() as runtime:
        try:
            finish_order(store, World(Path(folder)), runtime)
        except (StoreUnavailableError, RunUnrecordedError) as error:
            sys.stdout.write(f"{type(error).__name__}: {error}\n")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
