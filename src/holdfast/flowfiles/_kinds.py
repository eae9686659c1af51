"""The kinds of steps: which keys each has, and how a step says what it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._format import COMMON, FLOW_REF, IDENTIFIER, NOT_USED, SOURCE
from holdfast.flowfiles._nearest import did_you_mean, nearest
from holdfast.flowfiles._nodes import Mapping as MappingNode
from holdfast.flowfiles._nodes import Scalar
from holdfast.flowfiles._plugins import find_plugin, plugin_names
from holdfast.flowfiles._shapes import (
    Anything,
    ByForm,
    Flag,
    Key,
    Many,
    Number,
    OneOf,
    Prompt,
    Record,
    Table,
    Text,
    Whole,
)

SESSION_KEYS = frozenset({"session", "fork_from", "loop_prompt", "max_continuous_attempts"})
CHOOSERS = ("for_each", "flow", "run", "executor")
"""The keys that say what a step does."""

_PERMISSION = Many(Text("a tool's name or kind"))
_PATHS = Many(Text("a path"))
_PROMPT = {
    "prompt": Key(Prompt(), "What is asked; `$name`, `${name.path}` and `{{name}}` stand for inputs."),
    "prompt_file": Key(Text("a file"), "The same, in a file of the flow."),
}
_PERMISSIONS = ByForm(
    scalar=OneOf("ask", "allow", "deny"),
    mapping=Record(
        "permissions",
        {
            "ask": Key(_PERMISSION, "What a person is asked about."),
            "allow": Key(_PERMISSION, "What it may do."),
            "deny": Key(_PERMISSION, "What it may not do."),
            "otherwise": Key(OneOf("ask", "allow", "deny"), "The rest; ask if not said."),
        },
    ),
)
_SANDBOX = ByForm(
    scalar=Flag(),
    mapping=Record(
        "sandbox",
        {
            "network": Key(Flag(), "Whether it may use the network; true if not said."),
            "read": Key(_PATHS, "More paths it may read."),
            "write": Key(_PATHS, "More paths it may write."),
        },
    ),
)


class StepKind:
    """One kind of step."""

    def __init__(self, name: str, options: Mapping[str, Key], *, without: frozenset[str] = SESSION_KEYS) -> None:
        self.name = name
        self.options = dict(options)
        self.without = without
        """common keys that make no sense for it"""

    @cached_property
    def keys(self) -> dict[str, Key]:
        """Everything a step of this kind may have."""
        common = {name: key for name, key in COMMON.items() if name not in self.without}
        return {**self.options, **common, **{n: k for n, k in self.options.items() if n in common}}

    @cached_property
    def record(self) -> Record:
        return Record(f"{article(self.name)} {self.name} step", self.keys, foreign=self._foreign())

    @cached_property
    def fallback(self) -> Record:
        """The same executor as a step's fallback: its own options only."""
        foreign = {key: f"{key} does not apply to a fallback; it belongs to the step itself" for key in self.keys}
        return Record("a fallback", self.options, foreign=foreign)

    def _foreign(self) -> dict[str, str]:
        """Keys of other kinds, and what to say when one is found here."""
        owners: dict[str, list[str]] = {}
        for kind in KINDS.values():
            for key in kind.keys:
                if key not in self.keys:
                    owners.setdefault(key, []).append(kind.name)
        return {
            key: f"{key} does not apply to {article(self.name)} {self.name} step; it belongs to {', '.join(kinds)}"
            for key, kinds in owners.items()
        }


def article(word: str) -> str:
    return "an" if word[:1] in "aeiou" or word == "llm" else "a"


def _executor(name: str) -> Key:
    return Key(OneOf(name), "What does the work.", is_required=name != "script")


