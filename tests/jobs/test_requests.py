"""What is asked of a job at the worst moment is heard all the same: by this worker, or by the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.jobs import work
from tests.jobs.support import HERE, Bench, Control, flow, given, job_of, out, python, rule, step, variable

from holdfast.errors import StoreUnavailableError
from holdfast.events import BaseEvent
from holdfast.events.families.job import JobCompletedEvent, JobFailedEvent, JobWaitingEvent
from holdfast.events.families.step import StepCompletedEvent
from holdfast.flowfiles import External, ForEach, JobSource, Limits, ResourceRequest, SubFlow
from holdfast.ports import Ask, JobRequest, JobStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")


@contextmanager
def told(bench: Bench, event_type: type[BaseEvent], call: Callable[[Any, Any], None]) -> Iterator[None]:
    """Whoever is told of an event right where it happens."""
    bench.runtime.event_bus.on(event_type)(call)
    try:
        yield
    finally:
        bench.runtime.event_bus.off(event_type, call)


ASKS = External(), (out("n", "number"),)


class Prompt(Control):
    """Someone who answers while the job still stores what it asks."""

    async def show(self, asks: Sequence[Ask]) -> None:
        await super().show(asks)
        for ask in asks:
            self.ask("answer", ask=ask.id, values={"n": 5})
        await self.until_taken()


async def test_an_answer_that_comes_while_the_job_stores_its_question_is_heard_at_once(bench: Bench) -> None:
    work.calls.clear()
    work.gates["busy"] = gate = work.Gate()
    executor, outputs = ASKS
    made = flow(
        step("ask", executor, outputs=outputs),
        step("busy", python("through"), given("gate", "$job.gate")),
        step("use", python("count"), given("who", "$job.who"), given("got", "ask.n")),
    )
    control = Prompt()
    running = bench.start(job_of(made, {"gate": "busy", "who": "user"}), control)
    await gate.reached()
    while not work.calls["user"]:
        await control.turn()
    assert not running.done()
    gate.open()
    assert (await running).status is JobStatus.COMPLETED


@pytest.mark.parametrize("kind", ["answer", "cancel"])
async def test_what_comes_while_the_job_is_put_down_stays_for_whoever_takes_it_up(bench: Bench, kind: str) -> None:
    executor, outputs = ASKS
    job, control = job_of(flow(step("ask", executor, outputs=outputs))), Control()

    def ask(source: Any, event: JobWaitingEvent) -> None:
        control.ask(kind, ask="", values={"n": 5})

    with told(bench, JobWaitingEvent, ask):
        outcome = await bench.engine.run(job, control)
    assert outcome.status is JobStatus.WAITING
    assert control.settled == []


async def test_a_job_that_lacks_a_secret_hears_nothing_but_that_it_is_cancelled(bench: Bench) -> None:
    made = flow(step("a", python("echo"), given("key", "$job.key")), inputs=(variable("key", sensitive=True),))
    job, control = job_of(made), Control()
    asked = control.ask("resume")
    outcome = await bench.engine.run(job, control)
    assert (outcome.status, outcome.unheard, control.settled) == (JobStatus.WAITING, (asked.id,), [])
    control.ask("resume")
    control.ask("cancel", reason="enough")
    outcome = await bench.engine.run(job, control)
    assert (outcome.status, outcome.reason) == (JobStatus.CANCELLED, "enough")
    assert await bench.statuses(job) == {"a": "pending"}


async def test_an_answer_to_a_job_that_is_paused_in_the_same_moment_is_kept_until_it_goes_on(bench: Bench) -> None:
    work.gates["busy"] = gate = work.Gate()
    executor, outputs = ASKS
    made = flow(
        step("ask", executor, outputs=outputs),
        step("busy", python("through"), given("gate", "$job.gate")),
        step("use", python("echo"), given("got", "ask.n")),
    )
    job, control = job_of(made, {"gate": "busy"}), Control()
    running = bench.start(job, control)
    await gate.reached()
    (ask,) = await control.until_shown()
    control.ask("pause")
    answer = control.ask("answer", ask=ask.id, values={"n": 5})
    await control.until_taken()
    gate.open()
    outcome = await running
    assert (outcome.status, outcome.asks, outcome.unheard) == (JobStatus.PAUSED, (), (answer.id,))
    assert answer.id not in control.settled
    later = Control()
    later.queue.put_nowait(answer)
    later.ask("resume")
    outcome = await bench.engine.run(job, later)
    assert (outcome.status, outcome.outputs) == (JobStatus.COMPLETED, b'{"n":1,"got":5}')


@pytest.mark.parametrize("is_late", [False, True])
async def test_an_answer_that_a_job_which_failed_did_not_use_is_there_when_it_is_retried(
    bench: Bench, is_late: bool
) -> None:
    work.calls.clear()
    work.gates["bad"] = gate = work.Gate()
    executor, outputs = ASKS
    made = flow(
        step("ask", executor, outputs=outputs),
        step("bad", python("fails_behind"), given("gate", "$job.gate"), given("who", "$job.gate")),
    )
    job, control = job_of(made, {"gate": "bad"}), Control()
    running = bench.start(job, control)
    await gate.reached()
    (ask,) = await control.until_shown()
    answers: list[JobRequest] = []

    def answer(source: Any, event: Any) -> None:
        answers.append(control.ask("answer", ask=ask.id, values={"n": 5}))

    if not is_late:
        control.ask("pause")  # so that the answer is heard, and the step that needs it does not begin
        answer(None, None)
        await control.until_taken()
    with told(bench, JobFailedEvent, answer if is_late else ignore):
        gate.open()
        assert (await running).status is JobStatus.FAILED
    assert answers[0].id not in control.settled
    later = Control()
    later.queue.put_nowait(answers[0])
    later.ask("retry")
    later.ask("resume")
    outcome = await bench.engine.run(job, later)
    assert (outcome.status, outcome.asks) == (JobStatus.COMPLETED, ())
    assert (await bench.engine.steps(job))[0].outputs == {"n": 5}
    assert answers[0].id in later.settled


def ignore(source: Any, event: Any) -> None:
    """Nothing happens at that moment."""


class Key:
    """Something that a step holds, which others may have."""

    kind = name = "key"

    async def release(self) -> None: ...


async def test_so_is_one_to_a_step_that_was_cut_off_before_it_could_use_it(tmp_path: Path) -> None:
    work.calls.clear()
    work.gates["bad"] = gate = work.Gate()
    asked, others = asyncio.Event(), asyncio.Event()

    async def have_key(run: Any, options: dict[str, Any]) -> Key:
        if asked.is_set():
            others.set()
            await asyncio.Event().wait()
        return Key()

    bench = Bench(tmp_path, resources={"key": have_key})
    executor, outputs = ASKS
    made = flow(
        step("ask", executor, outputs=outputs, resources=(ResourceRequest(kind="key", at=HERE),)),
        step("bad", python("fails_behind"), given("gate", "$job.gate"), given("who", "$job.gate")),
    )
    job, control = job_of(made, {"gate": "bad"}), Control()
    running = bench.start(job, control)
    (ask,) = await control.until_shown()
    asked.set()
    answer = control.ask("answer", ask=ask.id, values={"n": 5})
    await others.wait()
    gate.open()
    assert (await running).status is JobStatus.FAILED
    assert answer.id not in control.settled
    asked.clear()
    later = Control()
    later.queue.put_nowait(answer)
    later.ask("retry")
    assert (await bench.engine.run(job, later)).status is JobStatus.COMPLETED
    await bench.aclose()


async def test_a_pause_and_the_resume_that_takes_it_back_are_both_heard_by_whoever_takes_the_job_up(
    bench: Bench,
) -> None:
    job, control = job_of(flow(step("a", python("one")))), Control()
    asked = [control.ask("pause"), control.ask("resume")]
    assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED
    assert control.settled == [request.id for request in asked]


@pytest.mark.parametrize("is_inside", [False, True])
async def test_an_answer_is_settled_when_what_became_of_it_is_safe_and_not_before(
    bench: Bench, is_inside: bool
) -> None:
    executor, outputs = ASKS
    asks = flow(step("ask", executor, outputs=outputs), name="asks")
    made = flow(step("s", SubFlow(flow=asks))) if is_inside else asks
    job, control = job_of(made), Control()
    outcome = await bench.engine.run(job, control)
    seen: list[bool] = []
    control = Control()
    answer = control.ask("answer", ask=outcome.asks[0].id, values={"n": 5})

    def look(source: Any, event: StepCompletedEvent) -> None:
        if event.step == "ask":
            seen.append(answer.id in control.settled)

    with told(bench, StepCompletedEvent, look):
        assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED
    assert (seen, control.settled) == ([False], [answer.id])


async def test_resuming_a_job_goes_on_with_an_item_that_a_rule_holds_while_others_are_at_work(bench: Bench) -> None:
    work.gates["busy"] = gate = work.Gate()
    inner = flow(
        step(
            "look",
            python("echo"),
            given("item", "$job.item"),
            exits=(rule("escalate", "outputs.item == 'held'"), rule("advance")),
        ),
        step("busy", python("through"), given("gate", "look.item"), when="gate == 'busy'"),
        step("last", python("echo"), given("item", "look.item"), after=("look",)),
        name="each",
    )
    made = flow(step("each", ForEach(source=JobSource("items"), flow=inner)))
    job, control = job_of(made, {"items": ["busy", "held"]}), Control()
    running = bench.start(job, control)
    await gate.reached()
    while (await bench.statuses(job)).get("each/1/look") != "completed":
        await control.turn()
    while (await bench.statuses(job)).get("each/1/last") != "completed":
        control.ask("resume")  # again: what was stored of the step comes before the rule holds it
        await control.turn()
    gate.open()
    assert (await running).status is JobStatus.COMPLETED


class Holding(Control):
    """Keeps the job's own flow at settling, until what is inside has looked around."""

    def __init__(self) -> None:
        super().__init__()
        self.settling, self.go_on = asyncio.Event(), asyncio.Event()

    async def settle(self, request: JobRequest) -> None:
        await super().settle(request)
        self.settling.set()
        await self.go_on.wait()


