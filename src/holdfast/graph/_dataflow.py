"""The heart where data drives the steps (flow files): the same two pure functions, another idea of what makes a step ready.

A step is ready when everything it needs has a *current* result: its producer's latest, made from current results itself. It runs
again when something it was given is out of date, or when a rule goes back to it. What a loop brings back is never awaited and makes
nothing run by itself: it is absent in the first iteration of the loop's frame, then the latest of that frame; a rule that goes back
gives every loop inside it a new frame. When nothing is active or ready the run settles: steps that can never become ready are
skipped, those first that nothing unsettled leads to, since that may make others ready.

No value is looked at here. Facts carry what rules made of them (`Verdict`); conditions over values are asked for (`Judge`).
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from holdfast.graph._facts import (
    Began,
    Cancelled,
    Completed,
    Fact,
    Failed,
    Paused,
    Rerun,
    Resumed,
    Skipped,
    Started,
    Verdict,
    Waiting,
)
from holdfast.graph._model import Graph
from holdfast.graph._outlook import Outlook
from holdfast.graph._state import (
    Cancel,
    Command,
    Complete,
    DataState,
    Execution,
    Fail,
    Failure,
    GraphState,
    Hold,
    Judge,
    Judgement,
    Park,
    Start,
)
from holdfast.graph._wiring import rule_key

V = TypeVar("V")
NO_TERMINAL = "no_terminal_reached"
_ADVANCE = Verdict("advance")
_FAIL = Verdict("fail")


def decide(graph: Graph, state: GraphState) -> list[Command]:
    """What to do next. The empty list means: wait for what is in flight."""
    if not state.begun:
        return []
    if state.errors:
        cancels: list[Command] = [Cancel(execution) for execution in state.in_flight.values()]
        return cancels or [Fail(state.errors)]
    outlook = Outlook(graph, state)
    data = outlook.data
    outdated: list[Command] = [Cancel(e) for e in state.waiting.values() if outlook.is_stale(e.step, e.uses)]
    if outdated:
        return outdated
    if data.held or data.paused is not None:
        return [] if state.running else [Park()]
    commands, unready = outlook.next()
    if too_often := [c for c in commands if isinstance(c, Start) and c.execution.number > graph.max_calls]:
        return [Fail((_too_often(graph, too_often[0].execution),))] if not state.in_flight else _cancel_all(state)
    if commands or state.running:
        return commands
    if state.waiting:
        return [Park()]
    if skips := outlook.skips(unready):
        return skips
    if outlook.is_settled_well:
        return [Complete(state.last)]
    return [Fail((f"{NO_TERMINAL}: no step that ends the flow has a result made from current results",))]


def _cancel_all(state: GraphState) -> list[Command]:
    return [Cancel(execution) for execution in state.in_flight.values()]


def _too_often(graph: Graph, execution: Execution) -> str:
    return (
        f"step {execution.step} would run for the {execution.number}th time, and a step runs at most {graph.max_calls} times; "
        f"give its loop a way out, or a bound: max_iterations"
    )


def results_needed(state: GraphState) -> set[str]:
    """The executions whose results a step may still be given, or the run itself."""
    data = state.data or DataState()
    needed = {*data.available.values(), *data.latest.values(), *(hold.key for hold in data.held.values())}
    for execution in (*state.in_flight.values(), *state.halted.values(), *data.again.values()):
        needed.update(execution.uses)
    return needed - {""}


def attempt_of(graph: Graph, state: GraphState, execution: Execution) -> int:
    """The how-manieth run of its step this is in the present frame of the loop around it, counted from one."""
    head = graph.shape.head_of.get(execution.step)
    floors = state.data.floors.get(head, {}) if state.data is not None and head is not None else {}
    return execution.number - floors.get(execution.step, 0)


def rounds_of(state: GraphState, step: str, rule: str) -> int:
    """How often a rule went back in the present frame of its loop."""
    return state.data.rounds.get(rule_key(step, rule), 0) if state.data is not None else 0


def judge(state: GraphState, judged: Judge, holds: bool) -> GraphState:
    """The state with what was found out about a condition. It follows from what is recorded, so it is not recorded itself."""
    data = state.data or DataState()
    found = Judgement(judged.uses, holds)
    return replace(state, data=replace(data, judged={**data.judged, judged.step: found}))


def wake(state: GraphState, key: str) -> GraphState:
    """The state in which an execution that waited is to be run again: its time has come. Its start is what is recorded."""
    execution = state.waiting.get(key)
    if execution is None:
        return state
    data = state.data or DataState()
    return replace(
        state, waiting=_without(state.waiting, key), data=replace(data, again={**data.again, key: execution})
    )


# -- evolve ------------------------------------------------------------------------------------------------------------


def evolve(graph: Graph, state: GraphState, fact: Fact) -> GraphState:
    """The state after a fact. Facts about executions that are not in flight change nothing: they came too late."""
    data = state.data or DataState()
    if isinstance(fact, Began):
        return _begin(graph, replace(state, data=data))
    if isinstance(fact, Paused):
        return replace(state, data=replace(data, paused=fact.reason))
    if isinstance(fact, Resumed):
        return _resume(graph, state, data)
    if fact.step not in graph.by_name:  # an adopted change took it away
        return state
    if isinstance(fact, Started):
        return _start(graph, state, data, fact)
    if isinstance(fact, Skipped):
        return replace(state, data=replace(data, skipped=data.skipped | {fact.step}, forced=data.forced - {fact.step}))
    if isinstance(fact, Rerun):
        return _rerun(graph, state, data, fact)
    return _end(graph, state, data, fact)


def _begin(graph: Graph, state: GraphState) -> GraphState:
    if not state.begun:
        return replace(state, begun=True)
    data = state.data or DataState()
    stopped = [*state.halted.values(), *state.running.values()]
    unsure = {e.step: Hold(e.key, True, UNSURE) for e in stopped if _is_once(graph, e)}
    cut_off = [e for e in stopped if e.step not in unsure]
    again = {e.key: e for e in (*cut_off, *state.waiting.values()) if e.step in graph.by_name}
    data = replace(
        data,
        again={**data.again, **again},
        held={**data.held, **unsure},
        forced=data.forced | {step for step in data.broken if step in graph.by_name},
        broken=frozenset(),
        failure=None,
    )
    return replace(state, running={}, waiting={}, halted={}, errors=(), data=data)


UNSURE = "its process ended while it ran, and it must not run twice: see how far it came, then resume to run it again"


def _is_once(graph: Graph, execution: Execution) -> bool:
    wiring = graph.shape.wired.get(execution.step)
    return wiring is not None and wiring.once


def _start(graph: Graph, state: GraphState, data: DataState, fact: Started) -> GraphState:
    key = f"{fact.step}#{fact.number}"
    if key in state.running:
        return state
    before = data.again.get(key) or state.waiting.get(key)
    execution = Execution(
        fact.step,
        fact.number,
        key,
        uses=fact.uses,
        tries=fact.tries,
        fallback=fact.fallback,
        until_us=before.until_us if before is not None else None,
        since_us=before.since_us if before is not None else None,
        inside=before.inside if before is not None else data.inside.get(fact.step, ""),
    )
    step = {fact.step}
    data = replace(
        data,
        seen={**data.seen, fact.step: fact.uses},
        again=_without(data.again, key),
        forced=data.forced - step,
        inside=_without(data.inside, fact.step),
        skipped=data.skipped - step,
        excused=data.excused - step,
    )
    return replace(
        state,
        counts={**state.counts, fact.step: max(fact.number, state.counts.get(fact.step, 0))},
        running={**state.running, key: execution},
        waiting=_without(state.waiting, key),
        data=data,
    )


def _end(
    graph: Graph, state: GraphState, data: DataState, fact: Completed | Failed | Cancelled | Waiting
) -> GraphState:
    key = f"{fact.step}#{fact.number}"
    execution = state.running.get(key) or state.waiting.get(key)
    if execution is None:
        return state
    waited = key in state.waiting
    state = replace(state, running=_without(state.running, key), waiting=_without(state.waiting, key))
    if isinstance(fact, Waiting):
        waiting = replace(execution, until_us=fact.until_us, since_us=execution.since_us or fact.since_us)
        return replace(state, waiting={**state.waiting, key: waiting})
    if isinstance(fact, Cancelled):
        # one that waited is out of date, or ends with the run: it asks again if it is still wanted
        outdated = waited and not state.errors
        return state if outdated else replace(state, halted={**state.halted, key: execution})
    if isinstance(fact, Completed):
        return _conclude(graph, replace(state, last=key), data, execution, fact.verdict or _ADVANCE)
    return _fail(graph, state, data, execution, fact.error, fact.verdict or _FAIL)


def _fail(
    graph: Graph, state: GraphState, data: DataState, execution: Execution, error: str, verdict: Verdict
) -> GraphState:
    key, step = execution.key, execution.step
    if verdict.action == "retry":
        again = replace(
            execution, tries=execution.tries + 1, not_before_us=verdict.not_before_us, until_us=None, since_us=None
        )
        return replace(state, data=replace(data, again={**data.again, key: again}))
    if verdict.action == "fallback":
        again = replace(execution, tries=0, fallback=True, until_us=None, since_us=None)
        return replace(state, data=replace(data, again={**data.again, key: again}))
    if verdict.action == "continue":
        without = {"available": _without(data.available, step), "excused": data.excused | {step}}
        return replace(state, data=replace(data, **without))
    if verdict.action == "fail":
        state = _break(state, data, error, Failure(verdict.reason or "step_failed", step, verdict.rule))
        return _to_go_on_inside(state, execution) if graph.shape.wired[step].nested else state
    return _conclude(graph, state, data, execution, verdict, failed=True)


def _conclude(
    graph: Graph, state: GraphState, data: DataState, execution: Execution, verdict: Verdict, failed: bool = False
) -> GraphState:
    """What a rule says after an execution that has a result, if only that it failed."""
    step, key = execution.step, execution.key
    data = replace(
        data,
        latest={**data.latest, step: key},
        used=_kept(data, {**data.used, key: execution.uses}, key),
        lacking=_kept(data, {**data.lacking, key: verdict.lacks}, key) if verdict.lacks else data.lacking,
        available=_without(data.available, step),
    )
    if verdict.action == "loop":
        return replace(state, data=_go_back(graph, state, data, step, verdict))
    if verdict.action == "escalate":
        held = {**data.held, step: Hold(key, failed, verdict.reason, verdict.rule)}
        return replace(state, data=replace(data, held=held))
    if verdict.action == "abandon":
        error = f"abandoned at step {step} by rule {verdict.rule}" + (f": {verdict.reason}" if verdict.reason else "")
        return _break(state, data, error, Failure("abandoned", step, verdict.rule))
    return replace(state, data=replace(data, available={**data.available, step: key}))


def _break(state: GraphState, data: DataState, error: str, failure: Failure) -> GraphState:
    """The run fails; what it says is the first reason there was."""
    data = replace(data, failure=data.failure or failure, broken=data.broken | {failure.step})
    return replace(state, errors=(*state.errors, error), data=data)


def _to_go_on_inside(state: GraphState, execution: Execution) -> GraphState:
    """A failed step that is made of steps: taken up again it is the same execution, and those that were done inside stay so."""
    data = state.data or DataState()
    halted = {**state.halted, execution.key: execution}
    return replace(state, halted=halted, data=replace(data, broken=data.broken - {execution.step}))


def _kept(data: DataState, known: dict[str, tuple[str, ...]], new: str) -> dict[str, tuple[str, ...]]:
    """Without what is known of executions whose results nobody takes any more."""
    if len(known) < 2 * len(data.latest) + 8:
        return known
    wanted = {*data.available.values(), *data.latest.values(), *(hold.key for hold in data.held.values()), new}
    return {key: told for key, told in known.items() if key in wanted}


def _go_back(graph: Graph, state: GraphState, data: DataState, step: str, verdict: Verdict) -> DataState:
    """A rule goes back to a step: one round more, and a new frame for every loop inside."""
    target, shape = verdict.target, graph.shape
    rounds = {rule: n for rule, n in data.rounds.items() if rule not in shape.inner_rules(step, target)}
    rounds[rule_key(step, verdict.rule)] = data.rounds.get(rule_key(step, verdict.rule), 0) + 1
    inner = shape.inner_heads(target)
    return replace(
        _call_again(graph, data, target),
        rounds=rounds,
        turned=(data.turned - inner) | {target},
        floors={**data.floors, **dict.fromkeys(inner, state.counts)},
    )


def _call_again(graph: Graph, data: DataState, step: str) -> DataState:
    """A step is to run again; what depends on it is out of date, and what was left out may be wanted now."""
    below = graph.shape.below(step) | {step}
    return replace(
        data,
        forced=data.forced | {step},
        available=_without(data.available, step),
        skipped=data.skipped - below,
        excused=data.excused - below,
    )


def _resume(graph: Graph, state: GraphState, data: DataState) -> GraphState:
    for step, hold in data.held.items():
        if hold.failed:
            data = _call_again(graph, data, step)
        else:
            data = replace(data, available={**data.available, step: hold.key})
    return replace(state, data=replace(data, held={}, paused=None))


def _rerun(graph: Graph, state: GraphState, data: DataState, fact: Rerun) -> GraphState:
    step = fact.step
    fresh = {rule_key(step, rule) for rule, _ in graph.shape.wired[step].loops}
    data = replace(
        _call_again(graph, data, step),
        rounds={rule: n for rule, n in data.rounds.items() if rule not in fresh},
        held=_without(data.held, step),
        inside={**data.inside, step: fact.inside} if fact.inside else _without(data.inside, step),
        again={key: execution for key, execution in data.again.items() if execution.step != step},
    )
    waiting = {key: execution for key, execution in state.waiting.items() if execution.step != step}
    return replace(state, waiting=waiting, data=data)


def _without(mapping: dict[str, V], key: str) -> dict[str, V]:
    return {k: v for k, v in mapping.items() if k != key} if key in mapping else mapping
