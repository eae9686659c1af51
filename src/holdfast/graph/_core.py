"""The heart, pure: `evolve(graph, state, fact) -> state` and `decide(graph, state) -> commands`.

No clock, no await, no randomness, nothing changed in place. Running live, resuming, replaying and forking all use these
two functions and nothing else, so they cannot disagree.

A *wave* of a step that several sources compete for (`or_`) lasts until a router's result can trigger it again. Within a wave
the first source wins; what arrives later is ignored.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.graph import _dataflow as dataflow
from holdfast.graph._facts import Began, Cancelled, Completed, Fact, Failed, Started, Waiting
from holdfast.graph._model import (
    BEGINNING,
    Graph,
    Node,
    each_label,
    failure_label,
    gathered_label,
    holds,
    labels_of,
    route_label,
)
from holdfast.graph._state import (
    Cancel,
    Command,
    Complete,
    Excused,
    Execution,
    Fail,
    GraphState,
    Park,
    Start,
)

V = TypeVar("V")
_OF_EXECUTIONS = (Started, Completed, Failed, Cancelled, Waiting)
"""Facts that steps which are triggered know of; the others are about steps that data drives."""


def decide(graph: Graph, state: GraphState) -> list[Command]:
    """What to do next. The empty list means: wait for what is in flight."""
    if graph.wiring:
        return dataflow.decide(graph, state)
    if not state.begun:
        return []
    errors = state.errors
    for execution in state.ready:
        if execution.number > graph.max_calls and execution.index is None:
            errors = (*errors, _too_often(graph, execution))
    if errors:
        cancels: list[Command] = [Cancel(execution) for execution in state.in_flight.values()]
        return cancels or [Fail(errors)]
    commands: list[Command] = [Start(execution) for execution in state.ready]
    if state.losers:
        commands = [*(Cancel(e) for key, e in state.in_flight.items() if key in state.losers), *commands]
    if commands or state.running:
        return commands
    if state.waiting:
        return [Park()]
    unmet = _unmet_races(graph, state)
    return [Fail(unmet) if unmet else Complete(state.last)]


def evolve(graph: Graph, state: GraphState, fact: Fact) -> GraphState:
    """The state after a fact. Facts about executions that are not in flight change nothing: they came too late."""
    if graph.wiring:
        return dataflow.evolve(graph, state, fact)
    if isinstance(fact, Began):
        return _begin(graph, state)
    if not isinstance(fact, _OF_EXECUTIONS):
        return state
    if fact.step not in graph.by_name:  # an adopted change took it away
        return state
    key = f"{fact.step}#{fact.number}"
    if isinstance(fact, Started):
        return _start(state, fact, key)
    execution = state.running.get(key) or state.waiting.get(key)
    if execution is None:
        return state
    if isinstance(fact, Waiting):
        return replace(state, running=_without(state.running, key), waiting={**state.waiting, key: execution})
    lost = key in state.losers
    running, waiting = _without(state.running, key), _without(state.waiting, key)
    losers = state.losers - {key} if lost else state.losers
    if isinstance(fact, Completed):
        state = replace(state, running=running, waiting=waiting, losers=losers, last=key)
        state = _complete(graph, state, execution, key, fact.route)
        return _batch(graph, state, execution, key, fact.items) if state.batches or fact.items is not None else state
    state = replace(state, running=running, waiting=waiting, losers=losers)
    if lost:
        return state
    if isinstance(fact, Failed):
        return _fail(graph, state, execution, fact.error)
    return replace(state, halted={**state.halted, key: execution})


def _begin(graph: Graph, state: GraphState) -> GraphState:
    if state.begun:
        return _begin_again(graph, state)
    for node in graph.starts:
        state = _trigger(state, node, None, {})
    if BEGINNING in graph.listeners:
        state = _arrive(graph, state, {BEGINNING: ""})
    return replace(state, begun=True)


def _begin_again(graph: Graph, state: GraphState) -> GraphState:
    """Resumed: what was stopped, in flight or waiting is run again, but not what had lost its race or is gone."""
    stopped = {**state.halted, **state.running, **state.waiting}
    again = [e for key, e in stopped.items() if key not in state.losers]
    tolerated = state.tolerated
    if state.errors or not (stopped or state.ready):  # it had failed: those who were excused try again
        again, tolerated = [*(excused.execution for excused in tolerated.values()), *again], {}
    ready = tuple(e for e in (*again, *state.ready) if e.step in graph.by_name)
    return replace(
        state, ready=ready, running={}, waiting={}, halted={}, errors=(), losers=frozenset(), tolerated=tolerated
    )


def failure_key(key: str) -> str:
    """Under which key it is known how an execution failed, for those who listen to that."""
    return f"{key}!"


def results_needed(state: GraphState) -> set[str]:
    """The executions whose results a step may still be given, or the run itself."""
    if state.data is not None:
        return dataflow.results_needed(state)
    needed = {e.cause for e in (*state.ready, *state.in_flight.values(), *state.halted.values())}
    needed |= {e.execution.cause for e in state.tolerated.values()}
    needed |= {key for labels in state.arrived.values() for key in labels.values()}
    needed |= {key for batch in state.batches.values() for key in batch}
    return {key for key in (*needed, state.last) if key is not None}


def _start(state: GraphState, fact: Started, key: str) -> GraphState:
    for place, execution in enumerate(state.ready):
        if execution.number == fact.number and execution.step == fact.step:
            ready = state.ready[:place] + state.ready[place + 1 :]
            return replace(state, ready=ready, running={**state.running, key: execution})
    return state


def _complete(graph: Graph, state: GraphState, execution: Execution, key: str, route: str | None) -> GraphState:
    node = graph.by_name[execution.step]
    labels = {execution.step: key}
    if route is not None and node.is_router:
        # what a route triggers is given what the router was given: the route itself is only a name
        labels[route_label(route)] = key if node.hands_on else execution.cause or key
    if node.is_router and state.won:  # a new wave, for every race that this result may lead to
        ahead = graph.ahead_of((*labels, each_label(execution.step)))
        state = replace(state, won={name: label for name, label in state.won.items() if name not in ahead})
    return _arrive(graph, state, labels)


def _batch(graph: Graph, state: GraphState, execution: Execution, key: str, items: int | None) -> GraphState:
    """What follows from a result that is taken apart, and from an execution that ran for one item of it."""
    if execution.cause in state.batches:  # it was given all that the batch came to
        state = replace(state, batches=_without(state.batches, execution.cause))
    if items is not None and execution.step in graph.spreading:
        for node in graph.listeners[each_label(execution.step)]:
            state = _spread(graph, state, node, key, items)
    if execution.index is not None:
        state = _gather(graph, state, execution)
    return state


def _spread(graph: Graph, state: GraphState, node: Node, cause: str, items: int) -> GraphState:
    """Run a step for each item of a result."""
    first = state.counts.get(node.name, 0) + 1
    executions = tuple(Execution(node.name, first + index, cause, index) for index in range(items))
    batch = batch_key(node.name, cause)
    state = replace(
        state,
        counts={**state.counts, node.name: first + items - 1},
        ready=(*state.ready, *executions),
        batches={**state.batches, batch: tuple(execution.key for execution in executions)},
        left={**state.left, batch: items},
    )
    return _gathered(graph, state, node.name, batch) if not items else state


def _gather(graph: Graph, state: GraphState, execution: Execution) -> GraphState:
    batch = batch_key(execution.step, execution.cause or "")
    left = state.left.get(batch, 0) - 1
    if left > 0:
        return replace(state, left={**state.left, batch: left})
    return _gathered(graph, state, execution.step, batch)


def _gathered(graph: Graph, state: GraphState, step: str, batch: str) -> GraphState:
    """Every item is done."""
    label = gathered_label(step)
    batches = state.batches if label in graph.listeners else _without(state.batches, batch)
    return _arrive(graph, replace(state, left=_without(state.left, batch), batches=batches), {label: batch})


def batch_key(step: str, cause: str) -> str:
    """Under which key the results of a step for every item of another's result are known."""
    return f"{step}*{cause}"


