"""Jobs with hooks, their outbox, and a deliverer with a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.hooks import Deliverer, HookSettings, Patience, Rhythm, Sender, read_hooks
from holdfast.ports import Delivery, Job, JobStatus
from holdfast.stores import SqliteJobs, SqliteOutbox, SqliteStore
from holdfast.testing import ManualClock
from holdfast.testing._job_base import moved, running
from holdfast.testing._outbox_base import written


class Post:
    """A project whose `holdfast.toml` is given. Close it."""

    def __init__(self, folder: Path, toml: str) -> None:
        self.folder, self.home = folder, folder / ".holdfast"
        self.home.mkdir(exist_ok=True)
        (self.home / "holdfast.toml").write_text(toml)
        self.settings: HookSettings = read_hooks(self.home)
        self.store = SqliteStore(self.home / "holdfast.db")
        self.jobs = SqliteJobs.beside(self.store, hooks=self.settings.subscriptions)
        self.outbox = SqliteOutbox.beside(self.store, hooks=self.settings.subscriptions)
        self.clock = ManualClock()

    async def ended(self, target: JobStatus = JobStatus.COMPLETED, **changes: Any) -> Job:
        """A job that ended so."""
        return await moved(self.jobs, await running(self.jobs, **changes), target)

    def deliverer(
        self,
        *,
        environ: dict[str, str] | None = None,
        patience: Patience | None = None,
        outbox: SqliteOutbox | None = None,
        **rhythm: Any,
    ) -> Deliverer:
        sender = Sender(
            self.settings, self.home, self.folder, clock=self.clock, environ=environ or {"PATH": "/usr/bin:/bin"},
            patience=patience,
        )  # fmt: skip
        return Deliverer(
            outbox or self.outbox, self.jobs, sender, rhythm=Rhythm(**rhythm), clock=self.clock, chance=lambda: 0.0
        )

    async def until(self, check: Callable[[list[Delivery]], bool]) -> list[Delivery]:
        """All deliveries, once they are so. What is looked at is written by another task, and gives no signal."""
        found = await written(self.outbox)
        while not check(found):
            await asyncio.sleep(0.005)
            found = await written(self.outbox)
        return found

    async def settled(self, status: str = "delivered") -> list[Delivery]:
        """All deliveries, once each is so."""
        return await self.until(lambda found: bool(found) and all(one.status == status for one in found))

    async def tried(self, attempts: int) -> Delivery:
        """The first delivery, once it was put off so often."""
        held_us = self.clock.time_ns() // 1000 + 100_000_000  # one that is being tried is due at the end of its hold

        def is_put_off(found: list[Delivery]) -> bool:
            return found[0].attempts == attempts and bool(found[0].error) and (found[0].next_us or held_us) < held_us

        return (await self.until(is_put_off))[0]


def hook(url: str = "", *, name: str = "one", on: str = '"completed", "failed", "paused"', more: str = "") -> str:
    target = f'url = "{url}"\n' if url else ""
    return f"[hooks.{name}]\non = [{on}]\n{target}{more}\n"
