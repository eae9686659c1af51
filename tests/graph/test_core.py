"""The pure core: what triggers what, races, loops, failures, and what a resume does."""

from __future__ import annotations

import sys

from holdfast.graph import (
    AllOf,
    AnyOf,
    Began,
    Cancel,
    Cancelled,
    Command,
    Complete,
    Completed,
    Condition,
    Fact,
    Fail,
    Failed,
    Graph,
    GraphState,
    Node,
    Park,
    Source,
    Start,
    Started,
    Waiting,
    decide,
    evolve,
    fold,
    route_label,
)


def start(name: str) -> Node:
    return Node(name, is_start=True)


def listen(name: str, trigger: Condition, *routes: str, router: bool = False) -> Node:
    return Node(name, trigger, is_router=router or bool(routes), routes=routes)


def any_of(*labels: str) -> AnyOf:
    return AnyOf(tuple(Source(label) for label in labels))


def all_of(*labels: str) -> AllOf:
    return AllOf(tuple(Source(label) for label in labels))


class Play:
    """Plays a graph by hand: starts what is to be started, and finishes what the test says."""

    def __init__(self, *nodes: Node, max_calls: int = 100) -> None:
        self.graph = Graph("test", nodes, max_calls)
        self.state = GraphState()
        self.facts: list[Fact] = []
        self.happen(Began())

    def happen(self, fact: Fact) -> None:
        self.facts.append(fact)
        self.state = evolve(self.graph, self.state, fact)
        for command in decide(self.graph, self.state):
            if isinstance(command, Start):
                self.happen(Started(command.execution.step, command.execution.number))
                return

    def finish(self, step: str, number: int = 1, route: str | None = None) -> None:
        assert f"{step}#{number}" in self.state.in_flight, f"{step}#{number} is not in flight: {self.running}"
        self.happen(Completed(step, number, route))

    def fail(self, step: str, number: int = 1, error: str = "broke") -> None:
        self.happen(Failed(step, number, error))

    @property
    def running(self) -> set[str]:
        return set(self.state.running)

    @property
    def next(self) -> list[Command]:
        return decide(self.graph, self.state)


def test_starts_run_at_once_and_a_listener_after_its_source() -> None:
    play = Play(start("a"), start("b"), listen("c", Source("a")))
    assert play.running == {"a#1", "b#1"}
    play.finish("a")
    assert play.running == {"b#1", "c#1"}
    assert play.state.running["c#1"].cause == "a#1"
    play.finish("b")
    play.finish("c")
    assert play.next == [Complete("c#1")]


def test_all_of_waits_for_every_source_and_is_given_the_last() -> None:
    play = Play(start("a"), start("b"), listen("c", all_of("a", "b")))
    play.finish("b")
    assert play.running == {"a#1"}
    play.finish("a")
    assert play.state.running["c#1"].cause == "a#1"


def test_any_of_fires_once_a_wave() -> None:
    play = Play(start("a"), start("b"), listen("x", Source("b")), listen("c", any_of("a", "b")))
    play.finish("a")
    assert play.running == {"b#1", "c#1"}
    play.finish("b")
    assert play.running == {"c#1", "x#1"}
    assert play.state.counts["c"] == 1


def test_a_router_result_begins_a_new_wave() -> None:
    play = Play(
        start("begin"),
        listen("work", any_of("begin", route_label("again"))),
        listen("check", Source("work"), "again", "done"),
    )
    play.finish("begin")
    play.finish("work")
    play.finish("check", 1, "again")
    assert play.running == {"work#2"}
    play.finish("work", 2)
    play.finish("check", 2, "done")
    assert play.next == [Complete("check#2")]


def test_what_a_route_triggers_is_given_what_the_router_was_given() -> None:
    play = Play(start("a"), listen("r", Source("a"), "left"), listen("l", Source(route_label("left"))))
    play.finish("a")
    play.finish("r", 1, "left")
    assert play.state.running["l#1"].cause == "a#1"


def test_what_a_route_triggers_is_given_the_result_of_a_router_that_hands_it_on() -> None:
    router = Node("r", Source("a"), is_router=True, routes=("left",), hands_on=True)
    play = Play(start("a"), router, listen("l", Source(route_label("left"))))
    play.finish("a")
    play.finish("r", 1, "left")
    assert play.state.running["l#1"].cause == "r#1"


def test_a_router_triggers_those_who_listen_to_its_name_too() -> None:
    play = Play(start("a"), listen("r", Source("a"), "left"), listen("n", Source("r")))
    play.finish("a")
    play.finish("r", 1, "left")
    assert play.running == {"n#1"}


def test_a_route_of_a_step_that_is_no_router_triggers_nothing() -> None:
    play = Play(start("a"), listen("l", Source(route_label("left"))))
    play.finish("a", 1, "left")
    assert play.next == [Complete("a#1")]


def test_a_loser_that_feeds_nothing_else_is_cancelled() -> None:
    play = Play(start("a"), start("b"), listen("c", any_of("a", "b")))
    play.finish("a")
    cancelled = [c for c in play.next if isinstance(c, Cancel)]
    assert [c.execution.key for c in cancelled] == ["b#1"]
    play.happen(Cancelled("b", 1))
    assert play.running == {"c#1"}
    assert not play.state.halted


