"""Script steps: inputs as data, outputs as data, processes that leave nothing behind."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.jobs.support import Bench, Control, flow, job_of, out, python, read, script, step, template, variable
from tests.jobs.support import given as wired

from holdfast.flowfiles import AgentCall, External, ForEach, JobSource, Poll, SubFlow
from holdfast.ports import JobStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")
NASTY = [
    "$(touch pwned)", "`touch pwned`", "; touch pwned", "| touch pwned", "&& touch pwned", "\ntouch pwned\n", '"; touch pwned; "',
    "'; touch pwned; '", "${IFS}touch${IFS}pwned", "> pwned", "\\", "*", "~", "!!", "$PATH", "%s%n", "é\u2028\U0001f600", "-rf", "",
]  # fmt: skip


async def test_an_input_reaches_the_script_as_it_is_and_runs_nothing(bench: Bench) -> None:
    text = 'printf %s "$value" > said-$HOLDFAST_STEP'
    steps = [step(f"s{n}", script(text), wired("value", f"$job.v{n}")) for n in range(len(NASTY))]
    job = job_of(flow(*steps), {f"v{n}": value for n, value in enumerate(NASTY)})
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    place = bench.engine.workspace(job.id)
    assert [(place / f"said-s{n}").read_bytes().decode() for n in range(len(NASTY))] == NASTY
    assert not list(bench.directory.rglob("pwned"))


async def test_names_of_folders_items_keys_and_checks_run_nothing_either(tmp_path: Path) -> None:
    nasty = "a b;touch pwned;$(touch pwned)`touch pwned`'\"&|>pwned\n*"
    home = tmp_path / nasty.replace("/", "")
    (home / "flow").mkdir(parents=True)
    bench = Bench(home)
    (home / "flow" / "tell.sh").write_text(
        'printf %s "$item" > "said-$HOLDFAST_ATTEMPT"; cat "$HOLDFAST_INPUTS_FILE"', "utf-8"
    )
    each = read(
        home / "flow", "steps:\n  a:\n    run: tell.sh\n    inputs: {item: $job.item, data: $job.data}\n", "each"
    )
    made = flow(
        step("each", ForEach(source=JobSource("items"), flow=each, max_parallel=1), wired("data", "$job.data")),
        step(
            "poll",
            Poll(check_command='printf \'{"got": 1}\'; test "$value" = "$HOLDFAST_INPUT_VALUE"'),
            wired("value", "$job.value"),
        ),
    )
    inputs = {"items": [nasty, {nasty: nasty}], "data": {nasty: [nasty]}, "value": nasty}
    job = job_of(made, inputs)
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    results = msgspec.json.decode(outcome.outputs or b"")["results"]
    assert [one["item"] for one in results] == inputs["items"]
    assert {path.name for path in bench.engine.workspace(job.id).iterdir()} == {"said-1"}
    await bench.aclose()
    assert not [path for path in bench.directory.parent.rglob("*") if path.name.startswith("pwned")]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
async def test_any_text_in_a_shell_word_stays_one_word(bench: Bench, value: str) -> None:
    made = flow(step("a", script('printf %s "$value" > said'), wired("value", "$job.value")))
    job = job_of(made, {"value": value})
    assert (await bench.engine.run(job, Control())).status is JobStatus.COMPLETED
    assert (bench.engine.workspace(job.id) / "said").read_bytes() == value.encode()


async def test_inputs_arrive_under_every_name_that_existing_scripts_read(bench: Bench) -> None:
    text = (
        'printf \'{"all": "%s %s %s %s"}\' "$who" "$HOLDFAST_INPUT_WHO" "$STEPWISE_INPUT_WHO" "$JOB_ENGINE_INPUT_WHO"'
    )
    made = flow(step("a", script(text), wired("who", "$job.who")))
    assert await bench.outputs(made, {"who": "ada"}) == {"all": "ada ada ada ada"}


async def test_lists_objects_numbers_and_booleans_arrive_as_json(bench: Bench) -> None:
    text = 'printf \'{"l": %s, "n": %s, "b": %s}\' "$l" "$n" "$b"'
    made = flow(step("a", script(text), *(wired(name, f"$job.{name}") for name in "lnb")))
    values = {"l": [1, {"x": "y z"}], "n": 2.5, "b": True}
    assert await bench.outputs(made, values) == values


async def test_everything_is_in_the_file_of_inputs_too_and_that_is_gone_afterwards(bench: Bench) -> None:
    text = 'stat -c %a "$HOLDFAST_INPUTS_FILE" >&2; cat "$HOLDFAST_INPUTS_FILE"'
    job, control = job_of(flow(step("a", script(text), wired("x", "$job.x"))), {"x": {"deep": [1]}}), Control()
    outcome = await bench.engine.run(job, control)
    assert msgspec.json.decode(outcome.outputs or b"") == {"x": {"deep": [1]}}
    assert control.said("a") == "600\n"
    assert list(bench.engine.workspace(job.id).iterdir()) == []


async def test_large_values_are_only_in_the_file(bench: Bench) -> None:
    text = (
        'python3 -c \'import os, json; f = json.load(open(os.environ["HOLDFAST_INPUTS_FILE"]));'
        ' print(json.dumps({"env": "big" in os.environ, "file": len(f["big"]), "small": "small" in os.environ}))\''
    )
    made = flow(step("a", script(text), wired("big", "$job.big"), wired("small", "$job.small")))
    values = {"big": "x" * 65_537, "small": "x" * 65_536}
    assert await bench.outputs(made, values) == {"env": False, "file": 65_537, "small": True}


async def test_values_that_are_too_much_together_are_only_in_the_file(bench: Bench) -> None:
    text = 'printf \'{"set": %s, "named": %s}\' "$(env | grep -c "^v[0-9]*=")" "$(env | grep -c "^HOLDFAST_INPUT_V")"'
    made = flow(step("a", script(text), *(wired(f"v{n}", f"$job.v{n}") for n in range(12))))
    found = await bench.outputs(made, {f"v{n}": "x" * 60_000 for n in range(12)})
    assert found == {"set": 8, "named": 8}  # 480,000 bytes of 524,288


async def test_an_absent_input_is_no_variable_not_even_the_workers_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("gone", "the worker's")
    made = flow(
        step(
            "a", script('echo "${gone-unset} ${HOLDFAST_INPUT_GONE-unset}"'), wired("gone", "$job.gone", optional=True)
        )
    )
    assert await bench.outputs(made) == {"stdout": "unset unset"}


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "path", "BASH_ENV", "IFS"]
)
async def test_names_that_would_change_the_process_are_refused(bench: Bench, name: str) -> None:
    outcome = await bench.run(flow(step("a", script("true"), wired(name, "$job.x"))), {"x": "/evil"})
    assert outcome.status is JobStatus.FAILED
    assert f"cannot be called {name}" in outcome.reason


async def test_a_script_is_told_where_it_is(bench: Bench) -> None:
    text = (
        'printf \'{"cwd": "%s", "attempt": "%s", "flow": "%s", "project": "%s", "key": "%s", "old": "%s"}\' "$PWD"'
        ' "$HOLDFAST_ATTEMPT" "$HOLDFAST_FLOW_DIR" "$HOLDFAST_PROJECT_DIR" "$HOLDFAST_IDEMPOTENCY_KEY" "$STEPWISE_ATTEMPT"'
    )
    job = job_of(flow(step("a", script(text)), directory="/flows"))
    outcome = await bench.engine.run(job, Control())
    assert msgspec.json.decode(outcome.outputs or b"") == {
        "cwd": str(bench.engine.workspace(job.id)),
        "attempt": "1",
        "flow": "/flows",
        "project": str(bench.directory.parent),
        "key": f"{job.id}/a#1",
        "old": "1",
    }


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ('  \n{"a": 1}\n\n', {"a": 1}),
        ("[1, 2]", {"stdout": "[1, 2]"}),
        ("plain words\n", {"stdout": "plain words"}),
        ('{"a": 1', {"stdout": '{"a": 1'}),
        ("", {"stdout": ""}),
        ('{"a": 1} trailing', {"stdout": '{"a": 1} trailing'}),
    ],
)
async def test_an_object_on_standard_output_is_the_outputs_and_anything_else_is_text(
    bench: Bench, printed: str, expected: Any
) -> None:
    made = flow(step("a", script('printf %s "$printed"'), wired("printed", "$job.printed")))
    assert await bench.outputs(made, {"printed": printed}) == expected


async def test_broken_json_fails_a_step_that_declares_outputs(bench: Bench) -> None:
    outcome = await bench.run(flow(step("a", script("echo '{broken'"), outputs=(out("x"),))))
    assert "no JSON" in outcome.reason


async def test_standard_error_is_told_while_the_step_runs(bench: Bench) -> None:
    control = Control()
    done: list[bool] = []
    original = control.log

    def log(line: Any) -> None:
        original(line)
        if line.channel == "stderr" and not done:
            done.append(True)
            control.ask("cancel", reason="seen enough")

    control.log = log  # type: ignore[method-assign]
    outcome = await bench.run(flow(step("a", script("echo now >&2; sleep 60"))), control=control)
    assert outcome.status is JobStatus.CANCELLED
    assert control.said("a") == "now\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo why >&2; exit 3", "exit code 3: why"),
        ("kill -KILL $$", "killed by signal 9"),
        ("exec /no/such/program", "exit code 127"),
    ],
)
async def test_a_script_that_does_not_end_well_fails_its_step_and_says_why(bench: Bench, text: str, said: str) -> None:
    outcome = await bench.run(flow(step("a", script(text))))
    assert outcome.status is JobStatus.FAILED
    assert said in outcome.reason


async def test_a_flood_on_standard_output_ends_at_the_cap(bench: Bench) -> None:
    before, bench.engine.output_cap = bench.engine.output_cap, 100_000
    try:
        outcome = await bench.run(flow(step("a", script("yes"))))
    finally:
        bench.engine.output_cap = before
    assert "more than 100,000 bytes" in outcome.reason


async def test_a_flood_on_standard_error_is_read_and_only_its_end_is_kept(bench: Bench) -> None:
    outcome = await bench.run(flow(step("a", script("yes x | head -c 3000000 >&2; echo the end >&2; exit 1"))))
    assert outcome.reason.endswith("the end")
    assert len(outcome.reason) < 5_000


async def test_what_a_script_leaves_running_ends_with_the_step(bench: Bench) -> None:
    text = 'setsid sleep 1000 & echo "{\\"pid\\": $!}"'
    look = script('if kill -0 "$pid" 2>/dev/null; then echo alive; else echo gone; fi')
    assert await bench.outputs(flow(step("a", script(text)), step("b", look, wired("pid", "a.pid")))) == {
        "stdout": "gone"
    }


async def test_a_file_of_the_flow_is_run_from_where_it_is(bench: Bench, tmp_path: Path) -> None:
    home = tmp_path / "flows"
    home.mkdir()
    (home / "tell.py").write_text("import json, os; print(json.dumps({'who': os.environ['who']}))", encoding="utf-8")
    made = read(home, "steps:\n  a:\n    run: tell.py\n    inputs: {who: $job.who}\n    outputs: [who]\n")
    assert await bench.outputs(made, {"who": "it's"}) == {"who": "it's"}


async def test_a_secret_is_given_to_the_step_and_shown_and_stored_nowhere(tmp_path: Path) -> None:
    bench = Bench(tmp_path, secret=lambda name: "hunter2")
    text = 'echo "key $key" >&2; printf \'{"echoed": "%s"}\' "$key"'
    key = wired("key", "$job.key")
    ask = External(prompt=template("Is $key right?"))
    made = flow(
        step("a", script(text), key),
        step("b", python("reveal"), key, on_error="continue"),
        step("c", ask, key, outputs=(out("ok"),), after_resolved=("a", "b")),
        inputs=(variable("key", sensitive=True),),
    )
    control, job = Control(), job_of(made)
    outcome = await bench.engine.run(job, control)
    assert outcome.asks[0].message == "Is ••• right?"
    assert control.said("a") == "key •••\n"
    control.ask("answer", ask=outcome.asks[0].id, values={"ok": 1})
    assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED
    told = {info.path: info for info in await bench.engine.steps(job)}
    assert told["a"].outputs == {"echoed": "•••"}
    assert told["b"].reason == "the key is •••"
    await bench.aclose()
    assert subprocess.run(["grep", "-r", "hunter2", str(tmp_path)], check=False).returncode == 1  # noqa: ASYNC221


async def test_a_secret_that_comes_in_pieces_or_as_a_name_is_not_shown_either(tmp_path: Path) -> None:
    bench, control = Bench(tmp_path, secret=lambda name: "hunter2"), Control()
    text = "printf hun >&2; sleep 0.1; printf ter2hunt >&2; printf '{\"hunter2\": 1}'"
    made = flow(step("a", script(text), wired("key", "$job.key")), inputs=(variable("key", sensitive=True),))
    job = job_of(made)
    assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED
    assert control.said("a") == "•••hunt"
    assert (await bench.engine.steps(job))[0].outputs == {"•••": 1}
    await bench.aclose()


async def test_a_prompt_with_a_secret_in_it_is_stored_and_shown_without(tmp_path: Path) -> None:
    bench, control = Bench(tmp_path, secret=lambda name: 'hunter"2'), Control()
    agent = AgentCall(prompt=template("say $key"), agent="demo", output_mode="stream_result")
    made = flow(step("a", agent, wired("key", "$job.key")), inputs=(variable("key", sensitive=True),))
    outcome = await bench.engine.run(job_of(made), control)
    assert msgspec.json.decode(outcome.outputs or b"")["result"].strip() == "•••"
    assert control.said("a", "text").strip() == "•••"
    await bench.aclose()
    assert subprocess.run(["grep", "-r", "hunter", str(tmp_path)], check=False).returncode == 1  # noqa: ASYNC221


async def test_a_secret_is_of_its_variables_type_and_one_of_a_flow_inside_is_looked_for_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = flow(
        step("x", python("echo"), wired("pin", "$job.pin")),
        name="inner",
        inputs=(variable("pin", type="number", sensitive=True),),
    )
    made = flow(step("s", SubFlow(flow=inner)))
    assert (await bench.run(made)).reason.startswith("needs_secret: set HOLDFAST_VAR_PIN")
    monkeypatch.setenv("STEPWISE_VAR_PIN", "7")
    assert await bench.outputs(made) == {"pin": 7}


async def test_a_missing_secret_makes_the_job_wait_and_says_what_to_set(tmp_path: Path, bench: Bench) -> None:
    made = flow(step("a", script("true"), wired("key", "$job.key")), inputs=(variable("key", sensitive=True),))
    outcome = await bench.run(made)
    assert outcome.status is JobStatus.WAITING
    assert outcome.reason.startswith("needs_secret: set HOLDFAST_VAR_KEY")
