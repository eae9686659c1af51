"""The pure core where data drives the steps: what is current, ready, skipped and settled; loops and their frames."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.graph import (
    Began,
    Cancel,
    Cancelled,
    Command,
    Complete,
    Completed,
    Fact,
    Fail,
    Failed,
    Graph,
    GraphState,
    Judge,
    Need,
    Node,
    Origin,
    Park,
    Paused,
    Rerun,
    Resumed,
    Skip,
    Skipped,
    Start,
    Started,
    Verdict,
    Waiting,
    Wiring,
    attempt_of,
    current_results,
    decide,
    evolve,
    fold,
    judge,
    rounds_of,
    wake,
)


def wired(name: str, *needs: str | Need, loops: tuple[tuple[str, str], ...] = (), **more: bool) -> Wiring:
    """`"a"` needs a's result, `"a?"` takes it if there is one, `"a~"` waits until it is resolved."""
    return Wiring(name, tuple(map(_need, needs)), loops=loops, **more)


def _need(need: str | Need) -> Need:
    if isinstance(need, Need):
        return need
    return Need((Origin(need.rstrip("?~")),), optional=need.endswith("?"), resolved=need.endswith("~"))


def any_of(*steps: str) -> Need:
    return Need(tuple(map(Origin, steps)))


def back(step: str, head: str) -> Need:
    return Need((Origin(step, head),), optional=True)


class Play:
    """Plays a graph by hand: starts what is ready, and ends what the test says."""

    def __init__(self, *wirings: Wiring, when: dict[str, bool] | None = None, max_calls: int = 100) -> None:
        self.graph = Graph("test", tuple(Node(w.step) for w in wirings), max_calls, wiring=wirings)
        self.state, self.facts, self.when = GraphState(), list[Fact](), when or {}
        self.last: list[Command] = []
        self.happen(Began())

    def happen(self, fact: Fact) -> None:
        self.facts.append(fact)
        self.state = evolve(self.graph, self.state, fact)
        self.go_on()

    def go_on(self) -> None:
        while True:
            self.last = decide(self.graph, self.state)
            asides = [c for c in self.last if isinstance(c, Judge | Skip | Start | Cancel)]
            if not asides:
                return
            for command in asides:
                self._do(command)

    def _do(self, command: Command) -> None:
        if isinstance(command, Judge):
            self.state = judge(self.state, command, self.when.get(command.step, True))
            return
        fact: Fact
        if isinstance(command, Skip):
            fact = Skipped(command.step)
        elif isinstance(command, Start):
            execution = command.execution
            fact = Started(execution.step, execution.number, execution.uses, execution.tries, execution.fallback)
        else:
            assert isinstance(command, Cancel)
            fact = Cancelled(command.execution.step, command.execution.number)
        self.facts.append(fact)
        self.state = evolve(self.graph, self.state, fact)

    def number(self, step: str) -> int:
        return max(int(k.rpartition("#")[2]) for k in self.state.in_flight if k.startswith(f"{step}#"))

    def done(self, step: str, verdict: Verdict | None = None) -> None:
        self.happen(Completed(step, self.number(step), verdict=verdict))

    def all_done(self, *steps: str) -> None:
        for step in steps:
            self.done(step)

    def fail(self, step: str, verdict: Verdict | None = None) -> None:
        self.happen(Failed(step, self.number(step), f"{step} broke", verdict))

    def loop(self, step: str, target: str, rule: str = "again") -> None:
        self.done(step, Verdict("loop", rule, target))

    @property
    def running(self) -> set[str]:
        return set(self.state.running)

    def uses(self, step: str) -> tuple[str, ...]:
        return next(e.uses for e in self.state.running.values() if e.step == step)

    @property
    def skipped(self) -> set[str]:
        assert self.state.data is not None
        return set(self.state.data.skipped)


def test_a_step_runs_once_what_it_needs_has_a_result_and_is_given_that() -> None:
    play = Play(wired("a"), wired("b", "a"))
    assert play.running == {"a#1"}
    play.done("a")
    assert play.running == {"b#1"}
    assert play.uses("b") == ("a#1",)
    play.done("b")
    assert play.last == [Complete("b#1")]


def test_steps_that_need_nothing_of_one_another_run_at_once() -> None:
    assert Play(wired("a"), wired("b")).running == {"a#1", "b#1"}


