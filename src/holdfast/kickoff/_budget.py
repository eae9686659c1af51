"""Budgets: what a run and everything inside it may cost."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from msgspec import Struct, structs

from holdfast.checkpoints import Progress
from holdfast.errors import BudgetExceededError, UsageError
from holdfast.ports import Usage
from holdfast.runs import End, Run, RunStatus


class Budget(Struct, frozen=True, kw_only=True):
    """How much a run may use, with everything inside it. What is None is not limited.

    Before each model call the run's use so far is compared; the call that would come after the limit fails with
    BudgetExceededError, so a run may exceed it by the calls that were under way. What a run used before a crash counts, and
    its time begins anew. When the time is up, what is awaited is cancelled; a blocking method is let finish first.
    """

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_requests: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, most in structs.asdict(self).items():
            if most is not None and not most >= 0:  # NaN: nothing would ever reach it
                raise UsageError(f"Budget({name}={most!r}) limits nothing; give a number, 0 or more, or leave it out")

    def exceeded_by(self, used: Usage) -> str:
        """Which limit is reached, in words; empty if none is."""
        spent = used.priced_usd
        if self.max_cost_usd is not None and spent >= self.max_cost_usd:
            return f"it has cost ${spent:.4f}, and may cost ${self.max_cost_usd:.4f}"
        if self.max_tokens is not None and used.total_tokens >= self.max_tokens:
            return f"it has used {used.total_tokens} tokens, and may use {self.max_tokens}"
        if self.max_requests is not None and used.requests >= self.max_requests:
            return f"it has asked models {used.requests} times, and may ask {self.max_requests} times"
        return ""


def checked_budget(budget: Budget | None) -> Budget | None:
    """What `budget=` means. Raises UsageError for what limits nothing."""
    given: object = budget
    if not isinstance(given, Budget | None):
        raise UsageError(f"budget={given!r} says not of what: write Budget(max_cost_usd=…), or max_tokens, max_seconds")
    return budget


class Meter:
    """What one run and the runs inside it have used."""

    def __init__(self, name: str, budget: Budget | None, before: Progress | None) -> None:
        self.name = name
        self.budget = budget
        self.used = before.usage if before is not None else Usage()
        self.by_agent: dict[str, Usage] = {}
        """What each agent's own model calls used, by its role."""
        for use in before.agents.values() if before is not None else ():
            self._add(use.role, use.usage)

    def count(self, role: str, used: Usage) -> None:
        """Count what a model call of an agent used."""
        self.used += used
        self._add(role, used)

    def _add(self, role: str, used: Usage) -> None:
        self.by_agent[role] = self.by_agent.get(role, Usage()) + used

    def check(self) -> None:
        """Raises BudgetExceededError when nothing more may be used."""
        if self.budget is not None and (why := self.budget.exceeded_by(self.used)):
            raise BudgetExceededError(f"the budget of {self.name} is used up: {why}; give it a larger Budget to go on")


def meters_of(run: Run | None) -> list[Meter]:
    """The meters that what happens in a run counts for: its own and those of the runs around it."""
    found = []
    while run is not None:
        if isinstance(run.meter, Meter):
            found.append(run.meter)
        run = run.parent
    return found


def check_budgets(run: Run) -> None:
    """Raises BudgetExceededError if the run, or one around it, may use nothing more."""
    for meter in meters_of(run):
        meter.check()


def count_usage(run: Run, used: Usage) -> None:
    """Count what a model call used."""
    for meter in meters_of(run):
        meter.count(run.place.subject.agent_role or "", used)


def watch_time(run: Run, meter: Meter) -> Future[Any] | None:
    """End the run as failed when its time is up. Returns what to cancel when it is over."""
    budget = meter.budget
    if budget is None or budget.max_seconds is None:
        return None
    seconds = budget.max_seconds
    message = f"the time of {meter.name} is up: it may take {seconds:g} s; give it a larger Budget to go on"

    async def wait() -> None:
        try:
            await run.host.clock.sleep(seconds)
        except asyncio.CancelledError:
            return
        run.request_end(End(RunStatus.FAILED, "time is up", error=BudgetExceededError(message)))

    return run.host.loop_thread.submit(wait())
