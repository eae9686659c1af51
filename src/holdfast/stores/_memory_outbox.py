"""`MemoryOutbox`: what is to be told of jobs, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from holdfast.ports import Backlog, Delivery, DeliveryQuery, DeliveryStatus, Job, JobStatus
from holdfast.stores import _outbox_rules as rules
from holdfast.stores._closing import Closing
from holdfast.stores._memory import MemoryStore
from holdfast.stores._memory_jobs import MemoryJobs


class MemoryOutbox(Closing):
    """The outbox of jobs in memory, which it hears of from now on."""

    def __init__(self, jobs: MemoryJobs, journal: MemoryStore | None = None) -> None:
        self._jobs, self._journal, self._telling = jobs, journal, jobs.telling
        self._rows: dict[str, Delivery] = {}
        self._tails: dict[str, int] = {}
        jobs.listeners.append(self._hear)

    # -- what the job store tells ----------------------------------------------------------------------------------

    def _hear(self, before: Job | None, job: Job, at_us: int) -> None:
        """A job was added or has changed. Called inside the change."""
        if not self._telling.hears(job.webhook):
            return
        if job.status is JobStatus.RUNNING and rules.follows_steps(job.flow, self._telling.subscriptions):
            self._tails.setdefault(job.id, self._head(job.id))
        if before is not None and before.status is JobStatus.RUNNING:
            self._tell_of_steps(job)
        if job.status.is_terminal:
            self._tails.pop(job.id, None)
        if (what := rules.happening(job, before.asks if before is not None else (), at_us)) is not None:
            self._tell(job, [what])

    def _head(self, job_id: str) -> int:
        return max((row.seq for row in self._journal.rows_now(job_id)), default=0) if self._journal else 0

    def _tell_of_steps(self, job: Job) -> None:
        if self._journal is None or job.id not in self._tails:
            return
        rows = [row for row in self._journal.rows_now(job.id) if row.seq > self._tails[job.id]]
        own = (row for row in rows if rules.is_own_step(row, job.id))
        steps = (rules.completed_step(row.payload, row.at_us, self._journal.blob_now) for row in own)
        self._tell(job, filter(None, steps))
        self._tails[job.id] = max((row.seq for row in rows), default=self._tails[job.id])

    def _tell(self, job: Job, happenings: Iterable[rules.Happening]) -> None:
        for what in happenings:
            for one in rules.deliveries(job, what, self._telling.subscriptions):
                waits = any(self._row_of(one))
                self._rows[one.id] = replace(one, next_us=None if waits else one.created_us)
                self._telling.has_told = True

    def _row_of(self, one: Delivery) -> Iterator[Delivery]:
        """Those that are to be delivered to the same target for the same job, in order."""
        for other in self._rows.values():
            if (other.status, other.job_id, other.target) == ("pending", one.job_id, one.target):
                yield other

    # -- what deliverers do ----------------------------------------------------------------------------------------

    async def claim(self, owner: str, *, now_us: int, until_us: int, limit: int) -> list[Delivery]:
        with self._jobs._alone():
            for job_id in [*self._tails]:
                if (job := self._jobs.job_now(job_id)) is not None:
                    self._tell_of_steps(job)
            due = [one for one in self._rows.values() if one.next_us is not None and one.next_us <= now_us]
            due.sort(key=lambda one: one.next_us or 0)
            claimed = [replace(one, owner=owner, attempts=one.attempts + 1, next_us=until_us) for one in due[:limit]]
            self._rows.update((one.id, one) for one in claimed)
            return claimed

    async def next_due(self) -> int | None:
        with self._jobs._alone():
            return min((one.next_us for one in self._rows.values() if one.next_us is not None), default=None)

    async def delivered(self, claimed: Delivery, *, now_us: int) -> bool:
        return self._settle(claimed, "delivered", now_us=now_us)

    async def put_off(self, claimed: Delivery, *, error: str, next_us: int) -> bool:
        return self._settle(claimed, "pending", error, next_us)

    async def give_up(self, claimed: Delivery, *, error: str, now_us: int) -> bool:
        return self._settle(claimed, "dead", error, now_us=now_us)

    def _settle(
        self,
        claimed: Delivery,
        status: DeliveryStatus,
        error: str = "",
        next_us: int | None = None,
        now_us: int | None = None,
    ) -> bool:
        with self._jobs._alone():
            found = self._rows.get(claimed.id)
            if found is None or (found.owner, found.attempts, found.status) != (
                claimed.owner, claimed.attempts, "pending",
            ):  # fmt: skip
                return False
            self._rows[found.id] = replace(found, status=status, error=error, next_us=next_us, settled_us=now_us)
            following = next(self._row_of(found), None)
            if status != "pending" and following is not None and following.next_us is None:
                self._rows[following.id] = replace(following, next_us=now_us)
            return True

    async def retry(self, delivery_id: str, *, now_us: int) -> bool:
        with self._jobs._alone():
            found = self._rows.get(delivery_id)
            if found is None or not (found.status == "dead" or found.next_us is not None):
                return False
            self._rows[delivery_id] = replace(
                found, status="pending", attempts=0, next_us=now_us, owner="", settled_us=None
            )
            return True

    async def delivery(self, delivery_id: str) -> Delivery | None:
        with self._jobs._alone():
            return self._rows.get(delivery_id)

    async def deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        with self._jobs._alone():
            found = [
                one
                for one in reversed(self._rows.values())
                if (not query.statuses or one.status in query.statuses) and query.job_id in ("", one.job_id)
            ]
            return found[: query.limit]

    async def backlog(self) -> Backlog:
        with self._jobs._alone():
            counts = Counter(one.status for one in self._rows.values())
            pending = [one for one in self._rows.values() if one.status == "pending"]
            return Backlog(
                len(pending), sum(bool(one.error) for one in pending), counts["delivered"], counts["dead"],
                min((one.created_us for one in pending), default=None),
            )  # fmt: skip

    async def prune(self, *, delivered_before_us: int, dead_before_us: int) -> int:
        bounds = {"delivered": delivered_before_us, "dead": dead_before_us}
        with self._jobs._alone():
            old = [
                one.id
                for one in self._rows.values()
                if one.settled_us is not None and one.settled_us < bounds.get(one.status, 0)
            ]
            for delivery_id in old:
                del self._rows[delivery_id]
            return len(old)

    def close(self) -> None:
        if self._hear in self._jobs.listeners:
            self._jobs.listeners.remove(self._hear)

    async def aclose(self) -> None:
        self.close()