def test_of_several_sources_the_first_in_the_files_order_that_has_a_result_is_taken() -> None:
    play = Play(wired("a"), wired("b"), wired("c", any_of("a", "b")))
    play.done("b")
    assert play.uses("c") == ("b#1",)
    play.done("a")  # a better source makes nothing run again
    play.done("c")
    assert play.last == [Complete("c#1")]


def test_an_optional_source_is_awaited_as_long_as_it_may_come() -> None:
    play = Play(wired("a"), wired("b", "a?"))
    assert play.running == {"a#1"}
    play.done("a")
    assert play.uses("b") == ("a#1",)


def test_an_optional_source_that_failed_for_good_is_absent() -> None:
    play = Play(wired("a"), wired("b", "a?"))
    play.fail("a", Verdict("continue"))
    assert play.uses("b") == ("",)


def test_a_step_whose_condition_does_not_hold_is_skipped_and_so_is_what_needs_it() -> None:
    play = Play(wired("a", guarded=True), wired("b", "a"), wired("c"), when={"a": False})
    play.done("c")
    assert play.skipped == {"a", "b"}
    assert play.last == [Complete("c#1")]


def test_a_skipped_step_counts_for_those_who_only_want_it_resolved() -> None:
    play = Play(wired("a", guarded=True), wired("b", "a~"), wired("c", "a?"), when={"a": False})
    assert play.running == {"b#1", "c#1"}
    assert play.uses("b") == ("",)


def test_a_condition_is_asked_again_when_what_it_looks_at_has_changed() -> None:
    play = Play(wired("a"), wired("r", "a", loops=(("again", "a"),)), wired("b", "a", guarded=True), when={"b": False})
    play.done("a")
    play.when["b"] = True
    play.loop("r", "a")
    play.done("a")
    assert play.running == {"b#1", "r#2"}
    assert play.uses("b") == ("a#2",)


def test_a_rule_that_goes_back_runs_its_target_and_all_that_depends_on_it_again() -> None:
    play = Play(wired("a"), wired("b", "a"), wired("c", "b", loops=(("again", "a"),)), wired("d", "c"))
    play.all_done("a", "b")
    play.loop("c", "a")
    assert play.running == {"a#2"}
    play.done("a")
    assert play.uses("b") == ("a#2",)
    play.all_done("b", "c")
    assert play.running == {"d#1"}


def test_nothing_is_given_a_result_that_a_loop_is_replacing() -> None:
    play = Play(wired("a"), wired("r", "a", loops=(("again", "a"),)), wired("d", "a", "x"), wired("x"))
    play.done("a")
    play.loop("r", "a")
    play.done("x")
    assert play.running == {"a#2"}
    play.done("a")
    assert play.uses("d") == ("a#2", "x#1")


def test_a_result_made_from_something_out_of_date_is_made_again() -> None:
    play = Play(wired("a"), wired("b", "a"), wired("r", "a", loops=(("again", "a"),)), wired("c", "b", "r"))
    play.done("a")
    play.loop("r", "a")  # b#1 still runs, on a#1
    play.done("a")
    play.done("b")
    assert "b#2" in play.running
    play.all_done("r", "b")
    assert play.uses("c") == ("b#2", "r#2")


def test_what_a_loop_brings_back_is_absent_first_then_the_latest_and_makes_nothing_run_by_itself() -> None:
    play = Play(wired("a", back("r", "a")), wired("r", "a", loops=(("again", "a"),)))
    assert play.uses("a") == ("",)
    play.done("a")
    play.loop("r", "a")
    assert play.uses("a") == ("r#1",)
    play.done("a")
    play.done("r")
    assert play.last == [Complete("r#2")]


def nested() -> Play:
    """outer: a … o; inner: b … i."""
    return Play(
        wired("a", back("o", "a")),
        wired("b", "a", back("i", "b")),
        wired("i", "b", loops=(("inner", "b"),)),
        wired("o", "i", loops=(("outer", "a"),)),
    )


def test_an_inner_loop_has_a_frame_of_its_own_in_every_round_of_the_outer() -> None:
    play = nested()
    play.all_done("a", "b")
    play.loop("i", "b", "inner")
    assert play.uses("b") == ("a#1", "i#1")
    play.all_done("b", "i")
    assert rounds_of(play.state, "i", "inner") == 1
    play.loop("o", "a", "outer")
    assert rounds_of(play.state, "i", "inner") == 0
    assert play.uses("a") == ("o#1",)
    play.done("a")
    assert play.uses("b") == ("a#2", "")
    play.done("b")
    play.loop("i", "b", "inner")
    assert play.uses("b") == ("a#2", "i#3")
    assert rounds_of(play.state, "o", "outer") == 1


