"""A loaded flow: frozen, typed data without a trace of YAML. What the job engine runs, stores with a job, and draws.

Everything here is a msgspec struct made of plain data, so `msgspec.json.encode(flow)` and
`msgspec.json.decode(stored, type=FlowFile)` carry a flow into a store and back. A flow that the loader returned has been checked:
every name it mentions exists, every expression and template parses, every file it refers to was there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from holdfast.flowfiles._parts import (
    Action,
    ErrorCategory,
    Expression,
    Idempotency,
    Limits,
    OutputField,
    Position,
    Template,
    Tool,
    Variable,
)

# ── where a step's inputs come from ───────────────────────────────────────────────────────────────────────────────────


class StepSource(Struct, frozen=True, tag="step"):
    """`step.field.path`: an output of a step, or something inside it."""

    step: str
    path: tuple[str, ...]
    """the output's name, then the keys (list indexes as digits) that lead into it; `("_session",)` is its session's handle"""
    loop: str | None = None
    """set when the source closes a circle: the step at the head of that loop (the `target` of its rule). The value is absent in
    the loop's first iteration and the latest one afterwards."""


class JobSource(Struct, frozen=True, tag="job"):
    """`$job.name.path`: a variable of the flow, or something inside it."""

    name: str
    path: tuple[str, ...] = ()


Source: TypeAlias = StepSource | JobSource


class Input(Struct, frozen=True, kw_only=True):
    """One input of a step."""

    name: str
    at: Position
    sources: tuple[Source, ...]
    """one, or several for `any_of`: the first that is available, in this order"""
    optional: bool = False
    """absent becomes null instead of keeping the step waiting"""


# ── conditions ────────────────────────────────────────────────────────────────────────────────────────────────────────


class WhenExpression(Struct, frozen=True, tag="expression"):
    """`when: EXPRESSION` over the step's inputs."""

    expression: Expression


class WhenInput(Struct, frozen=True, tag="input"):
    """`when: {input: NAME, eq|in|is_null|is_present: VALUE}`. An absent input is null and not present."""

    input: str
    at: Position
    test: Literal["eq", "in", "is_null", "is_present"]
    value: Any
    """for `in` a list, for `is_null` and `is_present` true or false"""


When: TypeAlias = WhenExpression | WhenInput


class ExitRule(Struct, frozen=True, kw_only=True):
    """What to do when a step is done. The first rule whose `when` holds is taken."""

    action: Action
    at: Position
    name: str = ""
    """never empty in a loaded flow: a rule without a name is called by its action and place, as in `loop-2`"""
    when: Expression | None = None
    """over `outputs`, `attempt`, `max_attempts`, and on failure `error`, `error_category`; None always holds"""
    target: str | None = None
    """the step a `loop` goes back to"""
    max_iterations: int | None = None
    """how often this rule may be taken in one visit of its loop; only on `loop`"""
    on_failure: bool = True
    """whether it is considered when the step failed: its `when` is absent or constant, or names error, error_category or attempt"""


# ── executors: what a step does ───────────────────────────────────────────────────────────────────────────────────────


class Script(Struct, frozen=True, kw_only=True, tag="script"):
    """`run:`. Inputs arrive in the environment and in a file; nothing is ever pasted into the text."""

    text: str
    """as written: shell text, or the name of `file`"""
    file: str | None = None
    """the file of the flow that is meant, relative to `FlowFile.directory`"""


class Llm(Struct, frozen=True, kw_only=True, tag="llm"):
    """One call of a model. Declared outputs become the schema of its answer."""

    prompt: Template
    model: Template | None = None
    """None: the project's default model"""
    system: Template | None = None
    temperature: float | None = None
    max_tokens: int | None = None


class Permissions(Struct, frozen=True, kw_only=True):
    """What an agent may do. Entries are tool names or kinds; the most careful list that matches wins: deny, ask, allow."""

    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    otherwise: Literal["ask", "allow", "deny"] = "ask"
    """for what no list names; `permissions: allow` sets only this"""


class Sandbox(Struct, frozen=True, kw_only=True):
    """How an agent is confined."""

    network: bool = True
    read: tuple[str, ...] = ()
    """more paths it may read"""
    write: tuple[str, ...] = ()
    """more paths it may write, besides the job's workspace"""


class AgentCall(Struct, frozen=True, kw_only=True, tag="agent"):
    """One turn of an ACP agent."""

    prompt: Template
    agent: str | None = None
    """a registered agent; None: the project's default one"""
    working_dir: Template | None = None
    model: Template | None = None
    tools: tuple[str, ...] | None = None
    """None: whatever the agent has"""
    permissions: Permissions = Permissions()
    output_mode: Literal["effect", "stream_result", "file"] = "effect"
    """`file` when outputs are declared and nothing else was said"""
    output_path: str | None = None
    """where `file` is read from, relative to the working directory; None: a path the engine chooses and tells the agent"""
    sandbox: Sandbox | None = None
    """None: not confined"""


class External(Struct, frozen=True, kw_only=True, tag="external"):
    """Waits for anyone's answer. The step's `outputs` are the form, its `timeout` how long it waits."""

    prompt: Template | None = None
    on_timeout: Mapping[str, Any] | None = None
    """the outputs to go on with when time is up; None: the step fails with category `timeout`"""


class Poll(Struct, frozen=True, kw_only=True, tag="poll"):
    """Runs a command again and again: exit 0 with a JSON object is done, with nothing is not yet, anything else is tried again."""

    check_command: str
    interval_seconds: float = 60.0
    prompt: Template | None = None
    """shown while it waits"""


