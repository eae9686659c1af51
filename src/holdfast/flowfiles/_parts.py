"""The small things a flow is made of: places, expressions, templates, typed fields, limits."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

FieldType: TypeAlias = Literal["str", "text", "number", "bool", "choice", "list", "object", "any"]
"""`str` one line, `text` several; `any` is what a bare name declares. Variables are never `list` or `object`."""

Action: TypeAlias = Literal["advance", "loop", "escalate", "abandon"]
Idempotency: TypeAlias = Literal["idempotent", "retriable_with_guard", "non_retriable"]
"""Whether a step whose result is unknown (a crash) may run again: yes · yes, by its idempotency key · no, a person decides."""

ErrorCategory: TypeAlias = Literal[
    "transient",  # the network, a rate limit, an overloaded provider: the same call may succeed later
    "timeout",  # the step's time was up
    "limit",  # the step's money, minutes, tokens or iterations were used up
    "auth",  # a key is missing or refused
    "quota",  # the account has nothing left
    "context_length",  # the conversation does not fit into the model
    "output",  # a declared output is missing, of the wrong type or too large
    "expression",  # an expression of the flow file could not be evaluated
    "configuration",  # the command, agent, model or function is not there
    "failed",  # the work itself failed: a non-zero exit, an exception, a child job that failed
]
"""What `error_category` is in an exit rule, and what `retry` chooses by."""

NEVER_RETRIED: frozenset[str] = frozenset({"auth", "quota", "context_length"})
"""Trying again cannot help; `retry` never does, whatever it lists."""


class Position(Struct, frozen=True):
    """Where something stands in a file; both numbers count from one."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Expression(Struct, frozen=True):
    """An expression as it was written. `compile_expression(text, at)` makes it runnable."""

    text: str
    at: Position
    names: tuple[str, ...] = ()
    """the names it reads, in order of appearance"""


class Template(Struct, frozen=True):
    """Text with `$name`, `${name.path}` or `{{name}}` in it. `compile_template(text, at)` makes it renderable."""

    text: str
    at: Position
    """for a `prompt_file`, the file's first character"""


class Field(Struct, frozen=True, kw_only=True):
    """A typed, named value: what variables and outputs have in common."""

    name: str
    at: Position
    type: FieldType = "any"
    description: str = ""
    required: bool = True
    default: Any | UnsetType = UNSET
    """taken when no value is given; UNSET when there is none, so that null can be a default"""
    example: str = ""
    options: tuple[Any, ...] = ()
    """what a `choice` may be"""
    min: float | None = None
    max: float | None = None


class Variable(Field, frozen=True, kw_only=True):
    """An input (given to each run) or a setting (`config`, set once)."""

    sensitive: bool = False
    """masked everywhere, never stored; the process that runs the job reads it from `HOLDFAST_VAR_NAME` or a secret provider"""
    implied: bool = False
    """not declared; some step reads `$job.NAME`"""


class OutputField(Field, frozen=True, kw_only=True):
    """A declared output of a step; for an external step, a field of its form."""


class Tool(Struct, frozen=True, kw_only=True):
    """A program the flow needs (`requires`)."""

    name: str
    at: Position
    description: str = ""
    check: str = ""
    """a shell command that succeeds when the tool is there; empty: the name is looked up in PATH. `validate` never runs it."""
    install: str = ""
    url: str = ""


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds that are enforced. On a step: a failure like any other. On the flow: they end the job. None: no bound."""

    max_cost_usd: float | None = None
    max_duration_minutes: float | None = None
    max_iterations: int | None = None
    """how often one step may run in one loop"""
    max_tokens: int | None = None
