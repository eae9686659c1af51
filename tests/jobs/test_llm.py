"""Model steps: prompts, declared outputs as a schema, usage, cost and their limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.jobs.support import Bench, Control, flow, given, job_of, out, rule, step, template

from holdfast.errors import ModelAuthError, ModelUnavailableError
from holdfast.flowfiles import Cache, External, Limits, Llm, Retry
from holdfast.models import NO_RETRIES, AssistantMessage, Reply, ScriptedModel, Text
from holdfast.ports import JobStatus, Usage

USED = Usage(requests=1, input_tokens=80, output_tokens=20, priced_usd=0.5)


def reply(text: str, usage: Usage = USED) -> Reply:
    return Reply(AssistantMessage((Text(text),)), usage)


class Models:
    """A model whose lines a test writes, and what it was asked."""

    def __init__(self, *lines: Any) -> None:
        self.asked: list[Any] = []
        left = list(lines)

        def answer(messages: Any, tools: Any, settings: Any) -> Any:
            self.asked.append((messages, settings))
            return left.pop(0)

        self.model = ScriptedModel(answer, retries=NO_RETRIES)

    def __call__(self, name: str) -> ScriptedModel:
        self.name = name
        return self.model


async def ran(tmp_path: Path, models: Models, *steps: Any, **more: Any) -> tuple[Any, Control, Bench]:
    bench, control = Bench(tmp_path, models=models), Control()
    outcome = await bench.engine.run(job_of(flow(*steps, **more.pop("flow", {})), more), control)
    await bench.aclose()
    return outcome, control, bench


def llm(prompt: str = "Say $what", **more: Any) -> Llm:
    more.setdefault("model", template("scripted:m"))
    return Llm(prompt=template(prompt), **more)


async def test_a_model_is_asked_with_the_inputs_and_its_text_is_the_output(tmp_path: Path) -> None:
    models = Models(reply("hello there"))
    outcome, control, _ = await ran(
        tmp_path, models, step("a", llm(system=template("Be $how.")), given("what", "$job.what"), given("how", "$job.how")),
        what="hi", how="brief",
    )  # fmt: skip
    assert outcome.outputs == b'{"text":"hello there"}'
    ((messages, settings),) = models.asked
    assert [getattr(m, "text", None) or m.content for m in messages] == ["Be brief.", "Say hi"]
    assert settings.output_schema is None
    assert control.said("a", "text") == "hello there"


async def test_declared_outputs_are_the_schema_of_the_answer(tmp_path: Path) -> None:
    models = Models(reply('```json\n{"score": 7, "mood": "good"}\n```'))
    outputs = (
        out("score", "number", min=0, max=10),
        out("mood", "choice", options=("good", "bad")),
        out("why", "text", required=False),
    )
    outcome, _, _ = await ran(tmp_path, models, step("a", llm("x"), outputs=outputs))
    assert outcome.outputs == b'{"score":7,"mood":"good","why":null}'
    schema = models.asked[0][1].output_schema
    assert schema["required"] == ["score", "mood"]
    assert schema["properties"]["score"] == {"type": "number", "minimum": 0, "maximum": 10}
    assert schema["properties"]["mood"] == {"enum": ["good", "bad"]}


async def test_an_answer_that_is_no_object_fails_and_may_be_tried_again(tmp_path: Path) -> None:
    models = Models(reply("no idea"), reply('{"n": 1}'))
    retry = Retry(max_retries=1, delay_seconds=0.001)
    outcome, _, _ = await ran(tmp_path, models, step("a", llm("x"), outputs=(out("n", "number"),), retry=retry))
    assert outcome.outputs == b'{"n":1}'


async def test_a_transient_error_is_tried_again_and_a_refused_key_is_not(tmp_path: Path) -> None:
    retry = Retry(max_retries=2, delay_seconds=0.001)
    models = Models(ModelUnavailableError("overloaded", model="m"), reply("ok"))
    outcome, _, _ = await ran(tmp_path, models, step("a", llm("x"), retry=retry))
    assert outcome.status is JobStatus.COMPLETED
    models = Models(ModelAuthError("who are you?", model="m"), reply("ok"))
    outcome, _, _ = await ran(tmp_path / "2", models, step("a", llm("x"), retry=retry))
    assert outcome.status is JobStatus.FAILED
    assert len(models.asked) == 1


@pytest.mark.parametrize("limits", [Limits(max_cost_usd=0.4), Limits(max_tokens=99)])
async def test_a_limit_of_a_step_is_a_failure_and_one_of_the_job_ends_it(tmp_path: Path, limits: Limits) -> None:
    seen = rule("advance", "error_category == 'limit'", name="seen")
    outcome, _, _ = await ran(tmp_path, Models(reply("x")), step("a", llm("x"), limits=limits, exits=(seen,)))
    assert outcome.status is JobStatus.COMPLETED
    outcome, _, _ = await ran(
        tmp_path / "2", Models(reply("x")), step("a", llm("x"), exits=(seen,)), flow={"limits": limits}
    )
    assert outcome.status is JobStatus.FAILED
    assert outcome.reason.startswith("limit_exceeded")


async def test_what_a_job_used_before_it_was_taken_up_again_counts(tmp_path: Path) -> None:
    models = Models(reply("x"), reply("y"))
    bench = Bench(tmp_path, models=models)
    made = flow(
        step("a", llm("x")),
        step("ask", External(), outputs=(out("n"),), after=("a",)),
        step("b", llm("y"), after=("ask",)),
        limits=Limits(max_cost_usd=0.9),
    )
    job, control = job_of(made), Control()
    waiting = await bench.engine.run(job, control)
    control.ask("answer", ask=waiting.asks[0].id, values={"n": 1})
    outcome = await bench.engine.run(job, control)
    assert "has cost $1.0000" in outcome.reason
    await bench.aclose()


async def test_a_later_attempt_may_have_a_prompt_of_its_own(tmp_path: Path) -> None:
    models = Models(reply('{"ok": false}'), reply('{"ok": true}'))
    again = rule("loop", "not outputs.ok", target="a", max_iterations=3)
    await ran(
        tmp_path,
        models,
        step("a", llm("first"), outputs=(out("ok", "bool"),), exits=(again,), loop_prompt=template("again")),
    )
    assert [messages[0].content for messages, _ in models.asked] == ["first", "again"]


async def test_without_a_model_the_step_says_what_to_set(tmp_path: Path) -> None:
    outcome, _, _ = await ran(tmp_path, Models(), step("a", Llm(prompt=template("x"))))
    assert "HOLDFAST_MODEL" in outcome.reason


async def test_a_cached_result_is_used_while_everything_that_shapes_it_is_the_same(tmp_path: Path) -> None:
    models = Models(*(reply(f"answer {n}") for n in range(9)))
    bench = Bench(tmp_path, models=models, still=True)

    async def ask(what: str, prompt: str = "Say $what", extra: str = "", **more: Any) -> str:
        cached = step("a", llm(prompt), given("what", "$job.what"), cache=Cache(ttl_seconds=60, key_extra=extra))
        return str((await bench.outputs(flow(cached, **more), {"what": what}))["text"])

    assert [await ask("x"), await ask("x"), await ask("y")] == ["answer 0", "answer 0", "answer 1"]
    assert await ask("x", "Tell $what") == "answer 2"
    assert await ask("x", extra="v2") == "answer 3"
    assert await ask("x", name="other") == "answer 4"
    bench.clock.advance(61)
    assert await ask("x") == "answer 5"
    await bench.aclose()
