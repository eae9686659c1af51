"""The format: every key of a flow file, a step and a kit, with its shape and its meaning. The parser, the schema and the reference
page all come from these tables.
"""

from __future__ import annotations

from typing import get_args

from holdfast.flowfiles._parts import ErrorCategory
from holdfast.flowfiles._shapes import (
    Anything,
    ByForm,
    Deferred,
    Empty,
    Flag,
    Formula,
    Key,
    Many,
    Name,
    Number,
    OneOf,
    Prompt,
    Record,
    Seconds,
    Table,
    Text,
    Whole,
)

NAME = Name("-")
IDENTIFIER = Name()
SOURCE = Text("step.field, or $job.name")
NOT_USED = "is accepted and has no effect here"

VARIABLE_TYPES = ("str", "text", "number", "bool", "choice")
OUTPUT_TYPES = (*VARIABLE_TYPES, "list", "object", "any")

_FIELD = {
    "description": Key(Text(), "What it is, for people."),
    "default": Key(Anything(), "Taken when no value is given."),
    "required": Key(Flag(), "Whether a value must be there; true unless there is a default."),
    "options": Key(Many(Text()), "What a choice may be."),
    "min": Key(Number(), "The smallest number."),
    "max": Key(Number(), "The largest number."),
}

VARIABLE = Record(
    "a variable",
    {
        "type": Key(OneOf(*VARIABLE_TYPES), "What kind of value it is; str if not said."),
        **_FIELD,
        "example": Key(Text(), "A value to show in forms and errors."),
        "sensitive": Key(
            Flag(), "Masked everywhere and never stored; read from HOLDFAST_VAR_NAME by the process that runs the job."
        ),
    },
)

OUTPUT = Record(
    "an output",
    {
        "type": Key(OneOf(*OUTPUT_TYPES), "What kind of value it is; any if not said."),
        **_FIELD,
        "example": Key(Text(), "A value to show in forms."),
    },
)

TOOL = Record(
    "a tool",
    {
        "name": Key(Text(), "What it is called; looked up in PATH unless check says how to find it.", is_required=True),
        "description": Key(Text(), "What it is for."),
        "check": Key(Text(), "A command that succeeds when it is there. `validate` never runs it."),
        "install": Key(Text(), "How to get it, shown when it is missing."),
        "url": Key(Text(), "Where to read about it."),
    },
)

LIMITS = Record(
    "limits",
    {
        "max_cost_usd": Key(Number(above=0), "Money."),
        "max_duration_minutes": Key(Number(above=0), "Time."),
        "max_iterations": Key(Whole(least=1), "How often a step may run in one loop."),
        "max_tokens": Key(Whole(least=1), "Tokens, in and out."),
    },
)

INPUT = ByForm(
    scalar=SOURCE,
    mapping=Record(
        "an input",
        {
            "from": Key(SOURCE, "Where the value comes from."),
            "any_of": Key(Many(SOURCE), "Several places; the first that has a value is taken."),
            "optional": Key(Flag(), "Absent becomes null instead of keeping the step waiting."),
        },
    ),
)

WHEN = ByForm(
    scalar=Formula(),
    mapping=Record(
        "a condition",
        {
            "input": Key(IDENTIFIER, "The input that is looked at.", is_required=True),
            "eq": Key(Anything(), "Holds when it equals this."),
            "in": Key(Many(Anything()), "Holds when it is one of these."),
            "is_null": Key(Flag(), "Holds when it is null, or is not."),
            "is_present": Key(Flag(), "Holds when it has arrived, or has not."),
        },
    ),
)

EXIT_RULE = Record(
    "an exit rule",
    {
        "name": Key(Text(), "What it is called in events and errors."),
        "when": Key(
            Formula(),
            "When it is taken; always, if not said. Reads outputs, attempt, max_attempts, error, error_category.",
        ),
        "action": Key(OneOf("advance", "loop", "escalate", "abandon"), "What happens.", is_required=True),
        "target": Key(NAME, "The step a loop goes back to."),
        "max_iterations": Key(Whole(least=1), "How often a loop may be taken."),
    },
)

RETRY = ByForm(
    scalar=Whole(least=0, most=100),
    mapping=Record(
        "retry",
        {
            "max_retries": Key(Whole(least=0, most=100), "Further attempts after the first."),
            "max_attempts": Key(Whole(least=1, most=101), "The same, counting the first."),
            "delay_seconds": Key(Number(least=0), "Before the first retry; 1 if not said."),
            "backoff": Key(OneOf("exponential", "fixed"), "Whether the delay doubles; it does if not said."),
            "max_delay_seconds": Key(Number(least=0), "The longest delay; 60 if not said."),
            "jitter": Key(Number(least=0, most=1), "The share of a delay by which it varies; 0.2 if not said."),
            "on": Key(
                Many(OneOf(*get_args(ErrorCategory))), "Which failures; transient, timeout, failed, output if not said."
            ),
        },
    ),
)

CACHE = ByForm(
    scalar=Flag(),
    mapping=Record(
        "cache",
        {
            "ttl": Key(Seconds(), "How long a result may be used; for ever if not said."),
            "key_extra": Key(Text(), "Part of the key; change it to start afresh."),
        },
    ),
)

