"""The state that a program's steps share: who works on it, and how the work of steps that overlapped is put together.

A step that nothing overlaps works on the state itself. Steps that overlap each get a copy of what is committed; when one
completes, what it changed is merged into what the others committed meanwhile. No step sees another's unfinished writes, and
no write is lost in silence: what cannot be put together is a StateConflictError.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

from holdfast.context import Position, standing
from holdfast.deltas import (
    WITHHELD,
    Delta,
    Merge,
    Shadow,
    apply,
    decode_plain,
    encode_plain,
    fields_of,
    live_value,
    locate,
    plain,
    reader_of,
    unveil,
    withheld_in,
)
from holdfast.errors import NotStorableError, RunEndedError, StateConflictError, UsageError


class View:
    """One step's own copy of the state, and what it was copied from."""

    def __init__(self, state: Any, base: dict[str, Any], commits: int) -> None:
        self.state = state
        self.base = base
        self.commits = commits
        """how many commits there were when it was made"""
        self.shadow = Shadow(fields_of(state))


class Changes(Struct, frozen=True):
    """What a step changed that could not be merged, and all that merging it later needs."""

    mine: bytes
    since: list[tuple[str, bytes]]
    """what other steps committed meanwhile"""
    base: bytes
    """the fields that these touch, as they were before"""

    def read(self) -> tuple[Delta, list[tuple[str, Delta]], dict[str, Any]]:
        """All three, decoded. Raises StorageError for what is none of them."""
        since = [(step, Delta.decode(delta)) for step, delta in self.since]
        return Delta.decode(self.mine), since, decode_plain(self.base)