def _arrive(graph: Graph, state: GraphState, labels: dict[str, str]) -> GraphState:
    """What one execution brings about arrives, as one, at every step that listens to some of it."""
    for name, node in graph.hearing(labels).items():
        is_race = name in graph.races
        if is_race and name in state.won:
            continue
        heard = {label: labels[label] for label in graph.sources[name] if label in labels}
        arrived = {**state.arrived[name], **heard} if name in state.arrived else heard
        if node.trigger is None or not holds(node.trigger, arrived):
            state = replace(state, arrived={**state.arrived, name: arrived})
            continue
        label = next(reversed(heard))
        changes = _won(graph, state, node, label) if is_race else {}
        if name in state.arrived:
            changes["arrived"] = _without(state.arrived, name)
        state = _trigger(state, node, heard[label], changes)
    return state


def _won(graph: Graph, state: GraphState, node: Node, label: str) -> dict[str, Any]:
    """What changes when a race is won: who won, and who of those in flight lost and feeds nothing else."""
    won = {**state.won, node.name: label}
    if not (state.running or state.waiting or state.tolerated):
        return {"won": won}  # it ran alone
    sources = graph.sources[node.name]
    lost = {
        key
        for key, execution in state.in_flight.items()
        if execution.step in sources and graph.feeds(execution.step) == (node,)
    }
    beaten = {key: excused for key, excused in state.tolerated.items() if excused.execution.step not in sources}
    return {"won": won, "losers": state.losers | lost, "tolerated": beaten}