def test_a_loser_that_feeds_something_else_goes_on() -> None:
    play = Play(start("a"), start("b"), listen("c", any_of("a", "b")), listen("d", Source("b")))
    play.finish("a")
    assert play.next == []


def test_one_racer_may_fail_while_another_can_win() -> None:
    play = Play(start("a"), start("b"), listen("c", any_of("a", "b")))
    play.fail("a")
    assert play.next == []
    play.finish("b")
    play.finish("c")
    assert play.next == [Complete("c#1")]


def test_if_all_racers_fail_the_run_fails_with_all_errors() -> None:
    play = Play(start("a"), start("b"), listen("c", any_of("a", "b")))
    play.fail("a", error="first")
    play.fail("b", error="second")
    assert play.next == [Fail(("first", "second"))]


def test_a_race_that_nobody_wins_in_the_end_fails_with_the_errors_of_those_who_lost() -> None:
    play = Play(start("a"), start("s"), listen("b", Source(route_label("go"))), listen("r", Source("s"), "go", "stop"),
                listen("c", any_of("a", "b")))  # fmt: skip
    play.fail("a", error="first")
    play.finish("s")
    play.finish("r", 1, "stop")
    assert play.next == [Fail(("first",))]


def test_a_failure_cancels_the_siblings_and_then_fails_the_run() -> None:
    play = Play(start("a"), start("b"), listen("c", Source("a")))
    play.fail("a")
    assert [c.execution.key for c in play.next if isinstance(c, Cancel)] == ["b#1"]
    play.happen(Cancelled("b", 1))
    assert play.next == [Fail(("broke",))]


def test_resuming_a_failed_run_runs_what_failed_and_what_was_stopped_for_it() -> None:
    play = Play(start("a"), start("b"), listen("c", Source("a")))
    play.fail("a")
    play.happen(Cancelled("b", 1))
    play.happen(Began())
    assert play.running == {"a#1", "b#1"}
    play.finish("a")
    play.finish("b")
    play.finish("c")
    assert play.next == [Complete("c#1")]


def test_s1_17_a_half_satisfied_all_of_survives_a_resume() -> None:
    play = Play(start("a"), start("b"), listen("c", all_of("a", "b")))
    play.finish("a")
    play.happen(Began())
    assert play.running == {"b#1"}
    play.finish("b")
    assert play.running == {"c#1"}


def test_s1_17_a_finished_router_whose_route_had_not_started_fires_after_a_resume() -> None:
    play = Play(start("a"), listen("r", Source("a"), "left"), listen("l", Source(route_label("left"))))
    play.finish("a")
    state = fold(play.graph, [*play.facts, Completed("r", 1, "left")])
    resumed = evolve(play.graph, state, Began())
    assert [c.execution.key for c in decide(play.graph, resumed) if isinstance(c, Start)] == ["l#1"]


def test_s1_17_siblings_in_flight_at_a_crash_run_again_under_the_same_key() -> None:
    play = Play(start("a"), start("b"))
    play.happen(Began())
    assert play.running == {"a#1", "b#1"}
    assert play.state.counts == {"a": 1, "b": 1}


def test_a_loser_in_flight_at_a_crash_does_not_run_again() -> None:
    play = Play(start("a"), start("b"), listen("c", any_of("a", "b")))
    play.finish("a")
    play.happen(Began())
    assert play.running == {"c#1"}


def test_a_waiting_step_parks_the_run_and_goes_on_when_it_completes() -> None:
    play = Play(start("ask"), listen("act", Source("ask")))
    play.happen(Waiting("ask", 1))
    assert play.next == [Park()]
    play.happen(Began())
    assert play.running == {"ask#1"}  # taken up again, it asks again; who asks knows what was answered
    play.finish("ask")
    assert play.running == {"act#1"}


def test_a_loop_without_end_fails_and_goes_on_under_a_higher_limit() -> None:
    nodes = (start("a"), listen("work", any_of("a", route_label("again"))), listen("r", Source("work"), "again"))
    play = Play(*nodes, max_calls=2)
    play.finish("a")
    for number in (1, 2):
        play.finish("work", number)
        play.finish("r", number, "again")
    [failed] = play.next
    assert isinstance(failed, Fail)
    assert "work was triggered 3 times" in failed.errors[0]
    higher = Graph("test", nodes, 5)
    assert [c.execution.key for c in decide(higher, play.state) if isinstance(c, Start)] == ["work#3"]


def test_routes_that_nobody_listens_to_lead_nowhere_and_are_not_remembered() -> None:
    play = Play(start("a"), listen("r", any_of("a", route_label("again")), router=True), max_calls=1000)
    play.finish("a")
    for number in range(1, 100):
        play.finish("r", number, "again")
    known = len(play.graph.sequels)
    for number in range(100):
        evolve(play.graph, play.state, Completed("r", 100, f"nowhere{number}"))
    assert len(play.graph.sequels) <= known + 1
    play.finish("r", 100, "nowhere")
    assert play.next == [Complete("r#100")]


