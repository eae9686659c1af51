"""Every key of the format comes through, and everything that is wrong is told where it is, all at once."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from tests.flowfiles.support import Folder, step

from holdfast.errors import FlowFileError
from holdfast.flowfiles import (
    AgentCall,
    Cache,
    ErrorCategory,
    Expression,
    External,
    Fallback,
    FlowFile,
    ForEach,
    Input,
    JobSource,
    Limits,
    Llm,
    Permissions,
    Poll,
    PythonCall,
    ResourceRequest,
    Retry,
    Sandbox,
    Script,
    StepSource,
    SubFlow,
    Template,
    WhenExpression,
    WhenInput,
    load_flow,
)

EVERYTHING = """
name: everything
description: all of it
author: me
version: 1.0
inputs:
  topic: {type: str, description: what, example: tea, required: true}
  body: {type: text, default: "a\\nb"}
  count: {type: number, min: 1, max: 9, default: 3}
  fast: {type: bool, default: no}
  depth: {type: choice, options: [yes, no, 3], default: yes}
  bare:
config:
  token: {sensitive: true}
  model: {default: small}
requires:
  - git
  - {name: gh, description: GitHub, check: gh --version, install: apt install gh, url: "https://cli.github.com"}
limits: {max_cost_usd: 5, max_duration_minutes: 30.5, max_iterations: 50, max_tokens: 1000}
steps:
  plan:
    description: makes a plan
    executor: llm
    model: $model
    prompt: "Plan ${topic}"
    system: be brief
    temperature: 0.2
    max_tokens: 100
    inputs: {topic: $job.topic, model: $job.model}
    outputs: {parts: {type: list}, note: {type: text, required: false, default: null}, n: ~}
    derived_outputs: {size: len(parts), big: size > 3}
    timeout: 2m
    retry: {max_attempts: 4, delay_seconds: 2, backoff: fixed, max_delay_seconds: 9, jitter: 0, on: [transient, output]}
    session: talk
    idempotency: retriable_with_guard
  build:
    executor: agent
    agent: coder
    prompt: Build {{part}}
    working_dir: $dir
    model: large
    tools: [read, write]
    permissions: {allow: [read], ask: [write], deny: [delete], otherwise: deny}
    output_mode: file
    output_path: out.json
    sandbox: {network: false, read: [/usr], write: [/tmp/x]}
    session: build
    fork_from: plan
    loop_prompt: Again $failures
    max_continuous_attempts: 3
    inputs:
      part: plan.parts.0
      dir: {from: $job.bare, optional: true}
      failures: {from: test.failures, optional: true}
    outputs: [done]
    after: [plan]
    limits: {max_cost_usd: 1}
    resources: [browser, {kind: database, options: {size: 3}}]
    on_error: continue
  test:
    run: |
      make test
      echo '{}'
    inputs: {done: build.done}
    outputs: failures
    fallback: {run: echo no}
    exits:
      - {name: again, when: "outputs.failures and attempt < 4", action: loop, target: build, max_iterations: 3}
      - {when: "error_category == 'timeout'", action: escalate}
      - {action: advance}
  ask:
    executor: external
    prompt: Ok?
    timeout: 1d
    on_timeout: {ok: no}
    outputs: {ok: {type: bool, description: Is it?}}
    when: {input: d, eq: true}
    inputs: {d: build.done}
  watch:
    executor: poll
    check_command: gh pr checks
    interval_seconds: 30
    prompt: waiting
    after_resolved: [ask]
    when: "x != null"
    inputs: {x: {any_of: [ask.ok, test.failures, $job.fast]}}
    outputs: [state]
  call:
    executor: python
    call: package.module:Class.method
    after: watch
    cache: {ttl: 1h, key_extra: v2}
    retry: 2
  sub:
    flow:
      inputs: {topic: {}}
      steps: {one: {run: echo, inputs: {t: $job.topic}, outputs: [r]}}
    inputs: {topic: $job.topic}
    outputs: [r]
  each:
    for_each: plan.parts
    as: part
    max_parallel: 4
    on_error: continue
    flow: {steps: {one: {run: echo, inputs: {p: $job.part}}}}
