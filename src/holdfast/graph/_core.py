"""The heart, pure: `evolve(graph, state, fact) -> state` and `decide(graph, state) -> commands`.

No clock, no await, no randomness, nothing changed in place. Running live, resuming, replaying and forking all use these
two functions and nothing else, so they cannot disagree.

A *wave* of a step that several sources compete for (`or_`) lasts until a router's result can trigger it again. Within a wave
the first source wins; what arrives later is ignored.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from holdfast.graph import _dataflow as dataflow
from holdfast.graph._facts import Began, Cancelled, Completed, Fact, Failed, Started, Waiting
from holdfast.graph._model import (
    BEGINNING,
    Graph,
    Node,
    Sequel,
    each_label,
    failure_label,
    gathered_label,
    holds,
    labels_of,
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


def decide(graph: Graph, state: GraphState) -> list[Command]:
    """What to do next. The empty list means: wait for what is in flight."""
    if graph.wiring:
        return dataflow.decide(graph, state)
    if not state.begun:
        return []
    errors = state.errors
    commands: list[Command] = []
    for execution in state.ready:
        if execution.number > graph.max_calls and execution.index is None:
            errors = (*errors, _too_often(graph, execution))
        commands.append(Start(execution))
    if errors:
        cancels: list[Command] = [Cancel(execution) for execution in state.in_flight.values()]
        return cancels or [Fail(errors)]
    if state.losers:
        commands = [*(Cancel(e) for key, e in state.in_flight.items() if key in state.losers), *commands]
    if commands or state.running:
        return commands
    if state.waiting:
        return [Park()]
    unmet = _unmet_races(graph, state) if state.tolerated else ()
    return [Fail(unmet) if unmet else Complete(state.last)]


def evolve(graph: Graph, state: GraphState, fact: Fact) -> GraphState:
    """The state after a fact. Facts about executions that are not in flight change nothing: they came too late."""
    if graph.wiring:
        return dataflow.evolve(graph, state, fact)
    if type(fact) is Started:  # these two first, and not by isinstance: every step comes here with them
        return _start(graph, state, fact)
    if type(fact) is Completed or isinstance(fact, Failed | Cancelled | Waiting):
        key = f"{fact.step}#{fact.number}"
        execution = state.running.get(key) or state.waiting.get(key)
        if execution is None or fact.step not in graph.by_name:  # an adopted change took it away
            return state
        if isinstance(fact, Completed):
            return _complete(graph, state, execution, key, fact)
        return _stop(graph, state, execution, key, fact)
    return _begin(graph, state) if isinstance(fact, Began) else state  # the others are about steps that data drives


def _begin(graph: Graph, state: GraphState) -> GraphState:
    if state.begun:
        return _begin_again(graph, state)
    ready = tuple(Execution.of(node.name, 1) for node in graph.starts)
    state = replace(state, begun=True, ready=ready, counts={execution.step: 1 for execution in ready})
    return _arrive(graph, state, graph.sequel(BEGINNING), {BEGINNING: ""}) if BEGINNING in graph.listeners else state


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


def _start(graph: Graph, state: GraphState, fact: Started) -> GraphState:
    step, number, ready = fact.step, fact.number, state.ready
    for execution in ready:
        if execution.number == number and execution.step == step and step in graph.by_name:
            running = state.running.copy()
            running[execution.key] = execution
            return replace(
                state, ready=tuple(e for e in ready if e is not execution) if ready[1:] else (), running=running
            )
    return state


def _complete(graph: Graph, state: GraphState, execution: Execution, key: str, fact: Completed) -> GraphState:
    sequel = graph.sequels.get((fact.step, fact.route)) or graph.sequel(fact.step, fact.route)
    labels = {fact.step: key}
    if sequel.route is not None:
        # what a route triggers is given what the router was given: the route itself is only a name
        labels[sequel.route] = key if sequel.hands_on else execution.cause or key
    if key in state.waiting or key in state.losers:
        state = _land(state, key)
    state = _arrive(graph, state, sequel, labels, key)
    return _batch(graph, state, execution, key, fact.items) if state.batches or fact.items is not None else state


def _land(state: GraphState, key: str) -> GraphState:
    """An execution is not in flight any more."""
    running, waiting = _without(state.running, key), _without(state.waiting, key)
    return replace(state, running=running, waiting=waiting, losers=state.losers - {key})


def _stop(
    graph: Graph, state: GraphState, execution: Execution, key: str, fact: Failed | Cancelled | Waiting
) -> GraphState:
    if isinstance(fact, Waiting):
        return replace(state, running=_without(state.running, key), waiting={**state.waiting, key: execution})
    lost = key in state.losers
    state = _land(state, key)
    if lost:
        return state
    if isinstance(fact, Failed):
        return _fail(graph, state, execution, fact.error)
    return replace(state, halted={**state.halted, key: execution})


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
    executions = tuple(Execution.of(node.name, first + index, cause, index) for index in range(items))
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
    state = replace(state, left=_without(state.left, batch), batches=batches)
    return _arrive(graph, state, graph.sequel(label), {label: batch})


def batch_key(step: str, cause: str) -> str:
    """Under which key the results of a step for every item of another's result are known."""
    return f"{step}*{cause}"


def _arrive(
    graph: Graph, state: GraphState, sequel: Sequel, labels: dict[str, str], completed: str | None = None
) -> GraphState:
    """What one execution brings about arrives, as one, at every step that listens to some of it.

    All of it makes one new state, the completion of the execution included, since each copy costs. What is changed in place
    here are new dictionaries that nobody has seen yet.
    """
    counts, running, won = state.counts.copy(), state.running.copy(), state.won.copy()
    ready, arrived = state.ready, state.arrived
    losers, tolerated, last = state.losers, state.tolerated, state.last
    if completed is not None:
        running.pop(completed, None)  # it is not there if it waited
        last = completed
    for race in sequel.fresh:  # a new wave
        won.pop(race, None)
    for hearer in sequel.hearers:
        name = hearer.name
        if hearer.is_race and name in won:
            continue
        if not hearer.is_enough:
            heard = dict(arrived.get(name, ()))
            for label in hearer.labels:
                heard[label] = labels[label]
            if not holds(hearer.trigger, heard):
                arrived = {**arrived, name: heard}
                continue
        if name in arrived:
            arrived = _without(arrived, name)
        if hearer.is_race:
            won[name] = hearer.label
            if running or state.waiting or tolerated:  # it did not run alone
                rivals, sources = graph.rivals[name], graph.sources[name]
                losers |= {key for key, e in (*running.items(), *state.waiting.items()) if e.step in rivals}
                tolerated = {key: e for key, e in tolerated.items() if e.execution.step not in sources}
        counts[name] = number = counts.get(name, 0) + 1
        ready = (*ready, Execution(name, number, f"{name}#{number}", labels[hearer.label]))
    return replace(
        state,
        counts=counts,
        ready=ready,
        running=running,
        arrived=arrived,
        won=won,
        losers=losers,
        tolerated=tolerated,
        last=last,
    )


def _fail(graph: Graph, state: GraphState, execution: Execution, error: str) -> GraphState:
    """A failure fails the run, unless something listens to it, or the step only competed with others and one can still win."""
    if (label := failure_label(execution.step)) in graph.listeners:
        return _arrive(graph, state, graph.sequel(label), {label: failure_key(execution.key)})
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
