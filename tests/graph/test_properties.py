"""Random programs, random interleavings, every prefix: resuming ends as some uninterrupted run with that prefix ends."""

from __future__ import annotations

import hashlib
from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.graph import (
    AllOf,
    AnyOf,
    Began,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Condition,
    Execution,
    Fact,
    Fail,
    Failed,
    Graph,
    GraphState,
    Node,
    Source,
    Start,
    Started,
    Waiting,
    decide,
    each_label,
    evolve,
    failure_label,
    fold,
    gathered_label,
    route_label,
)

ROUTES = ("left", "right", "again")


def conditions(labels: tuple[str, ...]) -> st.SearchStrategy[Condition]:
    return st.recursive(
        st.sampled_from(labels).map(Source),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: AllOf(tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        ),
        max_leaves=3,
    )


def triggers(before: list[str]) -> st.SearchStrategy[Condition]:
    """What may trigger a step: those before it, their failures, what ran for each of their items; a route."""
    labels = [label(name) for name in before for label in (str, str, failure_label, gathered_label)]
    each = st.sampled_from(before).map(
        lambda name: Source(each_label(name))
    )  # alone: it runs as often as there are items
    return st.one_of(conditions((*labels, *map(route_label, ROUTES))), each)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to six steps; one or two starts; listeners of anything defined before them, or of a route (so loops occur)."""
    names = [f"s{n}" for n in range(draw(st.integers(2, 6)))]
    starts = draw(st.integers(1, 2))
    nodes: list[Node] = []
    for index, name in enumerate(names):
        router = draw(st.booleans())
        routes = ROUTES if router and draw(st.booleans()) else ()
        if index < starts:
            nodes.append(Node(name, is_start=True, is_router=router, routes=routes))
        else:
            nodes.append(Node(name, draw(triggers(names[:index])), is_router=router, routes=routes))
    return Graph("random", tuple(nodes), max_calls=4)


class World:
    """What each execution does, fixed by its key, so that two runs of one program differ in their timing alone."""

    def __init__(self, graph: Graph, seed: int, failing: bool) -> None:
        self.graph, self.seed, self.failing = graph, seed, failing

    def outcome(self, execution: Execution) -> Fact:
        luck = hashlib.sha256(f"{self.seed}{execution.key}".encode()).digest()
        if self.failing and luck[0] < 40:
            return Failed(execution.step, execution.number, f"{execution.key} broke")
        route = ROUTES[luck[1] % 3] if self.graph.by_name[execution.step].is_router else None
        items = luck[2] % 3 if execution.step in self.graph.spreading else None
        return Completed(execution.step, execution.number, route, items)


def play(world: World, facts: list[Fact], data: st.DataObject, limit: int = 1000) -> list[Fact]:
    """Go on from `facts` to the end, choosing at random what finishes next."""
    facts = [*facts, Began()]
    state = fold(world.graph, facts)
    for _ in range(limit):
        commands = decide(world.graph, state)
        if any(isinstance(c, Complete | Fail) for c in commands):
            return facts
        for command in commands:
            fact: Fact | None = None
            if isinstance(command, Start):
                fact = Started(command.execution.step, command.execution.number)
            elif isinstance(command, Cancel):
                fact = Cancelled(command.execution.step, command.execution.number)
            if fact is not None:
                facts.append(fact)
                state = evolve(world.graph, state, fact)
        if not commands:
            chosen = data.draw(st.sampled_from(sorted(state.running)))
            fact = world.outcome(state.running[chosen])
            facts.append(fact)
            state = evolve(world.graph, state, fact)
    raise AssertionError("the program did not end")


def ends(state: GraphState) -> tuple[object, ...]:
    """What a run amounts to when it is over."""
    batches = (state.batches, state.left)
    return state.counts, state.last, state.won, state.arrived, batches, sorted(state.errors), sorted(state.tolerated)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 10_000), st.booleans(), st.data())
def test_s1_17_any_prefix_resumes_to_an_end_that_an_uninterrupted_run_could_have(
    graph: Graph, seed: int, failing: bool, data: st.DataObject
) -> None:
    world = World(graph, seed, failing)
    whole = play(world, [], data)
    cut = data.draw(st.integers(1, len(whole)))
    prefix = whole[:cut]
    if any(isinstance(command, Fail) for command in decide(graph, fold(graph, prefix))) or fold(graph, prefix).errors:
        return  # the run has failed: resuming it is a retry, which is another story
    resumed = play(world, prefix, data)
    tail = resumed[cut + 1 :]  # without the Began of the resume
    uninterrupted = fold(graph, [*prefix, *tail])
    assert ends(fold(graph, resumed)) == ends(uninterrupted)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 10_000), st.data())
def test_s1_17_no_execution_with_a_recorded_result_runs_again(graph: Graph, seed: int, data: st.DataObject) -> None:
    world = World(graph, seed, failing=False)
    facts = play(world, [], data)
    for _ in range(3):
        facts = play(world, facts[: data.draw(st.integers(1, len(facts)))], data)
    completed: set[tuple[str, int]] = set()
    for fact in facts:
        if isinstance(fact, Started):
            assert (fact.step, fact.number) not in completed
        if isinstance(fact, Completed):
            assert (fact.step, fact.number) not in completed
            completed.add((fact.step, fact.number))


@settings(max_examples=100, deadline=None)
@given(graphs(), st.integers(0, 10_000), st.data())
def test_a_failed_run_that_is_resumed_without_the_fault_ends(graph: Graph, seed: int, data: st.DataObject) -> None:
    facts = play(World(graph, seed, failing=True), [], data)
    repaired = World(graph, seed, failing=False)
    again = play(repaired, facts, data)
    final = fold(graph, again)
    assert not final.running
    looped = any(execution.number > graph.max_calls for execution in final.ready)
    assert looped or not final.halted


def facts_about(graph: Graph) -> st.SearchStrategy[Fact]:
    """Whatever may be told: of executions there are and of others, in time or too late."""
    step, number = st.sampled_from([*graph.by_name, "gone"]), st.integers(1, 3)
    route, items = st.sampled_from((None, *ROUTES, "nowhere")), st.sampled_from((None, 0, 2))
    return st.one_of(
        st.just(Began()),
        st.builds(Started, step, number),
        st.builds(Completed, step, number, route, items),
        st.builds(Failed, step, number, st.just("broke")),
        st.builds(Cancelled, step, number),
        st.builds(Waiting, step, number),
    )


@settings(max_examples=100, deadline=None)
@given(graphs(), st.integers(0, 10_000), st.data())
def test_the_core_changes_nothing_in_place(graph: Graph, seed: int, data: st.DataObject) -> None:
    facts = play(World(graph, seed, failing=True), [], data)
    states = [GraphState()]
    copies = [deepcopy(states[0])]
    for fact in facts:
        for told in (*data.draw(st.lists(facts_about(graph), max_size=1)), fact):
            states.append(evolve(graph, states[-1], told))
            copies.append(deepcopy(states[-1]))
            decide(graph, states[-1])
    assert states == copies
    assert list(map(repr, states)) == list(map(repr, copies))  # in the same order, too
