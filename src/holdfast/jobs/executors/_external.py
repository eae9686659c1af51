"""`executor: external`: waits for anyone's answer. The step's outputs are the form."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from holdfast.errors import JobStepError
from holdfast.flowfiles import External, Field, compile_template
from holdfast.jobs._calls import Call
from holdfast.jobs._fields import coerce_fields
from holdfast.jobs._masking import masked
from holdfast.jobs._time import overdue
from holdfast.ports import Ask


async def run_external(call: Call) -> Any:
    """The answer, with the types of the form. One that does not fit is asked for again, with what is wrong with it."""
    executor = call.executor
    assert isinstance(executor, External)
    problem = ""
    answers = call.scope.shared.answers
    if (answer := answers.get(call.ask_id)) is not None:  # taken when what becomes of it is recorded
        try:
            return coerce_fields(call.step.outputs, answer)
        except JobStepError as error:
            del answers[call.ask_id]
            problem = f"{error}; answer again"
    deadline = call.deadline_us
    if deadline is not None and deadline <= call.now_us:
        late = overdue(call.step, "nobody answered in")
        if executor.on_timeout is not None and late.category == "timeout":
            return dict(executor.on_timeout)
        raise late
    message = compile_template(executor.prompt.text).render(call.inputs) if executor.prompt is not None else ""
    said = "\n".join(part for part in (message or call.step.description, problem) if part)
    said = masked(said, call.scope.shared.secrets)
    raise call.wait_for(_ask(call, said, deadline), until_us=deadline)


def _ask(call: Call, message: str, expires_us: int | None) -> Ask:
    fields = {field.name: _form(field) for field in call.step.outputs}
    return Ask(call.ask_id, call.scope.step_path(call.step.name), message, fields, expires_us)


def _form(field: Field) -> dict[str, Any]:
    """A field as whoever asks for it shows it."""
    told = {"type": field.type, "description": field.description, "required": field.required, "example": field.example}
    told |= {"options": list(field.options), "min": field.min, "max": field.max}
    said = {name: value for name, value in told.items() if value not in ("", None, [])}
    return said if field.default is UNSET else said | {"default": field.default}
