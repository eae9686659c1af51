"""Builds what a step does from what was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._kinds import KINDS, StepKind
from holdfast.flowfiles._model import (
    AgentCall,
    Executor,
    Extension,
    External,
    FlowFile,
    ForEach,
    Llm,
    Permissions,
    Poll,
    PythonCall,
    Sandbox,
    Script,
    SubFlow,
)
from holdfast.flowfiles._parts import Template
from holdfast.flowfiles._shapes import Fields, names_of
from holdfast.flowfiles._sources import read_source

_SCRIPTS = (".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".R")


class Surroundings(Protocol):
    """The files around a flow."""

    report: Report

    def script_file(self, text: str) -> str | None:
        """The file of the flow that a `run:` names, relative to its directory; None when it names none."""
        ...

    def prompt_from(self, fields: Fields) -> Template | None:
        """The prompt in the file that `prompt_file` names; None after reporting why there is none."""
        ...

    def sub_flow(self, fields: Fields) -> FlowFile | None:
        """The flow that `flow` names or holds; None after reporting why there is none."""
        ...


def build_executor(kind: StepKind, fields: Fields, around: Surroundings) -> Executor | None:
    """What a step does; None when something that it needs is missing, and was reported."""
    build = _BUILDERS.get(kind.name)
    if build is not None and kind is KINDS.get(kind.name):
        return build(fields, around)
    options = {name: fields.get(name) for name in kind.options if name in fields.values and name != "executor"}
    return Extension(name=kind.name, options=options)


def _script(fields: Fields, around: Surroundings) -> Script | None:
    text = fields.get("run")
    if text is None:
        return None
    if not text.strip():
        around.report.error("empty-script", fields.place("run"), "run is empty", fix="write a command")
        return None
    word = text.strip()
    file = around.script_file(word) if len(word.split()) == 1 else None
    if (
        file is None
        and word.endswith(_SCRIPTS)
        and len(word.split()) == 1
        and not word.startswith((".", "/", "$", "~"))
    ):
        message = f"the script {word} is not beside the flow"
        around.report.error(
            "missing-file", fields.place("run"), message, fix="add it, or write the command that runs it"
        )
    return Script(text=text, file=file)


def _prompt(fields: Fields, around: Surroundings, needed_by: str = "") -> Template | None:
    if "prompt" in fields and "prompt_file" in fields:
        message = "a step has either prompt or prompt_file"
        around.report.error("two-prompts", fields.place("prompt_file"), message, fix="remove one")
    if "prompt_file" in fields.values and "prompt" not in fields:
        return around.prompt_from(fields)
    prompt: Template | None = fields.get("prompt")
    if prompt is None and needed_by and "prompt" not in fields and "prompt_file" not in fields:
        around.report.error(
            "missing-key", fields.at, f"{needed_by} step needs prompt", fix="add prompt: or prompt_file:"
        )
    return prompt


def _llm(fields: Fields, around: Surroundings) -> Llm | None:
    prompt = _prompt(fields, around, "an llm")
    if prompt is None:
        return None
    return Llm(
        prompt=prompt,
        model=fields.get("model"),
        system=fields.get("system"),
        temperature=fields.get("temperature"),
        max_tokens=fields.get("max_tokens"),
    )


def _agent(fields: Fields, around: Surroundings) -> AgentCall | None:
    prompt = _prompt(fields, around, "an agent")
    mode = fields.get("output_mode", "file" if fields.get("outputs") else "effect")
    if "output_path" in fields and mode != "file":
        message = f"output_path does not apply to output_mode: {mode}"
        around.report.error("misplaced-key", fields.place("output_path"), message, fix="use output_mode: file")
    if prompt is None:
        return None
    return AgentCall(
        prompt=prompt,
        agent=fields.get("agent"),
        working_dir=fields.get("working_dir"),
        model=fields.get("model"),
        tools=names_of(fields.get("tools")) if "tools" in fields.values else None,
        permissions=_permissions(fields.get("permissions")),
        output_mode=mode,
        output_path=fields.get("output_path"),
        sandbox=_sandbox(fields.get("sandbox")),
    )


def _permissions(said: Any) -> Permissions:
    if isinstance(said, Fields):
        lists = {name: names_of(said.get(name, ())) for name in ("ask", "allow", "deny")}
        return Permissions(**lists, otherwise=said.get("otherwise", "ask"))
    return Permissions(otherwise=said) if said else Permissions()


def _sandbox(said: Any) -> Sandbox | None:
    if isinstance(said, Fields):
        paths = {name: names_of(said.get(name, ())) for name in ("read", "write")}
        return Sandbox(network=said.get("network", True), **paths)
    return Sandbox() if said else None


def _external(fields: Fields, around: Surroundings) -> External:
    answer = fields.get("on_timeout")
    outputs = {name: value for _, name, value in answer} if isinstance(answer, list) else None
    if "on_timeout" in fields and "timeout" not in fields:
        message = "on_timeout without a timeout never happens"
        around.report.error("misplaced-key", fields.place("on_timeout"), message, fix="add timeout: 24h")
    return External(prompt=_prompt(fields, around), on_timeout=outputs)


def _poll(fields: Fields, around: Surroundings) -> Poll | None:
    command = fields.get("check_command")
    if command is None:
        return None
    return Poll(
        check_command=command, interval_seconds=fields.get("interval_seconds", 60.0), prompt=_prompt(fields, around)
    )


def _python(fields: Fields, around: Surroundings) -> PythonCall | None:
    call = fields.get("call")
    if call is None:
        return None
    module, _, function = call.partition(":")
    return PythonCall(module=module, function=function)


def _flow(fields: Fields, around: Surroundings) -> SubFlow | None:
    flow = around.sub_flow(fields)
    return None if flow is None else SubFlow(flow=flow, reference=_reference(fields))


def _for_each(fields: Fields, around: Surroundings) -> ForEach | None:
    flow = around.sub_flow(fields)
    listed = fields.get("for_each")
    source = read_source(listed, fields.place("for_each"), around.report) if listed else None
    if flow is None or source is None:
        return None
    return ForEach(
        source=source,
        flow=flow,
        item_name=fields.get("as", "item"),
        on_error=fields.get("on_error", "fail_fast"),
        max_parallel=fields.get("max_parallel"),
        reference=_reference(fields),
    )


def _reference(fields: Fields) -> str:
    said = fields.get("flow")
    return said if isinstance(said, str) else ""


_BUILDERS: dict[str, Callable[[Fields, Surroundings], Executor | None]] = {
    "script": _script,
    "llm": _llm,
    "agent": _agent,
    "external": _external,
    "poll": _poll,
    "python": _python,
    "flow": _flow,
    "for_each": _for_each,
}
