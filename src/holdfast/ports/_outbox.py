"""The outbox: what is to be told of jobs, to whom, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, get_args

from msgspec import Struct

HookEvent = Literal["approval_needed", "waiting", "paused", "step_completed", "completed", "failed", "cancelled"]
"""What is told of: that a job needs approval, needs something new from outside, starts no more steps; that a step of its own
flow gave its result; and how it ended."""
HOOK_EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)

DeliveryStatus = Literal["pending", "delivered", "dead"]
HOOK, WEBHOOK = "hook:", "webhook:"
"""How a target begins: a hook of the project by its name, or an address that a job was submitted with."""


class Subscription(Struct, frozen=True):
    """Which events of which jobs a target is told of."""

    target: str
    on: frozenset[HookEvent]
    flow: str = "*"
    """the flow's name, or a pattern with `*`"""


class Delivery(Struct, frozen=True):
    """One event for one target: a row of the outbox."""

    id: str
    """the same however often it is delivered: receivers go by it to act once"""
    job_id: str
    event: HookEvent
    target: str
    """`hook:NAME` or `webhook:ADDRESS`"""
    body: bytes
    """JSON: what is told"""
    created_us: int
    status: DeliveryStatus = "pending"
    attempts: int = 0
    """how often somebody began to deliver it"""
    next_us: int | None = None
    """when it may be claimed; None if never: it is settled, or an earlier one of the same job and target comes first"""
    error: str = ""
    """what went wrong the last time"""
    owner: str = ""
    """who claimed it last"""
    settled_us: int | None = None


class DeliveryQuery(Struct, frozen=True):
    """Which deliveries to list, newest first. Every condition given must hold."""

    statuses: tuple[DeliveryStatus, ...] = ()
    job_id: str = ""
    limit: int = 100


class Backlog(Struct, frozen=True):
    """How many deliveries there are, and how far behind they are."""

    pending: int
    failing: int
    """of the pending ones, those that did not arrive when they were tried last"""
    delivered: int
    dead: int
    oldest_us: int | None
    """since when the oldest of the pending ones is to be told; None if there is none"""


class Outbox(Protocol):
    """Where deliveries are kept, beside the jobs that they tell of.

    Rows are written by the job store, in the transaction that changes the job: a change is told of if and only if it is stored.
    Of steps they are written by `claim` and by the job's next change of status, from the job's journal, together with how far
    that was read: each step once.

    What one call writes is stored as a whole or not at all. Each raises StoreUnavailableError when the storage cannot be used.
    """

    async def claim(self, owner: str, *, now_us: int, until_us: int, limit: int) -> list[Delivery]:
        """Take up to `limit` deliveries that are due, those due longest first. Nobody else gets them before `until_us`.

        Deliveries of one job to one target are given out in the order of what happened: a later one when the earlier one is
        delivered or dead.
        """
        ...

    async def next_due(self) -> int | None:
        """When the next delivery may be claimed; None if there is none to be delivered."""
        ...

    async def delivered(self, claimed: Delivery, *, now_us: int) -> bool:
        """It arrived. False if it is this claim's no longer: the hold ran out, and another has it."""
        ...

    async def put_off(self, claimed: Delivery, *, error: str, next_us: int) -> bool:
        """It did not arrive, and may be claimed again at `next_us`. False as above."""
        ...

    async def give_up(self, claimed: Delivery, *, error: str, now_us: int) -> bool:
        """It will not arrive: it is dead, and those behind it may go. False as above."""
        ...

    async def retry(self, delivery_id: str, *, now_us: int) -> bool:
        """Make one that is dead or put off due now; its attempts are counted anew. False if there is none, or it arrived."""
        ...

    async def delivery(self, delivery_id: str) -> Delivery | None: ...

    async def deliveries(self, query: DeliveryQuery) -> list[Delivery]: ...

    async def backlog(self) -> Backlog:
        """What is kept now, counted: settled ones are in it until they are pruned."""
        ...

    async def prune(self, *, delivered_before_us: int, dead_before_us: int) -> int:
        """Forget those that were settled before. Returns how many."""
        ...

    async def aclose(self) -> None: ...


Subscriptions = Sequence[Subscription]
