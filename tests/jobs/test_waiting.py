"""Steps that wait: for anyone's answer, for a command to have something to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.jobs import work
from tests.jobs.support import Bench, Control, flow, given, job_of, out, python, rule, script, step, template

from holdfast.flowfiles import External, Limits, Poll, SubFlow
from holdfast.ports import Ask, Job, JobOutcome, JobStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORM = (
    out("ok", "bool", description="may it go on?"),
    out("n", "number", min=1, max=9),
    out("kind", "choice", options=("a", "b")),
    out("tags", "list"),
    out("note", "text", required=False),
)
ANSWER = {"ok": "yes", "n": "3", "kind": "b", "tags": '["x"]'}
MEANT = {"ok": True, "n": 3, "kind": "b", "tags": ["x"], "note": None}


def asking(**more: Any) -> Job:
    external = External(prompt=template("May $who go on?"), on_timeout=more.pop("on_timeout", None))
    return job_of(
        flow(
            step("ask", external, given("who", "$job.who"), outputs=FORM, **more),
            step("use", python("echo"), *(given(name, f"ask.{name}") for name in MEANT)),
        ),
        {"who": "ada"},
    )


async def put_down(bench: Bench, job: Job, control: Control | None = None) -> tuple[JobOutcome, Ask]:
    outcome = await bench.engine.run(job, control or Control())
    assert outcome.status is JobStatus.WAITING, outcome.reason
    (ask,) = outcome.asks
    return outcome, ask


async def answer(bench: Bench, job: Job, ask: Ask, **values: Any) -> JobOutcome:
    control = Control()
    control.ask("answer", ask=ask.id, values=values)
    return await bench.engine.run(job, control)


async def test_a_job_waits_with_its_form_and_goes_on_with_the_answer_as_it_was_meant(bench: Bench) -> None:
    job = asking()
    _, ask = await put_down(bench, job)
    assert (ask.step, ask.message) == ("ask", "May ada go on?")
    assert ask.fields["n"] == {"type": "number", "required": True, "min": 1, "max": 9}
    assert ask.fields["kind"]["options"] == ["a", "b"]
    assert await bench.statuses(job) == {"ask": "waiting", "use": "pending"}
    outcome = await answer(bench, job, ask, **ANSWER)
    assert msgspec.json.decode(outcome.outputs or b"") == MEANT


async def test_what_is_asked_has_the_same_id_however_often_the_job_is_taken_up(bench: Bench) -> None:
    job = asking()
    assert [(await put_down(bench, job))[1].id for _ in range(3)] == [f"{job.id} ask#1"] * 3


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({**ANSWER, "n": "ten"}, "n is a number"),
        ({**ANSWER, "extra": 1}, "nobody asked for extra"),
        ({"ok": True}, "output n is missing"),
    ],
)
async def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason(
    bench: Bench, values: dict[str, Any], said: str
) -> None:
    job = asking()
    _, ask = await put_down(bench, job)
    outcome = await answer(bench, job, ask, **values)
    assert outcome.status is JobStatus.WAITING
    assert said in outcome.asks[0].message
    assert (await answer(bench, job, ask, **ANSWER)).status is JobStatus.COMPLETED


async def test_a_second_answer_changes_nothing(bench: Bench) -> None:
    job = asking()
    _, ask = await put_down(bench, job)
    control = Control()
    control.ask("answer", ask=ask.id, values=ANSWER)
    control.ask("answer", ask=ask.id, values={**ANSWER, "n": 9})
    outcome = await bench.engine.run(job, control)
    assert msgspec.json.decode(outcome.outputs or b"")["n"] == 3


async def test_an_answer_is_taken_while_other_steps_work_and_what_is_asked_is_shown_meanwhile(bench: Bench) -> None:
    work.gates["busy"] = gate = work.Gate()
    made = flow(
        step("ask", External(), outputs=(out("n", "number"),)),
        step("busy", python("through"), given("gate", "$job.gate")),
        step("use", python("count"), given("who", "$job.who"), given("got", "ask.n")),
    )
    work.calls.clear()
    job, control = job_of(made, {"gate": "busy", "who": "user"}), Control()
    running = bench.start(job, control)
    await gate.reached()
    asks = await control.until_shown()
    control.ask("answer", ask=asks[0].id, values={"n": "5"})
    while not work.calls["user"]:
        await control.turn()
    assert not running.done()
    gate.open()
    assert msgspec.json.decode((await running).outputs or b"") == {"n": 1, "got": 5}
    assert control.asks[-1] == ()


async def test_without_an_answer_in_time_the_step_fails_or_goes_on_as_it_says(tmp_path: Path) -> None:
    bench = Bench(tmp_path, still=True)
    try:
        for more, ends in (({}, JobStatus.FAILED), ({"on_timeout": {**MEANT, "n": 7}}, JobStatus.COMPLETED)):
            job = asking(timeout_seconds=60, **more)
            outcome, ask = await put_down(bench, job)
            assert outcome.wake_us == ask.expires_us == bench.now_us + 60_000_000
            bench.clock.advance(50)
            again, _ = await put_down(bench, job)
            assert again.wake_us == ask.expires_us  # it does not begin anew
            bench.clock.advance(10)
            outcome = await bench.engine.run(job, Control())
            assert outcome.status is ends
            assert "nobody answered in 60 s" in outcome.reason or msgspec.json.decode(outcome.outputs or b"")["n"] == 7
    finally:
        await bench.aclose()


async def test_rules_see_that_nobody_answered(tmp_path: Path) -> None:
    bench = Bench(tmp_path, still=True)
    late = rule("abandon", "error_category == 'timeout'", name="late")
    job = job_of(flow(step("ask", External(), timeout_seconds=5, exits=(late,))))
    await put_down(bench, job)
    bench.clock.advance(6)
    assert "rule late" in (await bench.engine.run(job, Control())).reason
    await bench.aclose()


def polling(tmp_path: Path, **more: Any) -> Job:
    check = f"cat {tmp_path}/ready 2>/dev/null; test ! -e {tmp_path}/broken"
    return job_of(flow(step("wait", Poll(check_command=check, interval_seconds=30), **more)))


async def test_a_poll_is_put_down_between_checks_and_is_done_when_there_is_something_to_say(tmp_path: Path) -> None:
    bench = Bench(tmp_path, still=True)
    job = polling(tmp_path)
    outcome = await bench.engine.run(job, Control())
    assert (outcome.status, outcome.wake_us) == (JobStatus.WAITING, bench.now_us + 30_000_000)
    early = await bench.engine.run(job, Control())  # woken by something else
    assert early.wake_us == outcome.wake_us
    (tmp_path / "broken").touch()
    bench.clock.advance(31)
    assert (await bench.engine.run(job, Control())).status is JobStatus.WAITING  # a check that fails is tried again
    (tmp_path / "broken").unlink()
    (tmp_path / "ready").write_text('{"build": "ok"}', encoding="utf-8")
    bench.clock.advance(31)
    outcome = await bench.engine.run(job, Control())
    assert msgspec.json.decode(outcome.outputs or b"") == {"build": "ok"}
    await bench.aclose()


async def test_a_poll_has_a_time_out_over_all_its_checks(tmp_path: Path) -> None:
    bench = Bench(tmp_path, still=True)
    job = polling(tmp_path, timeout_seconds=40)
    outcome = await bench.engine.run(job, Control())
    bench.clock.advance(31)
    outcome = await bench.engine.run(job, Control())
    assert outcome.wake_us == bench.now_us + 9_000_000
    bench.clock.advance(9)
    assert "was not done in 40 s" in (await bench.engine.run(job, Control())).reason
    await bench.aclose()


async def test_other_steps_go_on_while_a_poll_waits_and_a_short_wait_stays_with_the_worker(bench: Bench) -> None:
    made = flow(
        step("wait", Poll(check_command="test -e done && echo '{\"seen\": true}'", interval_seconds=0.02)),
        step("work", script("touch done")),
    )
    assert await bench.outputs(made) == {"seen": True, "stdout": ""}


async def test_a_cancelled_job_that_waits_ends(bench: Bench) -> None:
    job = asking()
    await put_down(bench, job)
    control = Control()
    control.ask("cancel", reason="changed my mind")
    outcome = await bench.engine.run(job, control)
    assert (outcome.status, outcome.reason) == (JobStatus.CANCELLED, "changed my mind")


@pytest.mark.parametrize(
    "work", [External(), Poll(check_command="true", interval_seconds=30)], ids=["external", "poll"]
)
async def test_the_minutes_of_a_step_that_waits_are_limited_too(tmp_path: Path, work: Any) -> None:
    bench = Bench(tmp_path, still=True)
    seen = rule("abandon", "error_category == 'limit'", name="seen")
    job = job_of(flow(step("wait", work, limits=Limits(max_duration_minutes=1), exits=(seen,))))
    assert (await bench.engine.run(job, Control())).status is JobStatus.WAITING
    bench.clock.advance(61)
    outcome = await bench.engine.run(job, Control())
    assert "rule seen" in outcome.reason
    assert "limit of 1 minutes" in (await bench.engine.steps(job))[0].reason
    await bench.aclose()


async def test_a_check_that_hangs_is_ended_and_tried_again_until_the_time_is_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    job = job_of(flow(step("wait", Poll(check_command="sleep 1000", interval_seconds=0.1), timeout_seconds=0.4)))
    outcome = await bench.engine.run(job, Control())
    assert "was not done in 0.4 s" in outcome.reason
    await bench.aclose()


async def test_the_time_of_a_flow_inside_a_step_goes_on_while_that_waits_for_someone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, still=True)
    inner = flow(step("ask", External(), outputs=(out("n"),)), name="inner")
    late = rule("abandon", "error_category == 'timeout'", name="late")
    job = job_of(flow(step("s", SubFlow(flow=inner), timeout_seconds=60, exits=(late,))))
    outcome = await bench.engine.run(job, Control())
    assert (outcome.status, outcome.wake_us) == (JobStatus.WAITING, bench.now_us + 60_000_000)
    bench.clock.advance(50)
    assert (await bench.engine.run(job, Control())).wake_us == outcome.wake_us
    bench.clock.advance(11)
    assert "rule late" in (await bench.engine.run(job, Control())).reason
    await bench.aclose()


@pytest.mark.parametrize("depth", [0, 1])
async def test_the_minutes_of_a_job_are_counted_over_its_life_but_not_while_it_waits(
    tmp_path: Path, depth: int
) -> None:
    bench = Bench(tmp_path, still=True)
    work.gates["one"], work.gates["two"] = one, two = work.Gate(), work.Gate()
    made = flow(
        step("a", python("through"), given("gate", "$job.one")),
        step("ask", External(), outputs=(out("n"),), after=("a",)),
        step("b", python("through"), given("gate", "$job.two"), after=("ask",)),
        limits=Limits(max_duration_minutes=1),
        name="timed",
    )
    for _ in range(depth):
        made = flow(step("s", SubFlow(flow=made), given("one", "$job.one"), given("two", "$job.two")))
    job = job_of(made, {"one": "one", "two": "two"})
    running = bench.start(job, Control())
    await one.reached()
    bench.clock.advance(40)
    one.open()
    outcome = await running
    assert outcome.status is JobStatus.WAITING
    bench.clock.advance(600)
    control = Control()
    control.ask("answer", ask=outcome.asks[0].id, values={"n": 1})
    running = bench.start(job, control)
    await two.reached()
    bench.clock.advance(19)
    await control.turn()
    assert not running.done()
    bench.clock.advance(2)
    outcome = await running
    assert outcome.status is JobStatus.FAILED
    assert "limit of 1 minutes" in outcome.reason
    await bench.aclose()