async def test_resuming_is_heard_at_once_by_a_flow_inside_that_looks_first(bench: Bench) -> None:
    work.gates["first"], work.gates["busy"] = first, busy = work.Gate(), work.Gate()
    inner = flow(
        step("first", python("through"), given("gate", "$job.first")),
        step("busy", python("through"), given("gate", "$job.busy")),
        step("last", python("one"), after=("first",)),
        name="inner",
    )
    made = flow(step("s", SubFlow(flow=inner), given("first", "$job.first"), given("busy", "$job.busy")))
    job, control = job_of(made, {"first": "first", "busy": "busy"}), Holding()
    running = bench.start(job, control)
    await first.reached()
    await busy.reached()
    control.ask("pause")
    await control.settling.wait()
    first.open()
    while (await bench.statuses(job)).get("s/first") != "completed":
        await control.turn()
    for _ in range(20):
        await control.turn()
    control.go_on.set()
    await control.turn()
    control.ask("resume")
    while (await bench.statuses(job)).get("s/last") != "completed":
        await control.turn()
    busy.open()
    assert (await running).status is JobStatus.COMPLETED


@pytest.mark.parametrize("fails", [False, True])
async def test_a_rerun_that_comes_while_the_end_is_stored_stays_for_whoever_takes_the_job_up(
    bench: Bench, fails: bool
) -> None:
    work.calls.clear()
    made = flow(
        step("a", python("fails_until" if fails else "count"), given("who", "$job.who"), given("good", "$job.good"))
    )
    job, control = job_of(made, {"who": "again", "good": 2}), Control()
    asked: list[JobRequest] = []

    def ask(source: Any, event: JobCompletedEvent | JobFailedEvent) -> None:
        asked.append(control.ask("rerun", step="a"))
        control.ask("pause")

    with told(bench, JobFailedEvent if fails else JobCompletedEvent, ask):
        outcome = await bench.engine.run(job, control)
    assert outcome.status is (JobStatus.FAILED if fails else JobStatus.COMPLETED)
    assert asked[0].id not in control.settled
    later = Control()
    later.queue.put_nowait(asked[0])
    assert (await bench.engine.run(job, later)).status is JobStatus.COMPLETED
    assert (work.calls["again"], later.settled) == (2, [asked[0].id])