class SharedState:
    """One state, and everyone who works on it. Safe for threads."""

    def __init__(
        self,
        state: Any,
        *,
        run_id: str | None = None,
        on_conflict: Literal["fail", "last"] = "fail",
        shadow: Shadow | None = None,
        rebuild: Callable[[Any, dict[str, Any]], Any] | None = None,
        kept: Mapping[str, Changes] | None = None,
        give_up: Callable[[NotStorableError], None] | None = None,
        hide: Callable[[Any, dict[str, Any]], object] = lambda state, stored: None,
    ) -> None:
        self._state = state
        self._kind: type | None = None
        self._read: Callable[[Any], dict[str, object]] = fields_of
        """What reads the fields of a state of that kind."""
        self._give_up = give_up
        """What is told that something cannot be stored, if that is not to fail the step."""
        self._rebuild = rebuild
        """Makes a state like another one from its plain form."""
        self._hide = hide
        """Makes secrets that were put back in a state hide themselves, where its type does not see to that."""
        self._kept = dict(kept or {})
        """What steps changed before the run was taken up again, and could not be merged then."""
        self._run_id = run_id
        self.alone: str | None = None
        """The step that nothing overlaps: it works on the state itself."""
        self._shadow = shadow
        """What was committed last, if somebody wants to know what each step changed."""
        self._merge = Merge(reducers_of(state), on_conflict)
        self._lock = threading.RLock()
        self._views: dict[str, View] = {}
        self._commits: list[tuple[str, Delta]] = []
        self._plain: dict[str, Any] = {}
        """the committed state, plain, while there are views"""

    def current(self) -> Any:
        """The state as the code that asks may see it: its step's own view, or the state itself.

        Raises RunEndedError for a step that is over, UsageError while several steps run and it cannot be told which asks.
        """
        return self.seen_from(standing())

    def seen_from(self, here: Position) -> Any:
        """`current`, for code that stands there."""
        if here.step_id == self.alone and here.run_id == self._run_id and self.alone is not None:
            return self._state  # as nearly always: every look at the state comes through here
        view = self._view(here)
        return self._state if view is None else view.state

    def replace(self, state: Any) -> None:
        """Put another state in its place, for the step that asks."""
        with self._lock:
            view = self._view(standing())
            if view is None:
                self._state = state
            else:
                view.state = state

    def _view(self, here: Position) -> View | None:
        """The view of the step that asks; None for the state itself."""
        if here.step_id is not None and here.run_id == self._run_id:
            if here.step_id == self.alone:
                return None
            if (view := self._views.get(here.step_id)) is not None:
                return view
            if "#" in here.step_id:
                raise RunEndedError(
                    f"step {here.step_id} is over; what it still reads or writes of the state is refused"
                )
        if self._views:
            raise UsageError(
                "several steps are running, and it cannot be told for which of them this code asks for the state: start a "
                "thread with holdfast.bind(), and give a run inside a step what it needs"
            )
        return None

    def committed(self) -> dict[str, Any]:
        """The fields as the steps that completed left them, without what others are writing. Between steps, not in one."""
        with self._lock:
            return fields_of(self._state)

    def enter_shared(self, key: str) -> None:
        """A step begins that others overlap: it gets a copy of what is committed."""
        with self._lock:
            if not self._views:
                self._plain, self._commits = plain(fields_of(self._state)), []
            self._views[key] = View(_copied(self._state), self._plain, len(self._commits))

    def changes(self) -> Delta | None:
        """What was committed since this was last asked; None if nobody keeps track."""
        if self._shadow is None:
            return None
        state = self._state
        if type(state) is not self._kind:  # the first time, and when there is another kind of state in its place
            self._kind, self._read = type(state), reader_of(type(state))
        read = self._read
        try:
            return self._shadow.diff(read(state))
        except NotStorableError as error:
            if self._give_up is None:
                raise
            self._shadow = None
            self._give_up(error)
            return None

    def leave(self, key: str) -> Delta | None:
        """A step completed: what it changed is committed. Raises StateConflictError if that cannot be put together.

        Returns the change, if somebody keeps track.
        """
        if key == self.alone and not self._kept:  # nobody else is at work
            self.alone = None
            return self.changes()
        with self._lock:
            self.alone = None
            if self._views or self._kept:
                self._merge_view(key)
            return self.changes()

    def _merge_view(self, key: str) -> None:
        view = self._views.pop(key, None)
        changes = self._kept.get(key)
        if changes is not None:
            self._merge_kept(key, changes, view)
        elif view is not None:
            mine = view.shadow.diff(fields_of(view.state))
            since = self._commits[view.commits :]
            delta = self._merged(key, since, mine, view.base)
            self._commit(key, delta, view.state, _fields_of(since))

    def _merge_kept(self, key: str, changes: Changes, view: View | None) -> None:
        """Merge what a step changed before: with what others committed then, and since."""
        if view is None:
            self._plain, self._commits = plain(fields_of(self._state)), []
        mine, then, base = changes.read()
        since = [*then, *(self._commits[view.commits :] if view is not None else ())]
        delta = self._merged(key, since, mine, base)
        self._commit(key, delta, self._state, _fields_of([(key, delta)]))
        self._kept.pop(key)

    def _merged(self, key: str, since: list[tuple[str, Delta]], mine: Delta, base: dict[str, Any]) -> Delta:
        """What a step's changes come to. Raises StateConflictError, which has all that merging them later needs."""
        step = key.rpartition("#")[0]
        merged = self._merge.combine(since, (step, mine), base, self._plain)
        if merged.conflicts:
            first = merged.conflicts[0]
            touched = _fields_of([*since, (step, mine)])
            before = {name: value for name, value in base.items() if name in touched}
            changes = None  # with a secret in them, they cannot be stored: the step runs again
            if not withheld_in(apply(before, mine)):
                others = [(name, delta.encode()) for name, delta in since]
                changes = Changes(mine.encode(), others, encode_plain(before))
            raise StateConflictError(
                "; ".join(str(conflict) for conflict in merged.conflicts),
                path=locate(first.path),
                steps=first.steps,
                changes=changes,
            )
        return merged.delta

    def abandon(self, key: str) -> None:
        """A step did not complete: its view is thrown away. What a step that was alone wrote is undone, if somebody
        keeps track; else it has written to the state itself."""
        with self._lock:
            was_alone, self.alone = self.alone == key, None
            self._views.pop(key, None)
            if was_alone and self._shadow is not None and self._rebuild is not None:
                self._undo(self._shadow, self._rebuild)

    def _undo(self, shadow: Shadow, rebuild: Callable[[Any, dict[str, Any]], Any]) -> None:
        """Go back to what is committed, if a step that did not complete has changed anything."""
        now, committed = fields_of(self._state), shadow.committed(fields_of(self._state))
        try:
            changed = plain(now) != committed
        except NotStorableError:  # it left something there that could not even have been written down
            changed = True
        if changed:
            self._state = rebuild(self._state, committed)
            self._shadow = shadow.anew(fields_of(self._state))

    def _commit(self, key: str, delta: Delta, state: Any, touched: set[str]) -> None:
        """Bring the state up to date: fields nobody else touched as the step left them, others as they were merged."""
        self._plain = apply(self._plain, delta)
        self._commits.append((key.rpartition("#")[0], delta))
        for name in dict.fromkeys(str(operation.path[0]) for operation in delta.operations):
            if name not in self._plain:
                _remove(self._state, name)
            elif name in touched or (mine := live_value(state, name)) is WITHHELD:
                _assign(self._state, name, unveil(self._plain[name]))
                self._hide(self._state, {name: self._plain[name]})
            else:
                _assign(self._state, name, mine)


def _fields_of(deltas: list[tuple[str, Delta]]) -> set[str]:
    """The fields that some deltas touch."""
    return {str(operation.path[0]) for _, delta in deltas for operation in delta.operations}


def reducers_of(state: Any) -> Mapping[str, Callable[[Any, Any], Any]]:
    """Reducers that a state's type declares: `total: Annotated[int, operator.add]`."""
    if isinstance(state, dict):
        return {}
    try:
        hints = get_type_hints(type(state), include_extras=True)
    except (NameError, TypeError):  # an annotation that only a type checker can see
        return {}
    found: dict[str, Callable[[Any, Any], Any]] = {}
    for name, hint in hints.items():
        if get_origin(hint) is Annotated:
            found.update(
                (name, extra) for extra in get_args(hint)[1:] if callable(extra) and not isinstance(extra, type)
            )
    return found


def _copied(state: Any) -> Any:
    copier = getattr(state, "model_copy", None)  # pydantic, without importing it
    return copier(deep=True) if copier is not None else copy.deepcopy(state)


def _assign(state: Any, name: str, value: Any) -> None:
    """Set a field, validated where the state's type does that."""
    if isinstance(state, dict):
        state[name] = value
        return
    validator = getattr(type(state), "__pydantic_validator__", None)
    if validator is not None:
        validator.validate_assignment(state, name, value)
    else:
        setattr(state, name, value)


def _remove(state: Any, name: str) -> None:
    if isinstance(state, dict):
        state.pop(name, None)
    elif hasattr(state, name):
        delattr(state, name)
