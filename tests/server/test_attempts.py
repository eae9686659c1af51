"""Attempts as a job's journal tells of them: retries, loops, flows inside steps, answers, what models cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.jobs.support import Bench, Control, flow, given, job_of, rule, script, step, template

from holdfast.errors import ModelUnavailableError
from holdfast.flowfiles import Llm, Retry, SubFlow
from holdfast.models import NO_RETRIES, AssistantMessage, Reply, ScriptedModel, Text
from holdfast.ports import Usage
from holdfast.server._journal_pages import Attempt, read_attempts

USED = Usage(requests=1, input_tokens=80, output_tokens=20, priced_usd=0.5)


async def attempts_of(folder: Path, *steps: Any, said: tuple[Any, ...] = ()) -> list[Attempt]:
    """What is told of a job whose models say these lines."""
    lines = list(said)
    model = ScriptedModel(lambda *_: lines.pop(0), retries=NO_RETRIES)
    bench, job = Bench(folder, models=lambda name: model), job_of(flow(*steps))
    await bench.engine.run(job, Control())
    found = await read_attempts(bench.store, job.id)
    await bench.aclose()
    return found


def asking(**more: Any) -> Any:
    return step("ask", Llm(prompt=template("?"), model=template("scripted:m")), **more)


async def test_every_try_is_an_attempt_of_its_own_with_its_error_and_its_cost(tmp_path: Path) -> None:
    again = Retry(max_retries=1, delay_seconds=0)
    reply = Reply(AssistantMessage((Text("yes"),)), USED)
    first, second = await attempts_of(tmp_path, asking(retry=again), said=(ModelUnavailableError("away"), reply))
    assert (first.attempt, first.tries, first.status, first.action) == (1, 0, "failed", "retry")
    assert "away" in first.error
    assert (second.attempt, second.tries, second.status, second.error) == (1, 1, "completed", "")
    assert (first.tokens, second.tokens, second.cost_usd) == (0, 100, 0.5)
    assert (second.result, first.ended is not None) == ({"text": "yes"}, True)


async def test_steps_inside_a_step_are_called_after_it(tmp_path: Path) -> None:
    reply = Reply(AssistantMessage((Text("yes"),)), USED)
    outer, inner = await attempts_of(tmp_path, step("talk", SubFlow(flow=flow(asking()))), said=(reply,))
    assert (outer.path, inner.path, inner.step) == ("talk", "talk/ask", "ask")
    assert (outer.tokens, inner.tokens) == (0, 100), "a model call counts for the step that made it"


async def test_a_round_of_a_loop_is_a_new_attempt_and_names_the_rule(tmp_path: Path) -> None:
    work = step(
        "work", script('n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n > n; echo "{\\"n\\": $n}"'),
        given("before", "work.n", optional=True, loop="work"),
        exits=(rule("loop", "outputs.n < 2", name="again", target="work", max_iterations=5),),
    )  # fmt: skip
    first, second = await attempts_of(tmp_path, work)
    assert (first.attempt, first.action, first.rule) == (1, "loop", "again")
    assert (second.attempt, second.action, second.result) == (2, "", {"n": 2})


async def test_a_run_that_wrote_nothing_has_no_attempts(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert await read_attempts(bench.store, "unknown") == []
    await bench.aclose()
