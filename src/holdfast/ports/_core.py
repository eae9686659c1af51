"""The small ones: entities, leases, streams, the way to the default runtime."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from holdfast.errors import UsageError


@runtime_checkable
class Entity(Protocol):
    """A flow, crew, agent or bare run as a recording knows it: by an id of its own, never by `id()`."""

    @property
    def entity_id(self) -> str: ...
    @property
    def entity_type(self) -> str: ...


class Lease(Protocol):
    """Something a run holds and must give back: a process, a sandbox, a directory, a connection."""

    @property
    def kind(self) -> str:
        """What sort of thing it is, for the inventory: `process`, `directory`, …"""
        ...

    @property
    def name(self) -> str:
        """Which one it is."""
        ...

    async def release(self) -> None:
        """Give it back. Called once by `finish()`, again only if it was interrupted; raises if it could not."""
        ...


class Channel(Protocol):
    """A stream that a run writes to and closes when it ends."""

    async def close(self, status: str) -> None:
        """Send the last frame and end. Must not wait for a reader."""
        ...


class Recorded(Protocol):
    """A run tree that can be written into a file, from which another machine takes it up."""

    def checkpoint(self, directory: str | os.PathLike[str], branch: str | None = None) -> str:
        """Write it into a file in a directory, and say where."""
        ...

    async def acheckpoint(self, directory: str | os.PathLike[str], branch: str | None = None) -> str:
        """`checkpoint`, without blocking the loop."""
        ...


class Journal(Protocol):
    """A run tree's way into its store, as far as runs and their events need it."""

    state: Any
    """The `RuntimeState` that handlers are shown; None if there is none."""

    def record(self, event: Any) -> None:
        """Take down a durable event of the tree, in the order they are stamped. Must be quick: the bus waits."""
        ...

    def encoder(self, event_type: Any) -> Callable[[dict[str, Any]], bytes]:
        """What makes the stored form of the payload of such an event. The payload is ours, and whole."""
        ...

    def carry(self, changed: bytes) -> None:
        """What a step changed in the state: it belongs to the next event that this thread emits."""
        ...

    def write(
        self,
        tag: str,
        payload: bytes,
        changed: bytes | None,
        event_id: str,
        at_us: int,
        run_id: str,
        parent: str | None,
        cause: str | None,
        opener: str | None,
        origin: Any,
    ) -> Any:
        """`record` for an event that nobody hears, so none was built: its type, its stored form, its stamp. Returns its row."""
        ...

    def expect(self, event_ids: Sequence[str]) -> None:
        """Hear which ids the next such events will have, if nothing else is told before."""
        ...

    def show(self, unbuilt: Any) -> None:
        """Let handlers see such an event, as its class, its fields, its number, the id of the one before it, and its row."""
        ...

    async def commit_end(self, run_id: str, status: str) -> None:
        """Store what was taken down and the terminal status in one transaction, or raise and store neither."""
        ...


class DefaultRuntime:
    """How lower layers find their `Runtime` without importing it: `import holdfast` installs the way there.

    It is the runtime of the run that the caller belongs to; outside any run, the default one.
    """

    find: Callable[[], Any] | None = None

    @classmethod
    def get(cls) -> Any:
        if cls.find is None:
            raise UsageError("no default runtime is installed; `import holdfast` installs one")
        return cls.find()