def test_run_again_in_the_first_iteration_a_step_still_gets_nothing_from_its_loop() -> None:
    play = Play(
        wired("a"),
        wired("x"),
        wired("b", "a", "x", back("i", "b")),
        wired("i", "b", loops=(("inner", "b"),)),
        wired("o", "i", loops=(("outer", "a"),)),
    )
    play.all_done("a", "x", "b")
    play.loop("i", "b", "inner")
    play.all_done("b", "i")
    play.loop("o", "a", "outer")
    play.all_done("a", "b", "i")
    play.happen(Rerun("x"))
    play.done("x")
    assert play.uses("b") == ("a#2", "x#2", "")


def test_attempts_are_counted_in_the_frame_of_the_loop_around_a_step() -> None:
    play = nested()
    play.all_done("a", "b")
    play.loop("i", "b", "inner")
    assert attempt_of(play.graph, play.state, play.state.running["b#2"]) == 2
    play.all_done("b", "i")
    play.loop("o", "a", "outer")
    assert attempt_of(play.graph, play.state, play.state.running["a#2"]) == 2
    play.done("a")
    assert attempt_of(play.graph, play.state, play.state.running["b#3"]) == 1


def test_a_skipped_step_is_wanted_again_when_a_loop_goes_back_before_it() -> None:
    play = Play(wired("a"), wired("b", "a", guarded=True), wired("c", "b~", loops=(("again", "a"),)), when={"b": False})
    play.done("a")
    assert play.skipped == {"b"}
    play.when["b"] = True
    play.loop("c", "a")
    play.done("a")
    assert play.running == {"b#1"}
    play.done("b")
    assert play.uses("c") == ("b#1",)


def test_a_step_that_waited_for_a_skipped_one_runs_again_when_that_has_a_result_after_all() -> None:
    play = Play(
        wired("a"),
        wired("b", "a", guarded=True),
        wired("c", "b~"),
        wired("d", "c", loops=(("again", "a"),)),
        when={"b": False},
    )
    play.all_done("a", "c")
    play.when["b"] = True
    play.loop("d", "a")
    play.all_done("a", "b")
    assert play.uses("c") == ("b#1",)


def test_a_failure_fails_the_run_once_everything_else_has_stopped() -> None:
    play = Play(wired("a"), wired("b"))
    play.fail("a")
    assert play.last == [Fail(("a broke",))]
    assert "b#1" in play.state.halted


def test_retry_and_fallback_run_the_same_execution_again() -> None:
    play = Play(wired("a"))
    play.fail("a", Verdict("retry", not_before_us=5))
    assert play.state.running["a#1"].tries == 1
    play.fail("a", Verdict("fallback"))
    assert play.state.running["a#1"].fallback
    play.done("a")
    assert play.last == [Complete("a#1")]


def test_a_step_that_failed_without_failing_the_run_lets_it_complete() -> None:
    play = Play(wired("a"), wired("b", "a"))
    play.fail("a", Verdict("continue"))
    assert play.skipped == {"b"}
    assert play.last == [Complete(None)]


def test_a_rule_may_let_others_take_that_a_step_failed() -> None:
    play = Play(wired("a"), wired("b", "a"))
    play.fail("a", Verdict("advance", "anyway"))
    assert play.uses("b") == ("a#1",)


def test_escalating_lets_what_runs_finish_and_starts_nothing() -> None:
    play = Play(wired("a"), wired("b", "a"), wired("c"), wired("d", "c"))
    play.done("a", Verdict("escalate", "ask"))
    assert play.running == {"c#1"}
    play.done("c")
    assert play.last == [Park()]
    play.happen(Resumed())
    assert play.running == {"b#1", "d#1"}


def test_resuming_after_a_failure_runs_the_step_anew() -> None:
    play = Play(wired("a"))
    play.fail("a", Verdict("escalate", "ask"))
    play.happen(Resumed())
    assert play.running == {"a#2"}


def test_rerunning_an_escalated_step_counts_its_loop_anew() -> None:
    play = Play(wired("a"), wired("b", "a", loops=(("again", "a"),)))
    play.done("a")
    play.loop("b", "a")
    play.done("a")
    play.done("b", Verdict("escalate", "again"))
    play.happen(Rerun("b"))
    assert play.running == {"b#3"}
    assert rounds_of(play.state, "b", "again") == 0