def test_facts_about_steps_that_a_change_took_away_change_nothing() -> None:
    play = Play(start("a"), start("b"), listen("c", Source("a")))
    rest = Graph("test", (start("b"),))
    ready = fold(play.graph, [Began()])
    for state, fact in (
        (ready, Started("a", 1)),
        (play.state, Completed("a", 1)),
        (play.state, Failed("a", 1, "broke")),
        (play.state, Waiting("a", 1)),
        (play.state, Cancelled("a", 1)),
    ):
        assert evolve(rest, state, fact) == state


def test_a_step_in_a_loop_makes_few_calls() -> None:
    # each costs, most of all after a commit, when nothing is in the processor's caches: see bench/rows/flows.py
    graph = Graph("loop", (start("a"), listen("work", any_of("a", route_label("again")), "again", "done")))
    state = fold(graph, [Began(), Started("a", 1), Completed("a", 1), Started("work", 1)])
    state = fold(graph, [Completed("work", 1, "again"), Started("work", 2)], state)
    calls: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        state = evolve(graph, state, Completed("work", 2, "again"))
        decide(graph, state)
        evolve(graph, state, Started("work", 3))
    finally:
        sys.setprofile(before)
    assert calls == ["evolve", "_complete", "_arrive", "decide", "evolve", "_start"]


def test_facts_that_come_late_change_nothing() -> None:
    play = Play(start("a"), start("b"))
    play.finish("a")
    before = play.state
    for late in (Completed("a", 1), Failed("a", 1, "late"), Cancelled("a", 1), Waiting("a", 1), Started("a", 1)):
        assert evolve(play.graph, before, late) == before


def test_nested_conditions_hold_as_they_are_written() -> None:
    nested = AnyOf((AllOf((Source("a"), Source("b"))), Source("c")))
    play = Play(start("a"), start("b"), start("c"), listen("d", nested))
    play.finish("a")
    assert "d#1" not in play.running
    play.finish("b")
    assert "d#1" in play.running


def test_a_route_completes_what_an_any_of_had_collected() -> None:
    # regression: the router's result wiped what had arrived before it
    both = AnyOf((AllOf((Source("a"), Source(route_label("r")))), Source("x")))
    play = Play(start("a"), listen("r0", Source("a"), "r"), Node("x", Source(route_label("never"))), listen("m", both))
    play.finish("a")
    play.finish("r0", 1, "r")
    assert play.running == {"m#1"}


def test_one_router_result_triggers_a_race_once() -> None:
    # regression: its name and its route each began a wave
    play = Play(start("a"), listen("r", Source("a"), "left"), listen("m", any_of("r", route_label("left"))))
    play.finish("a")
    play.finish("r", 1, "left")
    assert play.state.counts["m"] == 1


def test_a_race_further_along_a_loop_is_run_again_each_round() -> None:
    # regression: only a router's direct listeners got a new wave, and the second round died in silence
    play = Play(
        start("s"),
        listen("a", any_of("s", route_label("again"))),
        listen("b", any_of("s", route_label("again"))),
        listen("m", any_of("a", "b")),
        listen("r", Source("m"), "again", "done"),
    )
    play.finish("s")
    for number in (1, 2):
        play.finish("a", number)
        play.happen(Cancelled("b", number))
        play.finish("m", number)
        play.finish("r", number, "again")
    assert play.state.counts["m"] == 2
    assert play.running == {"a#3", "b#3"}


def test_a_router_that_may_take_any_route_is_no_loser_without_consequences() -> None:
    # regression: it was cancelled, and the step behind its route never ran
    play = Play(
        start("fast"), start("r0"), listen("r", Source("r0"), router=True), listen("m", any_of("fast", "r")),
        listen("side", Source(route_label("side"))),
    )  # fmt: skip
    play.finish("r0")
    play.finish("fast")
    assert not [c for c in play.next if isinstance(c, Cancel)]
    play.finish("r", 1, "side")
    assert "side#1" in play.running


def test_a_failure_after_its_race_was_won_by_another_is_not_swallowed() -> None:
    play = Play(start("a"), start("s"), listen("b", Source("s")), listen("m", any_of("a", "b")))
    play.finish("a")
    play.finish("m")
    play.finish("s")
    play.fail("b", error="late")
    assert play.next == [Fail(("late",))]


def test_resuming_a_race_that_all_lost_lets_all_try_again() -> None:
    play = Play(start("a"), start("b"), listen("c", any_of("a", "b")))
    play.fail("a", error="first")
    play.fail("b", error="second")
    play.happen(Began())
    assert play.running == {"a#1", "b#1"}
    play.finish("b")
    assert "c#1" in play.running


def test_resuming_a_race_that_nobody_could_win_lets_the_failed_try_again() -> None:
    play = Play(start("a"), start("s"), listen("b", Source(route_label("go"))), listen("r", Source("s"), "go", "stop"),
                listen("c", any_of("a", "b")))  # fmt: skip
    play.fail("a", error="first")
    play.finish("s")
    play.finish("r", 1, "stop")
    play.happen(Began())
    assert play.running == {"a#1"}