"""


@pytest.fixture
def everything(folder: Folder) -> FlowFile:
    return folder.load(EVERYTHING)


def test_the_top_level_comes_through(everything: FlowFile) -> None:
    flow = everything
    assert (flow.name, flow.description, flow.author, flow.version) == ("everything", "all of it", "me", "1.0")
    assert flow.limits == Limits(max_cost_usd=5, max_duration_minutes=30.5, max_iterations=50, max_tokens=1000)
    variables = {one.name: one for one in flow.inputs}
    assert [(one.type, one.required, one.default) for one in flow.inputs] == [
        ("str", True, UNSET),
        ("text", False, "a\nb"),
        ("number", False, 3),
        ("bool", False, False),
        ("choice", False, "yes"),
        ("str", True, UNSET),
    ]
    assert variables["depth"].options == ("yes", "no", "3")
    assert (variables["count"].min, variables["count"].max, variables["topic"].example) == (1, 9, "tea")
    assert [(one.name, one.sensitive, one.default) for one in flow.config] == [
        ("token", True, UNSET),
        ("model", False, "small"),
    ]
    assert [(one.name, one.check, one.install, one.url) for one in flow.requires] == [
        ("git", "", "", ""),
        ("gh", "gh --version", "apt install gh", "https://cli.github.com"),
    ]


def test_every_executor_comes_through(everything: FlowFile) -> None:
    executors = {name: one.executor for name, one in everything.by_name.items()}
    plan = executors["plan"]
    assert isinstance(plan, Llm)
    assert (plan.prompt.text, plan.temperature, plan.max_tokens) == ("Plan ${topic}", 0.2, 100)
    assert plan.model is not None
    assert plan.system is not None
    build = executors["build"]
    assert isinstance(build, AgentCall)
    assert (build.agent, build.tools, build.output_mode, build.output_path) == (
        "coder",
        ("read", "write"),
        "file",
        "out.json",
    )
    assert build.permissions == Permissions(allow=("read",), ask=("write",), deny=("delete",), otherwise="deny")
    assert build.sandbox == Sandbox(network=False, read=("/usr",), write=("/tmp/x",))
    assert isinstance(executors["test"], Script)
    ask = executors["ask"]
    assert isinstance(ask, External)
    assert ask.on_timeout == {"ok": False}
    watch = executors["watch"]
    assert isinstance(watch, Poll)
    assert (watch.check_command, watch.interval_seconds) == ("gh pr checks", 30)
    assert executors["call"] == PythonCall(module="package.module", function="Class.method")
    sub, each = executors["sub"], executors["each"]
    assert isinstance(sub, SubFlow)
    assert [one.name for one in sub.flow.steps] == ["one"]
    assert isinstance(each, ForEach)
    assert (each.source, each.item_name, each.max_parallel, each.on_error) == (
        StepSource("plan", ("parts",)),
        "part",
        4,
        "continue",
    )
    assert [one.kind for one in everything.steps] == [
        "llm",
        "agent",
        "script",
        "external",
        "poll",
        "python",
        "flow",
        "for_each",
    ]


def test_every_option_comes_through(everything: FlowFile) -> None:
    plan, build, test, ask, watch, call, _, each = everything.steps
    assert plan.retry == Retry(
        max_retries=3, delay_seconds=2, backoff="fixed", max_delay_seconds=9, jitter=0, on=("transient", "output")
    )
    assert (plan.cache, plan.timeout_seconds, plan.session) == (None, 120, "talk")
    assert (plan.idempotency, plan.description) == ("retriable_with_guard", "makes a plan")
    assert [(one.name, one.type, one.required, one.default) for one in plan.outputs] == [
        ("parts", "list", True, UNSET),
        ("note", "text", False, None),
        ("n", "any", True, UNSET),
    ]
    assert [(name, one.text) for name, one in plan.derived_outputs] == [("size", "len(parts)"), ("big", "size > 3")]
    assert (build.fork_from, build.max_continuous_attempts, build.after, build.on_error) == (
        "plan",
        3,
        ("plan",),
        "continue",
    )
    assert isinstance(build.loop_prompt, Template)
    assert [(one.kind, one.options) for one in build.resources] == [("browser", {}), ("database", {"size": 3})]
    assert isinstance(build.resources[0], ResourceRequest)
    assert [one.sources for one in build.inputs] == [
        (StepSource("plan", ("parts", "0")),),
        (JobSource("bare"),),
        (StepSource("test", ("failures",), loop="build"),),
    ]
    assert isinstance(build.inputs[0], Input)
    assert isinstance(test.fallback, Fallback)
    assert test.fallback.executor == Script(text="echo no")
    assert [(one.name, one.action, one.target, one.max_iterations, one.on_failure) for one in test.exits] == [
        ("again", "loop", "build", 3, True),
        ("escalate-2", "escalate", None, None, True),
        ("advance-3", "advance", None, None, True),
    ]
    assert isinstance(ask.when, WhenInput)
    assert (ask.when.input, ask.when.test, ask.when.value) == ("d", "eq", True)
    assert isinstance(watch.when, WhenExpression)
    assert isinstance(watch.when.expression, Expression)
    assert watch.when.expression.names == ("x",)
    assert len(watch.inputs[0].sources) == 3
    assert (watch.after_resolved, call.after, call.retry) == (("ask",), ("watch",), Retry(max_retries=2))
    assert call.cache == Cache(ttl_seconds=3600, key_extra="v2")
    assert [one.name for one in each.outputs] == ["results"]
    assert each.on_error == "fail"
    assert ErrorCategory is not None


def test_a_rule_is_considered_on_failure_only_if_it_names_the_failure_or_nothing(folder: Folder) -> None:
    text = step("""
        run: x
        outputs: [a]
        exits:
          - {when: "outputs.a > 1", action: abandon}
          - {when: "error", action: abandon}
          - {when: "attempt > 1", action: abandon}
          - {when: "1 == 1", action: abandon}
          - {action: advance}
    """)
    assert [one.on_failure for one in folder.load(text).steps[0].exits] == [False, True, True, True, True]


def test_outputs_of_an_agent_are_read_from_a_file_unless_said_otherwise(folder: Folder) -> None:
    modes = {
        "outputs: [a]": "file",
        "outputs: [a]\n    output_mode: stream_result": "stream_result",
        "description: x": "effect",
    }
    for said, mode in modes.items():
        executor = folder.load(f"steps:\n  s:\n    executor: agent\n    prompt: x\n    {said}\n").steps[0].executor
        assert isinstance(executor, AgentCall)
        assert executor.output_mode == mode


BAD = [
    # what it is, the flow, the line and column of the finding, its code, and what its text or fix says
    ("unknown top key", "nmae: x\nsteps: {s: {run: x}}", "1:1", "unknown-key", "did you mean name?"),
    ("no steps", "name: x", "1:1", "missing-key", "add steps:"),
    ("empty steps", "steps: {}", "1:1", "no-steps", "add one"),
    ("steps a list", "steps: [a]", "1:8", "wrong-value", "must be a mapping"),
    ("a list at the top", "- a", "1:1", "wrong-value", "a flow"),
    ("a text at the top", "hello", "1:1", "wrong-value", "a flow"),
    ("step is text", "steps:\n  s: hello", "2:6", "wrong-value", "a step"),
    ("bad step name", "steps:\n  a.b: {run: x}", "2:3", "wrong-value", "a name of letters"),
    ("no executor", step("description: x"), "3:5", "no-executor", "add run:"),
    ("two executors", step("run: x\nexecutor: llm\nprompt: x"), "4:5", "two-executors", "make two steps"),
    ("unknown executor", step("executor: agnet\nprompt: x"), "3:15", "unknown-executor", "did you mean agent?"),
    ("strange executor", step("executor: zzzzz"), "3:15", "unknown-executor", "a package can add more"),
    ("executor a list", step("executor: [llm]"), "3:15", "wrong-value", "one of script, llm"),
    ("unknown step key", step("run: x\ntimout: 3"), "4:5", "unknown-key", "did you mean timeout?"),
    (
        "key of another kind",
        step("run: x\nprompt: hi"),
        "4:5",
        "misplaced-key",
        "it belongs to llm, agent, external, poll",
    ),
    (
        "cache on external",
        step("executor: external\ncache: true"),
        "4:5",
        "misplaced-key",
        "does not apply to an external step",
    ),
    ("cache on poll", step("executor: poll\ncheck_command: x\ncache: true"), "5:5", "misplaced-key", "poll"),
    ("session on script", step("run: x\nsession: a"), "4:5", "misplaced-key", "llm, agent"),
    ("no prompt", step("executor: llm"), "3:5", "missing-key", "add prompt:"),
    ("two prompts", step("executor: llm\nprompt: x\nprompt_file: y"), "5:5", "two-prompts", "remove one"),
    ("no check", step("executor: poll"), "3:5", "missing-key", "check_command"),
    ("bad call", step("executor: python\ncall: nope"), "4:11", "wrong-value", "module:function"),
    ("for_each without flow", step("for_each: a.b"), "3:5", "missing-key", "flow"),
    (
        "on_error of items",
        step("for_each: $job.x\non_error: fail\nflow: {steps: {a: {run: x}}}"),
        "4:15",
        "wrong-value",
        "fail_fast",
    ),
    ("bad duration", step("run: x\ntimeout: soon"), "4:14", "wrong-value", "90s"),
    ("zero duration", step("run: x\ntimeout: 0"), "4:14", "wrong-value", "a duration"),
    ("bad number", step("executor: llm\nprompt: x\ntemperature: hot"), "5:18", "wrong-value", "at most 2"),
    ("negative limit", step("run: x\nlimits: {max_cost_usd: -1}"), "4:28", "wrong-value", "more than 0"),
    ("unknown limit", step("run: x\nlimits: {max_cost: 1}"), "4:14", "unknown-key", "did you mean max_cost_usd?"),
    ("bad action", step("run: x\nexits: [{action: lop}]"), "4:22", "wrong-value", "did you mean loop?"),
    ("no action", step("run: x\nexits: [{name: a}]"), "4:13", "missing-key", "action"),
    (
        "loop without target",
        step("run: x\nexits: [{action: loop, when: 'attempt < 3'}]"),
        "4:13",
        "no-target",
        "target: STEP",
    ),
    (
        "target without loop",
        step("run: x\nexits: [{action: abandon, target: s}]"),
        "4:31",
        "misplaced-key",
        "only a loop",
    ),
    (
        "bad expression",
        step("run: x\nexits: [{action: advance, when: '1 +'}]"),
        "4:38",
        "bad-expression",
        "invalid syntax",
    ),
    ("unknown name", step("run: x\nwhen: y > 1"), "4:11", "unknown-name", "there is no y here"),
    ("bad condition", step("run: x\nwhen: {input: a}\ninputs: {a: $job.a}"), "4:11", "bad-condition", "one of eq"),
    (
        "bad condition key",
        step("run: x\nwhen: {input: a, eq: 1, equals: 1}\ninputs: {a: $job.a}"),
        "4:29",
        "unknown-key",
        "it may have input, eq",
    ),
    (
        "unknown input tested",
        step("run: x\nwhen: {input: ab, eq: 1}\ninputs: {abc: $job.a}"),
        "4:11",
        "unknown-name",
        "did you mean abc?",
    ),
    ("source without a field", step("run: x\ninputs: {a: other}"), "4:14", "bad-source", "step.field"),
    ("source is a list", step("run: x\ninputs: {a: [b.c]}"), "4:17", "wrong-value", "step.field"),
    ("input without from", step("run: x\ninputs: {a: {optional: true}}"), "4:17", "bad-input", "from or any_of"),
    ("any_of one", step("run: x\ninputs: {a: {any_of: [$job.b]}}"), "4:18", "bad-input", "two sources"),
    ("refused input PATH", step("run: x\ninputs: {PATH: $job.a}"), "4:14", "refused-input", "another name"),
    ("refused input HOME", step("run: x\ninputs: {HOME: $job.a}"), "4:14", "refused-input", ""),
    ("refused input LD_", step("run: x\ninputs: {LD_PRELOAD: $job.a}"), "4:14", "refused-input", ""),
    ("refused input PYTHONPATH", step("run: x\ninputs: {PYTHONPATH: $job.a}"), "4:14", "refused-input", ""),
    (
        "long step name",
        "steps:\n  " + 101 * "s" + ":\n    run: x\n",
        "2:3",
        "wrong-value",
        "a name of at most 100 characters, not",
    ),
    (
        "long flow name",
        f"name: {101 * 'n'}\nsteps: {{a: {{run: x}}}}\n",
        "1:7",
        "wrong-value",
        "a name of at most 100 characters, not",
    ),
    (
        "flow name with a digit first",
        "name: 1st\nsteps: {a: {run: x}}\n",
        "1:7",
        "wrong-value",
        "begins with a letter or _, not '1st'",
    ),
    (
        "flow name with a space",
        "name: a b\nsteps: {a: {run: x}}\n",
        "1:7",
        "wrong-value",
        "letters, digits, - and _, not 'a b'",
    ),
    ("bad input name", step("run: x\ninputs: {a-b: $job.a}"), "4:14", "wrong-value", "letters, digits and _"),
    ("two outputs", step("run: x\noutputs: [a, a]"), "4:18", "duplicate-output", "twice"),
    (
        "derived is an output",
        step("run: x\noutputs: [a]\nderived_outputs: {a: '1'}"),
        "5:23",
        "duplicate-output",
        "another name",
    ),
    (
        "derived reads nothing",
        step("run: x\noutputs: [a]\nderived_outputs: {b: c + 1}"),
        "5:26",
        "unknown-name",
        "no c here",
    ),
    (
        "choice without options",
        step("executor: external\noutputs: {a: {type: choice}}"),
        "4:18",
        "no-options",
        "options:",
    ),
    (
        "options without choice",
        step("executor: external\noutputs: {a: {type: str, options: [x]}}"),
        "4:30",
        "misplaced-key",
        "choice",
    ),
    (
        "bounds of text",
        step("executor: external\noutputs: {a: {type: str, min: 1}}"),
        "4:30",
        "misplaced-key",
        "number",
    ),
    ("bad type", "inputs: {a: {type: strng}}\nsteps: {s: {run: x}}", "1:20", "wrong-value", "did you mean str?"),
    ("list variable", "inputs: {a: {type: list}}\nsteps: {s: {run: x}}", "1:20", "wrong-value", "one of str"),
    ("bad default", "inputs: {a: {type: number, default: x}}\nsteps: {s: {run: x}}", "1:28", "bad-default", "a number"),
    (
        "default out of range",
        "inputs: {a: {type: number, max: 3, default: 4}}\nsteps: {s: {run: x}}",
        "1:36",
        "bad-default",
        "at most 3",
    ),
    (
        "default no choice",
        "inputs: {a: {type: choice, options: [x], default: y}}\nsteps: {s: {run: x}}",
        "1:42",
        "bad-default",
        "one of x",
    ),
    ("bad range", "inputs: {a: {type: number, min: 3, max: 1}}\nsteps: {s: {run: x}}", "1:36", "bad-range", ""),
    (
        "secret with a default",
        "config: {a: {sensitive: true, default: x}}\nsteps: {s: {run: x}}",
        "1:31",
        "sensitive-default",
        "",
    ),
    (
        "variable twice",
        "inputs: {a: {}}\nconfig: {a: {}}\nsteps: {s: {run: x}}",
        "2:10",
        "duplicate-variable",
        "keep one",
    ),
    ("tool without a name", "requires: [{check: x}]\nsteps: {s: {run: x}}", "1:12", "missing-key", "name"),
    ("retry without a number", step("run: x\nretry: {backoff: fixed}"), "4:12", "bad-retry", "max_retries"),
    (
        "retry of what may not",
        step("run: x\nidempotency: non_retriable\nretry: 2"),
        "5:5",
        "contradiction",
        "idempotency",
    ),
    (
        "unknown category",
        step("run: x\nretry: {max_retries: 1, on: [timout]}"),
        "4:34",
        "wrong-value",
        "did you mean timeout?",
    ),
    ("on_timeout alone", step("executor: external\non_timeout: fail"), "4:5", "misplaced-key", "timeout: 24h"),
    (
        "on_timeout of nothing",
        step("executor: external\ntimeout: 1h\noutputs: [good]\non_timeout: {god: 1}"),
        "6:5",
        "unknown-output",
        "did you mean good?",
    ),
    (
        "on_timeout of the wrong type",
        step("executor: external\ntimeout: 1h\noutputs: {n: {type: number}}\non_timeout: {n: x}"),
        "6:5",
        "wrong-value",
        "n is a number",
    ),
    (
        "output_path alone",
        step("executor: agent\nprompt: x\noutput_path: x"),
        "5:5",
        "misplaced-key",
        "output_mode: file",
    ),
    ("empty run", step("run: ''"), "3:5", "empty-script", "write a command"),
    ("missing script", step("run: scripts/x.py"), "3:5", "missing-file", "beside the flow"),
    ("missing prompt file", step("executor: llm\nprompt_file: no.md"), "4:5", "missing-file", "no.md"),
    ("missing sub-flow", step("flow: nope"), "3:5", "not-found", "there is no flow 'nope'"),
    ("registry", step("flow: '@me:x'"), "3:5", "no-registry", "name its file"),
    ("fallback of text", step("run: x\nfallback: hello"), "4:15", "wrong-value", "another executor"),
    (
        "fallback with a step's key",
        step("run: x\nfallback: {run: y, retry: 3}"),
        "4:24",
        "misplaced-key",
        "belongs to the step",
    ),
    ("null where a value must be", step("run:"), "3:9", "wrong-value", "not nothing"),
    ("emit_flow", step("executor: agent\nprompt: x\nemit_flow: true"), "5:16", "wrong-value", "false"),
]


@pytest.mark.parametrize(("text", "place", "code", "says"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_wrong_is_told_where_it_is(folder: Folder, text: str, place: str, code: str, says: str) -> None:
    errors = [one for one in folder.findings(text) if one.severity == "error"]
    assert [(one.code, f"{one.at.line}:{one.at.column}") for one in errors] == [(code, place)]
    assert says in str(errors[0])
    assert errors[0].at.file == "x.flow.yaml"


def test_everything_that_is_wrong_is_told_at_once(folder: Folder) -> None:
    folder.write(
        "x.flow.yaml", "nmae: x\nsteps:\n  a: {rn: x}\n  b: {run: x, timeout: soon, after: [zz]}\n  b: {run: y}\n"
    )
    with pytest.raises(FlowFileError) as raised:
        load_flow("x")
    lines = str(raised.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "x.flow.yaml:1:1",
        "x.flow.yaml:3:7",
        "x.flow.yaml:4:3",
        "x.flow.yaml:4:24",
        "x.flow.yaml:5:3",
    ]
    assert len(raised.value.findings) == 5


def test_words_that_yaml_1_1_takes_for_booleans_stay_words_unless_a_boolean_is_meant(folder: Folder) -> None:
    flow = folder.load("""
        inputs:
          on: {type: choice, options: [on, off, no], default: off, required: no}
          norway: {type: str, default: no}
        steps:
          no: {run: "yes", inputs: {y: $job.on}, cache: on}
        """)
    assert [one.name for one in flow.inputs] == ["on", "norway"]
    assert (flow.inputs[0].options, flow.inputs[0].default, flow.inputs[1].default) == (
        ("on", "off", "no"),
        "off",
        "no",
    )
    assert flow.steps[0].name == "no"
    assert flow.steps[0].cache is not None


def test_a_key_with_nothing_after_it_is_as_good_as_none(folder: Folder) -> None:
    flow = folder.load("name:\ninputs:\nsteps:\n  s:\n    run: x\n    outputs:\n    exits:\n")
    assert (flow.name, flow.inputs, flow.steps[0].outputs) == ("x", (), ())