def _trigger(state: GraphState, node: Node, cause: str | None, changes: dict[str, Any]) -> GraphState:
    """A step is to run; what else changes with that changes in the same breath: each copy of the state costs."""
    number = state.counts.get(node.name, 0) + 1
    execution = Execution(node.name, number, cause)
    return replace(state, counts={**state.counts, node.name: number}, ready=(*state.ready, execution), **changes)


def _fail(graph: Graph, state: GraphState, execution: Execution, error: str) -> GraphState:
    """A failure fails the run, unless something listens to it, or the step only competed with others and one can still win."""
    if (label := failure_label(execution.step)) in graph.listeners:
        return _arrive(graph, state, {label: failure_key(execution.key)})
    fed = graph.feeds(execution.step)
    if fed and all(node.is_race for node in fed):
        unmet = [node for node in fed if node.name not in state.won]
        if unmet and all(_can_be_won(graph, state, node) for node in unmet):
            return replace(state, tolerated={**state.tolerated, execution.key: Excused(execution, error)})
    together = (*(e.error for e in state.tolerated.values() if _compete(graph, e.execution, execution)), error)
    return replace(state, errors=(*state.errors, *together), halted={**state.halted, execution.key: execution})


def _too_often(graph: Graph, execution: Execution) -> str:
    return (
        f"step {execution.step} was triggered {execution.number} times, and a step runs at most {graph.max_calls} times; "
        f"give its loop a way out, or raise max_method_calls"
    )


def _compete(graph: Graph, one: Execution, other: Execution) -> bool:
    return bool(set(graph.feeds(one.step)) & set(graph.feeds(other.step)))


def _can_be_won(graph: Graph, state: GraphState, node: Node) -> bool:
    """Whether a source of a race may still complete: it is in flight, or something in flight may lead to it."""
    active = frozenset(e.step for e in (*state.ready, *state.in_flight.values()) if e.step != node.name)
    reachable = graph.reachable(active)
    return (
        any(label in reachable or label not in graph.by_name for label in labels_of(node.trigger)) if active else False
    )


def _unmet_races(graph: Graph, state: GraphState) -> tuple[str, ...]:
    """Errors of competitors in races that nobody won in the end."""
    return tuple(
        excused.error
        for excused in state.tolerated.values()
        if any(node.name not in state.won for node in graph.feeds(excused.execution.step))
    )


def _without(mapping: dict[str, V], key: str) -> dict[str, V]:
    if key not in mapping:
        return mapping
    others = dict(mapping)
    del others[key]
    return others


def fold(graph: Graph, facts: list[Fact], state: GraphState | None = None) -> GraphState:
    """The state that facts amount to."""
    state = state or GraphState()
    for fact in facts:
        state = evolve(graph, state, fact)
    return state


__all__ = [
    "Began",
    "Cancel",
    "Cancelled",
    "Command",
    "Complete",
    "Completed",
    "Execution",
    "Fact",
    "Fail",
    "Failed",
    "GraphState",
    "Park",
    "Start",
    "Started",
    "Waiting",
    "decide",
    "evolve",
    "failure_key",
    "fold",
    "results_needed",
]  # fmt: skip
