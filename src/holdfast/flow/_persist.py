"""`@persist`: a flow's state is saved as its methods complete, and found again by its id. Nothing else is recorded."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from msgspec import Struct

from holdfast import stores
from holdfast.context import position
from holdfast.deltas import plain
from holdfast.errors import FlowDefinitionError, NotStorableError, StorageError
from holdfast.graph._cell import SharedState
from holdfast.home import find_home, make_home
from holdfast.kickoff._secrets import restore_saved
from holdfast.ports import FlowPersistence
from holdfast.runs import Run

if TYPE_CHECKING:
    from holdfast.stores import SqlitePersistence

T = TypeVar("T", bound=Callable[..., Any])
NOTE = "__holdfast_persist__"


class PersistNote(Struct, frozen=True):
    """What the decorator says of a class or a method."""

    backend: FlowPersistence | None
    """None for the default one"""


class PersistPlan(Struct, frozen=True):
    """What a flow class saves, and where."""

    backend: FlowPersistence | None
    methods: frozenset[str]


@overload
def persist(target: T) -> T: ...
@overload
def persist(
    target: FlowPersistence | None = None, *, persistence: FlowPersistence | None = None
) -> Callable[[T], T]: ...
def persist(target: Any = None, *, persistence: FlowPersistence | None = None) -> Any:
    """Save a flow's state after each method that completes (on the class), or after one (on that method).

    `kickoff(inputs={"id": …})` then begins with the state that was saved last under that id; an id that is not known begins
    a new one. States go to `persistence`, else to an SQLite file in the project's `.holdfast/`. Raises FlowDefinitionError for
    what it cannot mean.
    """
    if _is_ours(target):
        return _noted(target, PersistNote(persistence))
    backend = persistence if target is None else target
    if backend is not None and (inspect.isclass(backend) or not isinstance(backend, FlowPersistence)):
        raise FlowDefinitionError(
            f"@persist belongs on a Flow class or on one of its methods, with a backend or none; {backend!r} is neither: "
            "a backend is an object with save_state, load_state and close"
        )
    return lambda decorated: _noted(decorated, PersistNote(backend))


def _is_ours(target: object) -> bool:
    return inspect.isfunction(target) or (inspect.isclass(target) and hasattr(target, "kickoff"))


def _noted(target: T, note: PersistNote) -> T:
    if not _is_ours(target):
        raise FlowDefinitionError(f"@persist belongs on a Flow class or on one of its methods, not on {target!r}")
    setattr(target, NOTE, note)
    return target


def plan_of(cls: type, steps: Collection[str]) -> PersistPlan | None:
    """What the decorators of a class and its bases amount to. Raises FlowDefinitionError if they contradict each other."""
    notes = {
        name: note
        for base in reversed(cls.__mro__)
        for name, value in vars(base).items()
        if inspect.isfunction(value) and isinstance(note := getattr(value, NOTE, None), PersistNote)
    }
    for name in notes:
        if name not in steps:
            raise FlowDefinitionError(
                f"{cls.__name__}.{name} has @persist, but nothing triggers it: add @start or @listen"
            )
    whole: PersistNote | None = getattr(cls, NOTE, None)
    if whole is None and not notes:
        return None
    backends = {
        id(note.backend): note.backend for note in (whole, *notes.values()) if note and note.backend is not None
    }
    if len(backends) > 1:
        raise FlowDefinitionError(f"{cls.__name__} names several backends for @persist; a flow has one")
    everything = frozenset(steps if whole is not None else notes)
    return PersistPlan(next(iter(backends.values()), None), everything)


class Saving:
    """Saves the state of one run."""

    def __init__(self, flow_name: str, plan: PersistPlan, backend: FlowPersistence) -> None:
        self._flow_name = flow_name
        self._methods = plan.methods
        self._backend = backend

    @classmethod
    def begin(cls, run: Run, flow_name: str, plan: PersistPlan | None) -> Saving | None:
        """What a run of a flow needs; None for a flow that saves nothing. The run holds the default backend."""
        if plan is None:
            return None
        return cls(flow_name, plan, plan.backend or DefaultBackend.lend(run))

    def reload(self, fresh: Any, inputs: Mapping[str, Any]) -> Any:
        """The state saved last under the id among the inputs, of the kind of a fresh one; else that fresh one."""
        if not (state_id := str(inputs.get("id") or "")):
            return fresh
        try:
            stored = self._backend.load_state(state_id)
        except Exception as error:
            raise self._broken(f"state {state_id} could not be loaded from", error) from error
        return fresh if stored is None else restore_saved(fresh, stored)

    def completed(self, cell: SharedState) -> None:
        """The step that this code stands in has completed: save what is committed, if its method says so."""
        method = (position.get().step_id or "").rpartition("#")[0]
        if method in self._methods:
            try:
                committed = plain(cell.committed())
            except NotStorableError as error:
                error.trace_to(method, "left in the state")
                raise
            self._save(method, committed)

    def _save(self, method: str, state: dict[str, Any]) -> None:
        if not (state_id := str(state.get("id") or "")):
            raise StorageError(
                f"{self._flow_name}: {method} left the state without its id, so it cannot be saved under it"
            )
        try:
            self._backend.save_state(state_id, method, state)
        except Exception as error:
            raise self._broken(f"{method} completed, but state {state_id} could not be saved by", error) from error

    def _broken(self, what: str, error: Exception) -> StorageError:
        return StorageError(f"{self._flow_name}: {what} {self._backend!r}: {type(error).__name__}: {error}")


class DefaultBackend:
    """The SQLite file of a project, open while runs use it and shared by them."""

    users: ClassVar[dict[Path, tuple[SqlitePersistence, int]]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def lend(cls, run: Run) -> SqlitePersistence:
        """The backend, given back when the run ends."""
        path = (find_home() or make_home()) / "states.db"
        with cls.lock:
            backend, count = cls.users.get(path) or (stores.SqlitePersistence(path), 0)
            cls.users[path] = backend, count + 1
        run.hold("file", str(path), lambda: cls._give_back(path))
        return backend

    @classmethod
    def _give_back(cls, path: Path) -> None:
        with cls.lock:
            backend, count = cls.users.pop(path)
            if count > 1:
                cls.users[path] = backend, count - 1
            else:
                backend.close()
