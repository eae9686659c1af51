"""The statuses of a run and the one table of what may follow what."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.errors import AlreadyFinishedError, IllegalTransitionError


class RunStatus(StrEnum):
    """Where a run stands. Each value is documented below; `MEANINGS` is the same text as data."""

    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether a run in this status holds nothing and does nothing any more."""
        return self in TERMINAL


MEANINGS: dict[RunStatus, str] = {
    RunStatus.CREATED: "It has an id and an owner; its body has not begun.",
    RunStatus.RUNNING: "At least one step is at work.",
    RunStatus.WAITING: "Every step in flight waits for something from outside.",
    RunStatus.PAUSED: "Steps in flight finish; none starts until it is resumed.",
    RunStatus.COMPLETED: "It ended with a result. It can only be forked.",
    RunStatus.FAILED: "It ended with an error. It may be resumed under its next incarnation.",
    RunStatus.CANCELLED: "It was told to end. It can only be forked.",
}

TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


class Transition(Struct, frozen=True):
    """One edge of the table."""

    source: RunStatus
    target: RunStatus
    when: str


def _edges() -> tuple[Transition, ...]:
    s = RunStatus
    return (
        Transition(s.CREATED, s.RUNNING, "its body begins"),
        Transition(s.CREATED, s.CANCELLED, "it is cancelled before its body began"),
        Transition(s.RUNNING, s.WAITING, "the last step at work starts to wait"),
        Transition(s.WAITING, s.RUNNING, "what a step waited for has come, or a step starts"),
        Transition(s.RUNNING, s.PAUSED, "someone pauses it"),
        Transition(s.PAUSED, s.RUNNING, "someone resumes it"),
        Transition(s.RUNNING, s.COMPLETED, "its body and every step it started are done"),
        Transition(s.RUNNING, s.FAILED, "a step raised"),
        Transition(s.RUNNING, s.CANCELLED, "someone, a limit or its parent cancels it"),
        Transition(s.WAITING, s.COMPLETED, "its end is requested with a result while it waits"),
        Transition(s.WAITING, s.FAILED, "its end is requested with an error while it waits"),
        Transition(s.WAITING, s.CANCELLED, "it is cancelled while it waits"),
        Transition(s.PAUSED, s.COMPLETED, "its last steps finish while it is paused"),
        Transition(s.PAUSED, s.FAILED, "a step raises while it is paused"),
        Transition(s.PAUSED, s.CANCELLED, "it is cancelled while it is paused"),
        Transition(s.FAILED, s.RUNNING, "it is resumed, under its next incarnation"),
    )


TRANSITIONS = _edges()
_TARGETS = {status: frozenset(t.target for t in TRANSITIONS if t.source is status) for status in RunStatus}


def check_transition(run_id: str, source: RunStatus, target: RunStatus) -> None:
    """Raise IllegalTransitionError, or AlreadyFinishedError for a second end, unless the table has this edge."""
    if target in _TARGETS[source]:
        return
    if source.is_terminal and target.is_terminal:
        raise AlreadyFinishedError(f"run {run_id} is {source} already; a run ends once")
    allowed = ", ".join(sorted(_TARGETS[source])) or "nothing: start a new run, or fork this one"
    raise IllegalTransitionError(f"run {run_id} is {source} and cannot become {target}; from here: {allowed}")