@pytest.mark.parametrize("others", [[], ["ask"]])
async def test_a_question_that_nobody_asks_any_more_is_not_shown_when_the_job_is_taken_up_again(
    tmp_path: Path, others: list[str]
) -> None:
    work.gates["after"] = gate = work.Gate()
    executor, outputs = External(on_timeout={"n": 0}), (out("n", "number"),)
    made = flow(
        step("late", executor, outputs=outputs, timeout_seconds=60.0),
        *(step(name, External(), outputs=outputs) for name in others),
        step("after", python("through"), given("gate", "$job.gate"), given("n", "late.n")),
    )
    bench = Bench(tmp_path, still=True)
    job, control = job_of(made, {"gate": "after"}), Control()
    first = await bench.engine.run(job, control)
    assert {ask.step for ask in first.asks} == {"late", *others}
    bench.clock.advance(61)
    later = Control()
    running = bench.start(replace(job, asks=first.asks, runs=2), later)
    await gate.reached()
    assert [[ask.step for ask in asks] for asks in later.asks] == [others]
    gate.open()
    assert [ask.step for ask in (await running).asks] == others
    await bench.aclose()


async def test_a_job_that_was_cut_off_while_it_was_taken_up_can_be_taken_up_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, outputs = ASKS
    job = job_of(flow(step("ask", executor, outputs=outputs), limits=Limits(max_duration_minutes=5)))
    assert (await bench.engine.run(job, Control())).status is JobStatus.WAITING

    async def broken(*given: Any) -> int:
        raise StoreUnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.jobs._engine.worked_us", broken)
        with pytest.raises(StoreUnavailableError):
            await bench.engine.run(job, Control())
    assert (await bench.engine.run(job, Control())).status is JobStatus.WAITING
