"""Random flows, random interleavings, every prefix of the journal: what must hold whatever happens."""

from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.graph import (
    Began,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Execution,
    Fact,
    Fail,
    Failed,
    Graph,
    GraphState,
    Judge,
    Need,
    Node,
    Origin,
    Outlook,
    Park,
    Resumed,
    Skip,
    Skipped,
    Start,
    Started,
    Verdict,
    Waiting,
    Wiring,
    decide,
    evolve,
    fold,
    judge,
    rounds_of,
    wake,
)

ROUNDS = 2


@st.composite
def flows(draw: st.DrawFn) -> Graph:
    """Up to six steps that need what comes before them, in every way; rules that go back; values that loops bring back."""
    names = [f"s{n}" for n in range(draw(st.integers(2, 6)))]
    wirings = []
    for index, name in enumerate(names):
        needs = []
        for before in draw(st.lists(st.sampled_from(names[:index]), unique=True, max_size=2)) if index else []:
            kind = draw(st.sampled_from(["needs", "optional", "resolved", "any"]))
            others = [n for n in names[:index] if n != before]
            origins = (Origin(before), *((Origin(others[0]),) if kind == "any" and others else ()))
            needs.append(Need(origins, optional=kind == "optional", resolved=kind == "resolved"))
        loops: tuple[tuple[str, str], ...] = ()
        if draw(st.booleans()):
            target = draw(st.sampled_from(names[: index + 1]))
            loops = (("again", target),)
        wirings.append(Wiring(name, tuple(needs), guarded=draw(st.booleans()), nested=draw(st.booleans()), loops=loops))
    heads = {target: w.step for w in wirings for _, target in w.loops if target != w.step}
    wired = [
        replace(w, needs=(*w.needs, Need((Origin(heads[w.step], w.step),), optional=True))) if w.step in heads else w
        for w in wirings
    ]
    return Graph("random", tuple(Node(name) for name in names), 60, wiring=tuple(wired))