KINDS: dict[str, StepKind] = {
    kind.name: kind
    for kind in (
        StepKind(
            "script",
            {
                "run": Key(Text("a command or a file"), "A command, a shell script or a file of the flow.", is_required=True),
                "executor": _executor("script"),
            },
        ),
        StepKind(
            "llm",
            {
                "executor": _executor("llm"),
                **_PROMPT,
                "model": Key(Prompt(), "Which model; the project's default if not said."),
                "system": Key(Prompt(), "What the model is told beforehand."),
                "temperature": Key(Number(least=0, most=2), "How freely it answers."),
                "max_tokens": Key(Whole(least=1), "How long its answer may get."),
            },
            without=frozenset(),
        ),
        StepKind(
            "agent",
            {
                "executor": _executor("agent"),
                **_PROMPT,
                "agent": Key(Text("an agent's name"), "A registered ACP agent; the project's default if not said."),
                "working_dir": Key(Prompt(), "Where it works; the job's workspace if not said."),
                "model": Key(Prompt(), "Which model it uses."),
                "tools": Key(Many(Text("a tool's name")), "The tools it may use."),
                "permissions": Key(_PERMISSIONS, "What it may do: ask, allow or deny, or lists of each."),
                "output_mode": Key(OneOf("effect", "stream_result", "file"), "Where its outputs come from."),
                "output_path": Key(Text("a path"), "The file that output_mode: file reads."),
                "sandbox": Key(_SANDBOX, "Whether and how it is confined."),
                "emit_flow": Key(OneOf("false"), "stepwise's; no effect.", note=NOT_USED),
            },
            without=frozenset(),
        ),
        StepKind(
            "external",
            {
                "executor": _executor("external"),
                **_PROMPT,
                "on_timeout": Key(
                    ByForm(scalar=OneOf("fail"), mapping=Table(Anything(), IDENTIFIER)),
                    "What happens when time is up: fail, or the outputs to go on with.",
                ),
            },
            without=SESSION_KEYS | {"cache"},
        ),
        StepKind(
            "poll",
            {
                "executor": _executor("poll"),
                "check_command": Key(Text("a command"), "Exit 0 and a JSON object: done; nothing: not yet.", is_required=True),
                "interval_seconds": Key(Number(least=0.1), "How long to wait between checks; 60 if not said."),
                **_PROMPT,
            },
            without=SESSION_KEYS | {"cache"},
        ),
        StepKind(
            "python",
            {
                "executor": _executor("python"),
                "call": Key(
                    Text("module:function", r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"),
                    "A function; it is given the inputs by name.",
                    is_required=True,
                ),
            },
        ),
        StepKind("flow", {"flow": Key(FLOW_REF, "A flow: written here, a file, or a name.", is_required=True)}),
        StepKind(
            "for_each",
            {
                "for_each": Key(SOURCE, "A list: step.field, or $job.name.", is_required=True),
                "as": Key(IDENTIFIER, "What the item is called in the flow; item if not said."),
                "flow": Key(FLOW_REF, "The flow that runs for each item.", is_required=True),
                "max_parallel": Key(Whole(least=1), "How many items at once."),
                "on_error": Key(OneOf("fail_fast", "continue"), "Whether an item that fails ends the others."),
            },
        ),
    )
}  # fmt: skip


def kind_of_node(node: MappingNode, report: Report) -> StepKind | None:
    """What kind of step a mapping describes; None when it does not say, and `report` was told."""
    given = [key for key, _ in node.entries if key.text in CHOOSERS]
    names = {key.text for key in given}
    allowed = ({"run", "executor"} if _says_script(node) else set(), {"for_each", "flow"})
    if not given:
        _complain_of_nothing(node, report)
        return None
    if len(given) > 1 and names not in allowed:
        others = " and ".join(key.text for key in given)
        report.error(
            "two-executors", given[1].at, f"a step does one thing, this one has {others}", fix="make two steps"
        )
        return None
    chosen = next(name for name in CHOOSERS if name in names)
    return _named_kind(node, report) if chosen == "executor" else KINDS["script" if chosen == "run" else chosen]


def _complain_of_nothing(node: MappingNode, report: Report) -> None:
    """A step that does not say what it does: a misspelt key may be why."""
    for key, _ in node.entries:
        if key.text not in COMMON and (meant := nearest(key.text, CHOOSERS)) is not None:
            report.error("unknown-key", key.at, f"a step has no key {key.text[:60]!r}", fix=f"did you mean {meant}?")
            return
    report.error("no-executor", node.at, "this step does nothing", fix="add run:, executor:, flow: or for_each:")


def _says_script(node: MappingNode) -> bool:
    named = node.get("executor")
    return isinstance(named, Scalar) and named.text == "script"


def _named_kind(node: MappingNode, report: Report) -> StepKind | None:
    named = node.get("executor")
    if not isinstance(named, Scalar) or named.value is None:
        report.error(
            "wrong-value", named.at if named else node.at, f"executor must be one of {', '.join(executor_names())}"
        )
        return None
    if named.text in KINDS and named.text not in ("flow", "for_each"):
        return KINDS[named.text]
    return _installed_kind(named, report)


def executor_names() -> tuple[str, ...]:
    """Everything `executor:` may say here."""
    return (*(name for name in KINDS if name not in ("flow", "for_each")), *plugin_names())


def plugin_kind(name: str) -> StepKind | None:
    """The kind of steps that an installed executor makes; None if there is none. Raises ImportError when it is broken."""
    plugin = find_plugin(name)
    return None if plugin is None else StepKind(name, {"executor": _executor(name), **plugin.keys()})


def _installed_kind(named: Scalar, report: Report) -> StepKind | None:
    try:
        kind = plugin_kind(named.text)
    except ImportError as error:
        report.error("broken-executor", named.at, str(error), fix="repair or remove the package")
        return None
    if kind is None:
        hint = did_you_mean(named.text, executor_names()).removeprefix("; ")
        fix = hint or f"there are {', '.join(executor_names())}; a package can add more"
        report.error("unknown-executor", named.at, f"there is no executor {named.text[:60]!r}", fix=fix)
    return kind