def test_abandoning_fails_the_run_and_says_by_which_rule() -> None:
    play = Play(wired("a"), wired("b"))
    play.done("a", Verdict("abandon", "hopeless"))
    assert play.state.data is not None
    assert play.state.data.failure is not None
    assert (play.state.data.failure.reason, play.state.data.failure.step) == ("abandoned", "a")
    assert play.last == [Fail(("abandoned at step a by rule hopeless",))]


def test_a_paused_run_parks_when_its_last_step_is_done() -> None:
    play = Play(wired("a"), wired("b", "a"))
    play.happen(Paused("lunch"))
    assert play.running == {"a#1"}
    play.done("a")
    assert play.last == [Park()]
    play.happen(Resumed())
    assert play.running == {"b#1"}


def test_a_run_parks_only_when_nothing_but_waiting_is_left() -> None:
    play = Play(wired("a"), wired("b"))
    play.happen(Waiting("a", 1, until_us=9, since_us=3))
    assert play.last == []
    play.done("b")
    assert play.last == [Park()]
    play.state = wake(play.state, "a#1")
    play.go_on()
    assert play.state.running["a#1"].since_us == 3


def test_what_waits_on_something_out_of_date_is_withdrawn_and_asked_anew() -> None:
    play = Play(wired("a"), wired("w", "a"), wired("r", "a", loops=(("again", "a"),)))
    play.done("a")
    play.happen(Waiting("w", 1))
    play.loop("r", "a")
    assert play.running == {"a#2"}
    play.done("a")
    assert play.uses("w") == ("a#2",)


def test_a_run_whose_last_step_went_back_to_one_that_cannot_run_has_reached_no_end() -> None:
    play = Play(wired("a", guarded=True), wired("r", "a", loops=(("again", "a"),)))
    play.done("a")
    play.when["a"] = False
    assert play.state.data is not None
    play.state = replace(
        play.state, data=replace(play.state.data, judged={})
    )  # a loop's value would make it look again
    play.loop("r", "a")
    (ended,) = play.last
    assert isinstance(ended, Fail)
    assert ended.errors[0].startswith("no_terminal_reached")


def test_taken_up_again_what_was_in_flight_runs_again_and_what_is_done_does_not() -> None:
    play = Play(wired("a"), wired("b", "a"), wired("c", "a"))
    play.all_done("a", "b")
    play.happen(Began())
    assert play.running == {"c#1"}


def test_taken_up_again_a_step_that_must_not_run_twice_waits_for_a_person() -> None:
    play = Play(wired("a", once=True))
    play.happen(Began())
    assert play.last == [Park()]
    play.happen(Resumed())
    assert play.running == {"a#2"}


def test_a_failed_run_taken_up_again_runs_the_step_that_failed_anew_and_its_cut_off_siblings_again() -> None:
    play = Play(wired("a"), wired("b"))
    play.fail("a")
    play.happen(Began())
    assert play.running == {"a#2", "b#1"}


def test_a_loop_without_a_bound_is_noticed() -> None:
    play = Play(wired("a", loops=(("again", "a"),)), max_calls=3)
    for _ in range(3):
        play.loop("a", "a")
    (ended,) = play.last
    assert isinstance(ended, Fail)
    assert "max_iterations" in ended.errors[0]


@pytest.mark.parametrize("late", [Completed("a", 1), Failed("a", 1, "late"), Cancelled("a", 1), Waiting("a", 1)])
def test_what_comes_late_changes_nothing(late: Fact) -> None:
    play = Play(wired("a"), wired("b", "a"))
    play.done("a")
    assert evolve(play.graph, play.state, late) == play.state


def test_what_is_current_follows_from_the_facts_alone() -> None:
    play = nested()
    play.all_done("a", "b")
    play.loop("i", "b", "inner")
    play.all_done("b", "i")
    assert current_results(play.graph, fold(play.graph, play.facts)) == {"a": "a#1", "b": "b#2", "i": "i#2"}


def test_a_result_that_lacks_what_is_looked_for_is_passed_over_until_nothing_else_can_come() -> None:
    either = Need((Origin("a", path="n"), Origin("b", path="n")))
    play = Play(wired("a"), wired("b"), wired("c", either))
    play.done("a", Verdict("advance", lacks=("n",)))
    assert play.running == {"b#1"}
    play.done("b")
    assert play.uses("c") == ("b#1",)
    play = Play(wired("a"), wired("b"), wired("c", either))
    play.done("b", Verdict("advance", lacks=("n",)))
    play.done("a", Verdict("advance", lacks=("n",)))
    assert play.uses("c") == ("a#1",)
    assert fold(play.graph, play.facts) == play.state
