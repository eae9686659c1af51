"""What a run holds: steps in flight, child runs, leases, streams. One place to count them, one lock around them."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.context import is_async_callable
from holdfast.errors import RunEndedError
from holdfast.ports import Channel, Lease
from holdfast.threads import ThreadPool, done_here

if TYPE_CHECKING:
    from holdfast.runs._run import Run
    from holdfast.runs._steps import Step


EVERYTHING = frozenset({"work", "leases"})


class Holding(Struct, frozen=True):
    """One line of an inventory: something a run holds."""

    kind: str
    """`step`, `run`, `thread`, or the kind of a lease"""
    name: str
    run_id: str


class CallbackLease:
    """A lease made of a function, sync or async, that gives the thing back."""

    def __init__(self, kind: str, name: str, release: Callable[[], object], threads: ThreadPool) -> None:
        self.kind = kind
        self.name = name
        self._release = release
        self._threads = threads

    async def release(self) -> None:
        if is_async_callable(self._release):
            given_back = self._release()
        else:  # in a thread: it may block, and must not take longer than the run has
            releasing = self._threads.submit(copy_context(), self._release)
            await done_here(releasing)
            given_back = releasing.result()
        if inspect.isawaitable(given_back):
            await given_back


class Holdings:
    """The things themselves. Once closed it takes nothing more, so that nothing can slip in behind `finish()`."""

    def __init__(self, run_id: str, run_name: str) -> None:
        self._run_id = run_id
        self._run_name = run_name
        self._lock = threading.Lock()
        self._closed_to: frozenset[str] = frozenset()
        self._steps: dict[str, Step] = {}
        self._children: dict[str, Run] = {}
        self._leases: list[Lease] = []
        self._channels: list[Channel] = []

    @property
    def steps(self) -> list[Step]:
        with self._lock:
            return list(self._steps.values())

    @property
    def children(self) -> list[Run]:
        with self._lock:
            return list(self._children.values())

    @property
    def leases(self) -> list[Lease]:
        """Newest first: what was built on another thing is released before it."""
        with self._lock:
            return self._leases[::-1]

    @property
    def channels(self) -> list[Channel]:
        with self._lock:
            return list(self._channels)

    @property
    def at_work(self) -> bool:
        """Whether a step or a child run is in flight."""
        return bool(self._steps or self._children)

    @property
    def takes_no_work(self) -> bool:
        """Whether the run is to end: no step and no child run can begin any more."""
        return "work" in self._closed_to

    def add_step(self, step: Step) -> None:
        with self._lock:
            self._refuse("start a step of", "work")
            self._steps[step.id] = step

    def add_child(self, child: Run) -> None:
        with self._lock:
            self._refuse("start a run inside", "work")
            self._children[child.id] = child

    def add_lease(self, lease: Lease) -> None:
        with self._lock:
            self._refuse("hold something in", "leases")
            self._leases.append(lease)

    def add_channel(self, channel: Channel) -> None:
        with self._lock:
            self._refuse("stream from", "leases")
            self._channels.append(channel)

    def remove_step(self, step: Step) -> None:
        with self._lock:
            self._steps.pop(step.id, None)

    def remove_child(self, child: Run) -> None:
        with self._lock:
            self._children.pop(child.id, None)

    def remove_lease(self, lease: Lease) -> None:
        with self._lock:
            if lease in self._leases:
                self._leases.remove(lease)

    def close_to(self, *what: str) -> None:
        """Take no more `work` (steps, child runs), or no more `leases` (and streams)."""
        with self._lock:
            self._closed_to |= frozenset(what)

    def close_if_quiet(self, body: Step | None) -> bool:
        """Take nothing more, if nothing is held but the body. Says whether that was so."""
        with self._lock:
            alone = not self._steps or (body is not None and self._steps.keys() == {body.id})
            if not alone or self._children or self._leases or self._channels:
                return False
            self._closed_to = EVERYTHING
            return True

    def drop(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed_to = EVERYTHING
            self._steps, self._children, self._leases, self._channels = {}, {}, [], []

    def inventory(self) -> list[Holding]:
        """Everything held now, the runs inside included."""
        with self._lock:
            held = [Holding("step", step.name, self._run_id) for step in self._steps.values()]
            held += [Holding(lease.kind, lease.name, self._run_id) for lease in self._leases]
            children = list(self._children.values())
        for child in children:
            held += [Holding("run", child.name or child.id, self._run_id), *child.inventory()]
        return held

    def _refuse(self, what: str, kind: str) -> None:
        if kind in self._closed_to:
            raise RunEndedError(f"cannot {what} run {self._run_name or self._run_id}: it is ending or has ended")
