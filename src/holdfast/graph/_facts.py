"""What can happen to a graph while it runs. A run's state is the fold of its facts, and of nothing else."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Action: TypeAlias = Literal["advance", "loop", "escalate", "abandon", "retry", "fallback", "continue", "fail"]


class Verdict(Struct, frozen=True, gc=False):
    """What follows from the end of an execution, where data drives the steps."""

    action: Action
    rule: str = ""
    """the exit rule that says so; empty if none does"""
    target: str = ""
    """the step that a loop goes back to"""
    reason: str = ""
    not_before_us: int = 0
    """when the step is tried again"""
    lacks: tuple[str, ...] = ()
    """what others look for in the result and do not find there: those of `Shape.looked_for`"""


class Began(Struct, frozen=True, gc=False, tag="began"):
    """The run began, or began again with what was recorded: steps in flight then are to be run again."""


class Started(Struct, frozen=True, gc=False, tag="started"):
    """A step began its nth execution."""

    step: str
    number: int
    uses: tuple[str, ...] = ()
    """where data drives the steps: the executions whose results it was given, one for each of its needs"""
    tries: int = 0
    """how often this execution failed before and was tried again"""
    fallback: bool = False
    """whether it is what runs in place of the step"""


class Completed(Struct, frozen=True, gc=False, tag="completed"):
    """An execution gave a result; a router's result names the route it took."""

    step: str
    number: int
    route: str | None = None
    items: int | None = None
    """how many items the result has, if something is to run for each of them"""
    verdict: Verdict | None = None
    """None to go on"""


class Failed(Struct, frozen=True, gc=False, tag="failed"):
    """An execution raised."""

    step: str
    number: int
    error: str
    verdict: Verdict | None = None
    """None to fail the run"""


class StepFailure(Struct, frozen=True):
    """How a step failed: what a step is given that listens to that."""

    step: str
    error: str
    error_type: str = ""


class Cancelled(Struct, frozen=True, gc=False, tag="cancelled"):
    """An execution was told to stop, and did."""

    step: str
    number: int


class Waiting(Struct, frozen=True, gc=False, tag="waiting"):
    """An execution cannot go on until something arrives from outside."""

    step: str
    number: int
    until_us: int | None = None
    """when it goes on by itself; None for never"""
    since_us: int | None = None
    """since when it waits"""


class Skipped(Struct, frozen=True, gc=False, tag="skipped"):
    """A step is left out: it can never become ready."""

    step: str


class Paused(Struct, frozen=True, gc=False, tag="paused"):
    """Somebody wants no step to begin until the run is resumed."""

    reason: str = ""


class Resumed(Struct, frozen=True, gc=False, tag="resumed"):
    """Somebody lets a paused run go on: from steps that a rule held back, too."""


class Rerun(Struct, frozen=True, gc=False, tag="rerun"):
    """Somebody wants a step to run again, with all that depends on it."""

    step: str
    inside: str = ""
    """of a step that is made of steps: the one of them to begin with, what came before it stays; empty for all of it"""


Fact: TypeAlias = Began | Started | Completed | Failed | Cancelled | Waiting | Skipped | Paused | Resumed | Rerun