class World:
    """What each execution does, fixed by its key, so that two runs differ in their timing alone."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph, self.seed = graph, seed

    def luck(self, *about: object) -> bytes:
        return hashlib.sha256(f"{self.seed}{about}".encode()).digest()

    def holds(self, asked: Judge) -> bool:
        return self.luck("when", asked.step, asked.uses)[0] > 60

    def outcome(self, state: GraphState, execution: Execution) -> Fact:
        luck, step, number = self.luck(execution.key, execution.tries), execution.step, execution.number
        loops = self.graph.shape.wired[step].loops
        if luck[0] < 20 and execution.tries < 2:
            return Failed(step, number, "broke", Verdict("retry"))
        if luck[0] < 40:
            action = ("continue", "advance", "escalate", "fail")[luck[1] % 4]
            return Failed(step, number, "broke", Verdict(action, "rule"))  # type: ignore[arg-type]
        if loops and luck[2] < 120 and rounds_of(state, step, "again") < ROUNDS:
            return Completed(step, number, verdict=Verdict("loop", *loops[0]))
        if luck[3] < 10:
            return Completed(step, number, verdict=Verdict("escalate", "rule"))
        if luck[4] < 30 and execution.since_us is None:
            return Waiting(step, number, since_us=1)
        return Completed(step, number)


class Run:
    """Plays a flow to its end, choosing at random what happens next."""

    def __init__(self, world: World, facts: list[Fact]) -> None:
        self.world, self.graph = world, world.graph
        self.facts = [*facts, Began()]
        self.state = fold(self.graph, self.facts)
        self.started: list[str] = []

    def happen(self, fact: Fact) -> None:
        self.facts.append(fact)
        self.state = evolve(self.graph, self.state, fact)

    def play(self, data: st.DataObject) -> Complete | Fail:
        for _ in range(2000):
            commands = decide(self.graph, self.state)
            if len(commands) == 1 and isinstance(ended := commands[0], Complete | Fail):
                return ended
            if commands == [Park()]:
                self.unpark()
            for command in commands:
                self.do(command)
            if not commands:
                chosen = data.draw(st.sampled_from(sorted(self.state.running)))
                self.happen(self.world.outcome(self.state, self.state.running[chosen]))
        raise AssertionError("the run did not end")

    def unpark(self) -> None:
        assert self.state.data is not None
        if self.state.data.held:
            self.happen(Resumed())
        for key in list(self.state.waiting):
            self.state = wake(self.state, key)

    def do(self, command: object) -> None:
        if isinstance(command, Judge):
            self.state = judge(self.state, command, self.world.holds(command))
        elif isinstance(command, Skip):
            self.happen(Skipped(command.step))
        elif isinstance(command, Cancel):
            self.happen(Cancelled(command.execution.step, command.execution.number))
        elif isinstance(command, Start):
            self.start(command.execution)

    def start(self, execution: Execution) -> None:
        assert execution.step not in {e.step for e in self.state.in_flight.values()}, "two of one step at once"
        if execution.key not in self.started and execution.tries == 0:
            current = Outlook(self.graph, self.state)
            again = self.state.data is not None and execution.key in self.state.data.again
            assert again or not current.is_stale(execution.step, execution.uses), "given something out of date"
        self.started.append(execution.key)
        self.happen(Started(execution.step, execution.number, execution.uses, execution.tries, execution.fallback))


@settings(max_examples=150, deadline=None)
@given(flows(), st.integers(0, 10**6), st.data())
def test_every_run_ends_and_nothing_is_given_what_is_out_of_date(graph: Graph, seed: int, data: st.DataObject) -> None:
    run = Run(World(graph, seed), [])
    ended = run.play(data)
    assert not run.state.in_flight
    if isinstance(ended, Complete):
        outlook = Outlook(graph, run.state)
        for key in outlook.current.values():
            assert not outlook.is_stale(key.rpartition("#")[0], outlook.data.used[key])


@settings(max_examples=60, deadline=None)
@given(flows(), st.integers(0, 10**6), st.data())
def test_from_every_prefix_a_run_goes_on_and_nothing_with_a_result_runs_again(
    graph: Graph, seed: int, data: st.DataObject
) -> None:
    world = World(graph, seed)
    whole = Run(world, [])
    whole.play(data)
    at = data.draw(st.integers(0, len(whole.facts)))
    prefix = whole.facts[1:at]
    done = {f"{fact.step}#{fact.number}" for fact in prefix if isinstance(fact, Completed)}
    resumed = Run(world, [Began(), *prefix])
    resumed.play(data)
    assert done.isdisjoint(resumed.started)
    results = [f"{fact.step}#{fact.number}" for fact in resumed.facts if isinstance(fact, Completed)]
    assert len(results) == len(set(results)), "a result was recorded twice"


@settings(max_examples=60, deadline=None)
@given(flows(), st.integers(0, 10**6), st.data())
def test_the_fold_of_what_was_recorded_is_where_the_run_stands(graph: Graph, seed: int, data: st.DataObject) -> None:
    run = Run(World(graph, seed), [])
    run.play(data)
    again = fold(graph, run.facts)
    assert (again.counts, again.errors, again.halted) == (run.state.counts, run.state.errors, run.state.halted)
    assert Outlook(graph, again).current == Outlook(graph, run.state).current


@settings(max_examples=60, deadline=None)
@given(flows(), st.integers(0, 10**6), st.data())
def test_without_rules_and_choices_the_order_of_events_changes_nothing(
    graph: Graph, seed: int, data: st.DataObject
) -> None:
    plain = Graph(
        "plain",
        graph.nodes,
        wiring=tuple(
            Wiring(w.step, tuple(Need(n.origins[:1], n.optional, n.resolved) for n in w.needs if not n.origins[0].loop), w.guarded)
            for w in graph.wiring
        ),
    )  # fmt: skip

    class Calm(World):
        def outcome(self, state: GraphState, execution: Execution) -> Fact:
            if self.luck(execution.step)[0] < 60:
                return Failed(execution.step, execution.number, "broke", Verdict("continue"))
            return Completed(execution.step, execution.number)

    one, other = Run(Calm(plain, seed), []), Run(Calm(plain, seed), [])
    assert type(one.play(data)) is type(other.play(data))
    assert one.state.counts == other.state.counts
    assert one.state.data is not None
    assert other.state.data is not None
    assert one.state.data.skipped == other.state.data.skipped
    assert one.state.data.available == other.state.data.available