RESOURCE = ByForm(
    scalar=Text("the kind of a resource"),
    mapping=Record(
        "a resource",
        {
            "kind": Key(Text("the kind of a resource"), "What to hold.", is_required=True),
            "options": Key(Anything(), "What its manager needs to know."),
        },
    ),
)

DECORATOR = Record(
    "a decorator",
    {
        "type": Key(OneOf("retry", "timeout", "fallback"), "Which option it stands for.", is_required=True),
        "config": Key(Anything(), "What the option says."),
        **{
            name: Key(Anything(), "Part of config, written beside it.")
            for name in (
                "seconds",
                "minutes",
                "max_retries",
                "max_attempts",
                "delay_seconds",
                "backoff",
                "fallback_ref",
            )
        },
    },
)

COMMON = {
    "description": Key(Text(), "What the step is for."),
    "inputs": Key(Table(INPUT, IDENTIFIER), "Values it is given: `name: step.field`, `name: $job.variable`, or a mapping."),
    "outputs": Key(
        ByForm(scalar=IDENTIFIER, sequence=Many(IDENTIFIER), mapping=Table(ByForm(scalar=Empty(), mapping=OUTPUT), IDENTIFIER)),
        "What it gives: names, or names with types.",
    ),
    "after": Key(Many(NAME), "Steps that must be completed first."),
    "after_resolved": Key(Many(NAME), "Steps that must be completed or skipped first."),
    "when": Key(WHEN, "Keeps the step waiting until it holds. Reads the step's inputs."),
    "derived_outputs": Key(Table(Formula(), IDENTIFIER), "More outputs, computed from the outputs."),
    "exits": Key(Many(EXIT_RULE), "What to do when it is done; the first rule that holds is taken."),
    "limits": Key(LIMITS, "Bounds; going over one is a failure of the step."),
    "retry": Key(RETRY, "How often a failure is tried again: a number, or a mapping."),
    "timeout": Key(Seconds(), "How long it may take."),
    "fallback": Key(Deferred("fallback", "another executor"), "What runs in its place when it failed for good."),
    "on_error": Key(OneOf("fail", "continue"), "Whether its failure fails the job."),
    "idempotency": Key(
        OneOf("idempotent", "retriable_with_guard", "non_retriable"),
        "Whether it may run again after a crash: yes; yes, it uses its idempotency key; no, ask a person.",
    ),
    "cache": Key(CACHE, "Whether an earlier result may be used."),
    "session": Key(NAME, "The conversation it takes part in; steps with the same one share it."),
    "fork_from": Key(NAME, "The step at whose end its session branches off."),
    "loop_prompt": Key(Prompt(), "In place of the prompt from the second attempt on."),
    "max_continuous_attempts": Key(Whole(least=1), "Attempts in one conversation before a fresh one is started."),
    "resources": Key(Many(RESOURCE), "What it holds while it runs."),
    "decorators": Key(Many(DECORATOR), "stepwise's retry, timeout, fallback.", note="is read as retry, timeout and fallback"),
    "sequencing": Key(Many(NAME), "stepwise's old name of after.", note="is read as after"),
    "output_fields": Key(Table(OUTPUT, IDENTIFIER), "stepwise's typed outputs.", note="is read as outputs with types"),
    "containment": Key(Anything(), "stepwise's; no effect.", note=NOT_USED),
    "notify": Key(Anything(), "stepwise's; no effect.", note=NOT_USED),
}  # fmt: skip

FLOW_REF = ByForm(scalar=Text("a flow's name or file"), mapping=Deferred("flow", "a flow"))

FLOW_KEYS = {
    "name": Key(NAME, "What it is called."),
    "description": Key(Text(), "What it does."),
    "author": Key(Text(), "Who wrote it."),
    "version": Key(Text(), "Which edition it is."),
    "inputs": Key(Table(ByForm(scalar=Empty(), mapping=VARIABLE), IDENTIFIER), "What each run is given; steps read `$job.NAME`."),
    "config": Key(Table(ByForm(scalar=Empty(), mapping=VARIABLE), IDENTIFIER), "What is set once, in config.local.yaml."),
    "requires": Key(Many(ByForm(scalar=Text("a tool's name"), mapping=TOOL)), "Programs it needs."),
    "limits": Key(LIMITS, "Bounds of the whole job; going over one ends it."),
    "steps": Key(Table(Deferred("step", "a step"), NAME), "What it does, step by step.", is_required=True),
    **{
        name: Key(Anything(), "stepwise's; no effect.", note=NOT_USED)
        for name in ("containment", "forked_from", "notify", "visibility", "readme", "tags")
    },
}  # fmt: skip

FLOW = Record("a flow", FLOW_KEYS)

KIT = Record(
    "a kit",
    {
        "name": Key(NAME, "What it is called: that of its directory.", is_required=True),
        "description": Key(Text(), "What its flows are for."),
        "author": Key(Text(), "Who wrote it."),
        "version": Key(Text(), "Which edition it is."),
        "defaults": Key(Table(Anything(), IDENTIFIER), "Defaults for variables of its flows."),
        **{
            name: Key(Anything(), "stepwise's; no effect.", note=NOT_USED)
            for name in ("category", "include", "readme", "tags", "usage")
        },
    },
)
