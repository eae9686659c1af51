"""Where a graph stands, and what is to be done next: data alone. `_core` says how one leads to the other."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr


class Execution(Struct, frozen=True, gc=False):
    """One run of one step. `key` is stable across crashes: use it to make effects happen once."""

    step: str
    number: int
    key: str = ""
    """`step#number`; a field, since every step asks for it several times. What is stored of it is not believed: `name_all`"""
    cause: str | None = None
    """the key of the execution whose result it is given"""
    index: int | None = None
    """of the one item of that result which it is given"""
    uses: tuple[str, ...] = ()
    """where data drives the steps: the executions whose results it is given, one for each of its needs, or nothing"""
    tries: int = 0
    """how often it failed before and was tried again"""
    fallback: bool = False
    """whether what stands in for the step is to run"""
    not_before_us: int = 0
    until_us: int | None = None
    """when it goes on by itself, if it waits or has waited"""
    since_us: int | None = None
    """since when it waits"""
    inside: str = ""
    """of a step that is made of steps: the one to begin with, what came before it in its last execution stays"""

    @classmethod
    def of(cls, step: str, number: int, cause: str | None = None, index: int | None = None) -> Execution:
        return cls(step, number, f"{step}#{number}", cause, index)


class Excused(Struct, frozen=True, gc=False):
    """An execution that failed without failing the run, so far."""

    execution: Execution
    error: str


class Judgement(Struct, frozen=True):
    """Whether a step's condition holds for what it would be given."""

    uses: tuple[str, ...]
    holds: bool


class Hold(Struct, frozen=True):
    """A step at whose end a rule paused the run."""

    key: str
    failed: bool = False
    reason: str = ""
    rule: str = ""


class Failure(Struct, frozen=True):
    """Why the run fails: at which step, by which rule."""

    reason: str
    step: str = ""
    rule: str = ""


class DataState(Struct, frozen=True, gc=False):
    """What is known besides, where data drives the steps."""

    available: dict[str, str] = {}
    """for each step, the execution whose result others may take"""
    latest: dict[str, str] = {}
    """for each step, the last execution that has a result: what a loop brings back"""
    used: dict[str, tuple[str, ...]] = {}
    """what these executions were given"""
    lacking: dict[str, tuple[str, ...]] = {}
    """what others look for in the results of these executions and do not find"""
    seen: dict[str, tuple[str, ...]] = {}
    """what each step was given last: it runs again once some of that is out of date"""
    judged: dict[str, Judgement] = {}
    forced: frozenset[str] = frozenset()
    """steps that are to run again though nothing they were given has changed"""
    inside: dict[str, str] = {}
    """for some of these, the step inside them to begin with"""
    rounds: dict[str, int] = {}
    """how often each rule went back, in the present frame"""
    turned: frozenset[str] = frozenset()
    """heads of loops that are past their first iteration"""
    floors: dict[str, dict[str, int]] = {}
    """for the head of each loop, how often steps had run when its present frame began"""
    skipped: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()
    """steps that failed without failing the run"""
    again: dict[str, Execution] = {}
    """executions that are to be run once more: tried again, or cut off by the end of a process"""
    held: dict[str, Hold] = {}
    """steps at whose end a rule paused the run"""
    broken: frozenset[str] = frozenset()
    """steps whose end fails the run: a resume runs them anew"""
    paused: str | None = None
    """why somebody paused the run; None if nobody did"""
    failure: Failure | None = None


class GraphState(Struct, frozen=True, gc=False):
    """Where a graph stands. Small and immutable; results are kept elsewhere, by execution key."""

    begun: bool = False
    counts: dict[str, int] = {}
    """how often each step was triggered"""
    ready: tuple[Execution, ...] = ()
    """triggered, not started"""
    running: dict[str, Execution] = {}
    waiting: dict[str, Execution] = {}
    """started, and waiting for something from outside"""
    arrived: dict[str, dict[str, str]] = {}
    """for each step, the labels that came since it last fired, with the execution each came from"""
    batches: dict[str, tuple[str, ...]] = {}
    """the executions that run for the items of one result, until what follows them all is done"""
    left: dict[str, int] = {}
    """how many of a batch are not done yet"""
    won: dict[str, str] = {}
    """steps that several sources competed for and one has won, with the label that did"""
    losers: frozenset[str] = frozenset()
    """executions that lost such a race and feed nothing else: to be cancelled"""
    tolerated: dict[str, Excused] = {}
    """executions that failed while another source could still win"""
    errors: tuple[str, ...] = ()
    """what fails the run"""
    halted: dict[str, Execution] = {}
    """executions that failed the run, or were stopped because of that: a resume runs them again"""
    last: str | None = None
    """the execution that completed last: its result is the run's"""
    data: DataState | None = None
    """None where steps are triggered"""

    @property
    def in_flight(self) -> dict[str, Execution]:
        return {**self.running, **self.waiting}


def name_all(state: GraphState) -> GraphState:
    """Give the executions of a state that was read back their keys."""
    again = state.data.again.values() if state.data is not None else ()
    excused = (one.execution for one in state.tolerated.values())
    for execution in (*state.ready, *state.in_flight.values(), *state.halted.values(), *excused, *again):
        force_setattr(execution, "key", f"{execution.step}#{execution.number}")
    return state


class Start(Struct, frozen=True, gc=False):
    """Run this execution."""

    execution: Execution


class Cancel(Struct, frozen=True, gc=False):
    """Stop this execution."""

    execution: Execution


class Park(Struct, frozen=True, gc=False):
    """Nothing can go on until something arrives from outside."""


class Complete(Struct, frozen=True, gc=False):
    """The run is done; the result is that of the execution that completed last."""

    last: str | None


class Fail(Struct, frozen=True, gc=False):
    """The run has failed, with these errors."""

    errors: tuple[str, ...]


class Judge(Struct, frozen=True):
    """Find out whether a step's condition holds for these executions' results."""

    step: str
    uses: tuple[str, ...]


class Skip(Struct, frozen=True):
    """Leave a step out: it can never become ready."""

    step: str
    reason: str


Command: TypeAlias = Start | Cancel | Park | Complete | Fail | Judge | Skip
