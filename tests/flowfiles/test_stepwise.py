"""Flows of stepwise's users load: its aliases are understood, with a note; what we do otherwise is refused in words."""

from __future__ import annotations

import pytest
from tests.flowfiles.support import Folder, step

from holdfast.flowfiles import Llm, Retry, Script

OLD = """
name: release
author: someone
visibility: background
forked_from: "@someone:else"
readme: |
  How to use it.
tags: [demo]
notify: {url: "https://example.org"}
containment: none
steps:
  plan:
    executor: external
    prompt: Which one?
    outputs: [choice, reason]
    output_fields:
      choice: {type: choice, options: [a, b]}
  make:
    run: make $choice
    inputs: {choice: plan.choice}
    outputs: [files]
    sequencing: [plan]
    containment: sandbox
    decorators:
      - type: retry
        config: {max_retries: 2, backoff: exponential}
      - type: timeout
        config: {minutes: 15}
      - type: fallback
        config:
          fallback_ref:
            type: llm
            config: {prompt: "Make $choice", model: fast}
  test:
    run: make test
    inputs: {files: make.files, round: {from: fix.round, optional: true}}
    outputs: [status]
    decorators:
      - {type: retry, max_attempts: 3, delay_seconds: 5}
      - {type: timeout, seconds: 30}
    exits:
      - {name: pass, when: "outputs.status == 'pass'", action: advance}
      - {name: fail, when: "True", action: loop, target: fix, max_iterations: 5}
  fix:
    run: make fix
    inputs: {status: test.status}
    when: "status == 'fail'"
    outputs: [round]
    exits: [{name: retest, when: "True", action: loop, target: test, max_iterations: 5}]
  each:
    for_each: make.files
    as: file
    on_error: continue
    inputs: {status: test.status}
    flow:
      steps:
        one: {run: "printf '{}'", inputs: {file: $job.file, status: $job.status}, outputs: [done]}
"""


def test_an_old_flow_loads_and_every_alias_is_noted(folder: Folder) -> None:
    findings = folder.findings(OLD)
    assert [one.severity for one in findings if one.code != "no-loop"] == ["note"] * 11
    noted = {one.message.split(":")[0] for one in findings if one.severity == "note"}
    assert noted == {
        "visibility", "forked_from", "readme", "tags", "notify", "containment", "output_fields", "sequencing", "decorators",
    }  # fmt: skip


def test_its_aliases_mean_what_they_meant(folder: Folder) -> None:
    flow = folder.load(OLD)
    plan, make, test, *_ = flow.steps
    assert [(one.name, one.type) for one in plan.outputs] == [("choice", "choice"), ("reason", "any")]
    assert (make.after, make.timeout_seconds, make.retry) == (("plan",), 900, Retry(max_retries=2))
    assert make.fallback is not None
    assert isinstance(make.fallback.executor, Llm)
    assert make.fallback.executor.prompt.text == "Make $choice"
    assert (test.timeout_seconds, test.retry) == (30, Retry(max_retries=2, delay_seconds=5))


def test_a_key_of_ours_goes_before_a_decorator(folder: Folder) -> None:
    flow = folder.load(step("run: x\nretry: 1\ndecorators: [{type: retry, config: {max_retries: 9}}]"))
    assert flow.steps[0].retry == Retry(max_retries=1)


def test_a_script_as_fallback_keeps_its_command(folder: Folder) -> None:
    text = "run: x\ndecorators: [{type: fallback, config: {fallback_ref: {type: script, config: {command: echo}}}}]"
    fallback = folder.load(step(text)).steps[0].fallback
    assert fallback is not None
    assert fallback.executor == Script(text="echo")


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (step("run: x\ndecorators: [{type: rety}]"), "4:25", "did you mean retry?"),
        (
            step("run: x\ndecorators: [{type: retry, config: {max_retrys: 1, max_retries: 1}}]"),
            "4:41",
            "did you mean max_retries?",
        ),
        (step("run: x\ndecorators: [{type: timeout, config: {seconds: soon}}]"), "4:52", "a duration"),
        (step("run: x\ncontinue_session: true"), "4:5", "has no key 'continue_session'"),
        (step("executor: mock_llm"), "3:15", "there is no executor 'mock_llm'"),
        (step("run: x\nafter: [{any_of: [a, b]}]"), "4:13", "a name of letters"),
    ],
)
def test_what_cannot_be_understood_is_refused_where_it_is(folder: Folder, text: str, place: str, says: str) -> None:
    errors = [one for one in folder.findings(text) if one.severity == "error"]
    assert [f"{one.at.line}:{one.at.column}" for one in errors] == [place]
    assert says in str(errors[0])