class PythonCall(Struct, frozen=True, kw_only=True, tag="python"):
    """`call: module:function`, given the inputs as keyword arguments."""

    module: str
    function: str
    """may be dotted: `Class.method`"""


class SubFlow(Struct, frozen=True, kw_only=True, tag="flow"):
    """`flow:`. A child run; the step's inputs are the child's `$job` values."""

    flow: FlowFile
    reference: str = ""
    """as written; empty for a flow written inside the step"""


class ForEach(Struct, frozen=True, kw_only=True, tag="for_each"):
    """`for_each:` + `as:` + `flow:`. A child run per item; the outputs are `{"results": [...]}` in the items' order.

    Each child's `$job` values are the step's inputs and the item, as `item_name`.
    """

    source: Source
    flow: FlowFile
    item_name: str = "item"
    on_error: Literal["fail_fast", "continue"] = "fail_fast"
    """`continue`: an item that failed has `{"_error": ...}` as its result; if all fail, the step does"""
    max_parallel: int | None = None
    """None: as many as the worker allows"""
    reference: str = ""


class Extension(Struct, frozen=True, kw_only=True, tag="extension"):
    """`executor: NAME` of an installed package (entry point group `holdfast.executors`), with the options it declares."""

    name: str
    options: Mapping[str, Any] = {}


Executor: TypeAlias = Script | Llm | AgentCall | External | Poll | PythonCall | SubFlow | ForEach | Extension


def kind_of(executor: Executor) -> str:
    """The executor's name: `script`, `llm`, `agent`, `external`, `poll`, `python`, `flow`, `for_each`, or an extension's own."""
    return executor.name if isinstance(executor, Extension) else str(executor.__struct_config__.tag)


# ── a step's options ──────────────────────────────────────────────────────────────────────────────────────────────────


class Retry(Struct, frozen=True, kw_only=True):
    """How often a failed step is tried again, and when. Never for `NEVER_RETRIED` categories."""

    max_retries: int
    """further attempts after the first"""
    delay_seconds: float = 1.0
    backoff: Literal["exponential", "fixed"] = "exponential"
    max_delay_seconds: float = 60.0
    jitter: float = 0.2
    """a delay is moved by up to this share of itself, either way"""
    on: tuple[ErrorCategory, ...] = ("transient", "timeout", "failed", "output")


class Fallback(Struct, frozen=True, kw_only=True):
    """What runs in place of a step that failed for good: same inputs, same declared outputs."""

    executor: Executor
    at: Position


class Cache(Struct, frozen=True, kw_only=True):
    """Whether an earlier result may be used. Key: executor, resolved inputs, config, the flow's `digest`, `key_extra`."""

    ttl_seconds: float | None = None
    """None: for ever"""
    key_extra: str = ""


class ResourceRequest(Struct, frozen=True, kw_only=True):
    """Something the step holds while it runs (`resources`), released with the job on every way out."""

    kind: str
    at: Position
    options: Mapping[str, Any] = {}


class StepSpec(Struct, frozen=True, kw_only=True):
    """One step."""

    name: str
    at: Position
    executor: Executor
    description: str = ""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[OutputField, ...] = ()
    after: tuple[str, ...] = ()
    """completed before it may start"""
    after_resolved: tuple[str, ...] = ()
    """completed or skipped before it may start"""
    when: When | None = None
    derived_outputs: tuple[tuple[str, Expression], ...] = ()
    """names and expressions over the outputs, evaluated in this order; a later one sees the earlier"""
    exits: tuple[ExitRule, ...] = ()
    limits: Limits = Limits()
    retry: Retry | None = None
    timeout_seconds: float | None = None
    fallback: Fallback | None = None
    on_error: Literal["fail", "continue"] = "fail"
    """always `fail` for a for_each step, whose `on_error` is about its items"""
    idempotency: Idempotency = "idempotent"
    cache: Cache | None = None
    session: str | None = None
    """steps with one session share one conversation, one writer at a time"""
    fork_from: str | None = None
    """the step at whose end this step's session branches off"""
    loop_prompt: Template | None = None
    """in place of the prompt from the second attempt on"""
    max_continuous_attempts: int | None = None
    """after so many attempts in one conversation the next starts a fresh one"""
    resources: tuple[ResourceRequest, ...] = ()

    @property
    def kind(self) -> str:
        """The name of its executor, as `kind_of` gives it."""
        return kind_of(self.executor)


class FlowFile(Struct, frozen=True, kw_only=True, dict=True):
    """A whole flow."""

    name: str
    at: Position
    directory: str
    """absolute; where its scripts are"""
    steps: tuple[StepSpec, ...]
    """in the file's order"""
    digest: str
    """of the file and of every script, prompt and sub-flow it uses: a flow with another digest is another flow"""
    description: str = ""
    author: str = ""
    version: str = ""
    inputs: tuple[Variable, ...] = ()
    config: tuple[Variable, ...] = ()
    requires: tuple[Tool, ...] = ()
    limits: Limits = Limits()

    @cached_property
    def by_name(self) -> dict[str, StepSpec]:
        return {step.name: step for step in self.steps}

    @cached_property
    def size(self) -> int:
        """How many steps it has, those of sub-flows counted wherever they are used."""
        return len(self.steps) + sum(step.executor.flow.size for step in self.steps if hasattr(step.executor, "flow"))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """What `$job.NAME` may be: the inputs, then the settings."""
        return (*self.inputs, *self.config)
