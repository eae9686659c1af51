"""`Deliverer`: empties the outbox. Killed at any moment, what it had is delivered by the next one, perhaps a second time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from types import TracebackType
from typing import Self

from msgspec import Struct

from holdfast.clock import Clock, SystemClock, check_seconds
from holdfast.errors import DeliveryError, DeliveryRefusedError, StorageError
from holdfast.hooks._addresses import show_target
from holdfast.hooks._sending import Sender
from holdfast.ids import IdFactory, new_id
from holdfast.logs import get_logger
from holdfast.ports import Delivery, JobStore, Outbox
from holdfast.service import Noticing, leave_alone

log = get_logger("hooks")

NOTICE_SECONDS = 0.2
"""How soon what other processes stored is noticed."""
PRUNE_SECONDS = 3600.0
DAY_US = 24 * 3600 * 1_000_000


class Rhythm(Struct, frozen=True):
    """How often, how much at once, and for how long."""

    places: int = 4
    """deliveries under way at once"""
    hold_seconds: float = 120.0
    """how long a claimed one is nobody else's; longer than a try may take"""
    first_seconds: float = 5.0
    """before the second try; each wait is twice the one before it"""
    longest_seconds: float = 3600.0
    attempts: int = 32
    """then it is dead: after about a day"""
    kept_days: int = 3
    """of what arrived"""
    dead_days: int = 30

    def __post_init__(self) -> None:
        check_seconds(
            hold_seconds=self.hold_seconds, first_seconds=self.first_seconds, longest_seconds=self.longest_seconds
        )

    def wait(self, attempts: int, chance: float) -> float:
        """Seconds until the next try, up to a quarter longer by chance: those that failed together do not come back together."""
        doubled: float = self.first_seconds * 2 ** min(attempts - 1, 40)
        return min(doubled, self.longest_seconds) * (1 + 0.25 * chance)


async def prune_outbox(outbox: Outbox, rhythm: Rhythm, *, now_us: int) -> int:
    """Forget what was settled long enough ago. Returns how many."""
    kept_us, dead_us = rhythm.kept_days * DAY_US, rhythm.dead_days * DAY_US
    return await outbox.prune(delivered_before_us=now_us - kept_us, dead_before_us=now_us - dead_us)


class Deliverer:
    """Delivers while it is open: `async with Deliverer(outbox, jobs, sender): …`. Several may share an outbox."""

    def __init__(
        self,
        outbox: Outbox,
        jobs: JobStore,
        sender: Sender,
        *,
        rhythm: Rhythm | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        ids: IdFactory = new_id,
    ) -> None:
        self._outbox, self._sender = outbox, sender
        self._rhythm = rhythm or Rhythm()
        self._clock: Clock = clock or SystemClock()
        self._chance, self._owner = chance, ids()
        self._noticing = Noticing(jobs, self._clock, NOTICE_SECONDS)
        self._under_way: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._next_prune = 0.0

    async def has_work(self) -> bool:
        """Whether something is still to be delivered, now or later."""
        return await self._outbox.next_due() is not None

    async def __aenter__(self) -> Self:
        self._serving = asyncio.create_task(self._serve(), name="deliverer")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait({self._serving})
        await self._sender.aclose()

    # -- serving ---------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            while True:
                try:
                    await self._noticing.changed(await self._round())
                except StorageError as error:
                    log.warning("the outbox cannot be used now, trying again: %s", error)
                    await leave_alone(self._clock)
                except Exception:  # whatever it is, it must not end all telling
                    log.exception("the outbox cannot be emptied, trying again")
                    await leave_alone(self._clock)
        finally:
            for task in self._under_way:
                task.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way)

    async def _round(self) -> float:
        """Begin what is due. Returns when to look again, if nothing happens before."""
        now, now_us = self._clock.monotonic(), self._now_us()
        if now >= self._next_prune:
            await prune_outbox(self._outbox, self._rhythm, now_us=now_us)
            self._next_prune = now + PRUNE_SECONDS
        if free := self._rhythm.places - len(self._under_way):
            until_us = now_us + int(self._rhythm.hold_seconds * 1e6)
            for claimed in await self._outbox.claim(self._owner, now_us=now_us, until_us=until_us, limit=free):
                self._begin(claimed)
        due_us = await self._outbox.next_due()
        if due_us is None or len(self._under_way) >= self._rhythm.places:
            return self._next_prune
        return min(self._next_prune, now + max(due_us - now_us, 0) / 1e6)

    def _begin(self, claimed: Delivery) -> None:
        task = asyncio.create_task(self._deliver(claimed), name=f"delivery {claimed.id}")
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._noticing.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s broke, and is tried again when its hold ends", task.get_name(), exc_info=error)

    # -- one delivery ----------------------------------------------------------------------------------------------

    async def _deliver(self, claimed: Delivery) -> None:
        try:
            problem = await self._try(claimed)
        except asyncio.CancelledError:  # leaving: whoever comes next need not wait for the hold to end
            await asyncio.shield(self._outbox.put_off(claimed, error="its deliverer left", next_us=self._now_us()))
            raise
        while True:
            try:
                await self._settle(claimed, problem)
                return
            except StorageError as error:
                log.warning("what became of delivery %s cannot be stored now, trying again: %s", claimed.id, error)
                await leave_alone(self._clock)

    async def _try(self, claimed: Delivery) -> DeliveryError | None:
        try:
            await self._sender.send(claimed.id, claimed.target, claimed.body)
        except DeliveryError as problem:
            return problem
        return None

    async def _settle(self, claimed: Delivery, problem: DeliveryError | None) -> None:
        now_us = self._now_us()
        if problem is None:
            await self._outbox.delivered(claimed, now_us=now_us)
        elif isinstance(problem, DeliveryRefusedError) or claimed.attempts >= self._rhythm.attempts:
            log.warning("delivery %s to %s is given up: %s", claimed.id, show_target(claimed.target), problem)
            await self._outbox.give_up(claimed, error=str(problem), now_us=now_us)
        else:
            wait_us = int(self._rhythm.wait(claimed.attempts, self._chance()) * 1e6)
            await self._outbox.put_off(claimed, error=str(problem), next_us=now_us + wait_us)

    def _now_us(self) -> int:
        return self._clock.time_ns() // 1000
