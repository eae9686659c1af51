"""`executor: llm`: one call of a model. Declared outputs are the schema of its answer."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import msgspec

from holdfast.errors import JobStepError
from holdfast.events.families.llm import (
    LLMCallCompletedEvent,
    LLMCallFailedEvent,
    LLMCallStartedEvent,
    LLMStreamChunkEvent,
    LLMThinkingChunkEvent,
)
from holdfast.flowfiles import Field, Llm, Template, compile_template
from holdfast.jobs._calls import Call
from holdfast.jobs._masking import StreamMask
from holdfast.models import (
    Message,
    Model,
    ModelSettings,
    Reply,
    SystemMessage,
    TextDelta,
    ThinkingDelta,
    UserMessage,
)

_TYPES = {"str": "string", "text": "string", "number": "number", "bool": "boolean", "list": "array", "object": "object"}


async def run_llm(call: Call) -> Any:
    """What the model said: an object when outputs are declared, else its text as `text`. Raises a ModelError or JobStepError."""
    executor = call.executor
    assert isinstance(executor, Llm)
    call.meter.check()
    model = _model(call, executor)
    schema = schema_of(call.step.outputs) if call.step.outputs else None
    settings = ModelSettings(
        temperature=executor.temperature, max_tokens=executor.max_tokens, output_schema=schema, output_name="outputs"
    )
    reply = await _ask(call, model, _messages(call, executor), settings)
    call.meter.count(reply.usage)
    return answer_of(reply.text, call) if schema is not None else {"text": reply.text}


def _model(call: Call, executor: Llm) -> Model:
    engine = call.scope.engine
    name = rendered(call, executor.model) if executor.model is not None else engine.default_model
    if not name:
        raise JobStepError(
            "it names no model and there is no default: give it `model:`, or set HOLDFAST_MODEL",
            category="configuration",
        )
    return engine.models(name)


def _messages(call: Call, executor: Llm) -> list[Message]:
    prompt = call.step.loop_prompt if call.attempt > 1 and call.step.loop_prompt is not None else executor.prompt
    said: list[Message] = [SystemMessage(rendered(call, executor.system))] if executor.system is not None else []
    return [*said, UserMessage(rendered(call, prompt))]


def rendered(call: Call, template: Template) -> str:
    """A template of the flow file, with the step's inputs."""
    return compile_template(template.text, template.at).render({**call.inputs, "attempt": call.attempt})


async def _ask(call: Call, model: Model, messages: list[Message], settings: ModelSettings) -> Reply:
    run, about = call.run, {"model": model.name, "call_id": f"{call.idempotency_key}/{call.execution.tries}"}
    run.tell(LLMCallStartedEvent, **about, message_count=len(messages))
    try:
        reply = await _streamed(call, model, messages, settings)
    except Exception as error:
        run.tell(LLMCallFailedEvent, **about, error=str(error), error_type=type(error).__name__)
        raise
    used = {"usage": reply.usage.tokens(), "cost_usd": reply.usage.cost_usd, "finish_reason": reply.finish}
    run.tell(LLMCallCompletedEvent, **about, **used)
    return reply


async def _streamed(call: Call, model: Model, messages: list[Message], settings: ModelSettings) -> Reply:
    secrets = call.scope.shared.secrets
    said, thought = StreamMask(secrets), StreamMask(secrets)
    async with aclosing(model.stream(messages, (), settings)) as parts:
        async for part in parts:
            if isinstance(part, TextDelta):
                call.run.tell(LLMStreamChunkEvent, chunk=said.feed(part.text))
            elif isinstance(part, ThinkingDelta):
                call.run.tell(LLMThinkingChunkEvent, chunk=thought.feed(part.text))
            elif isinstance(part, Reply):
                if rest := said.close():
                    call.run.tell(LLMStreamChunkEvent, chunk=rest)
                return part
    raise AssertionError("every stream ends in a reply")


def schema_of(fields: tuple[Field, ...]) -> dict[str, Any]:
    """The JSON Schema of declared outputs."""
    return {
        "type": "object",
        "properties": {field.name: _schema(field) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }


def _schema(field: Field) -> dict[str, Any]:
    told: dict[str, Any] = {"description": field.description} if field.description else {}
    if field.type == "choice":
        return told | {"enum": list(field.options)}
    if field.type in _TYPES:
        told["type"] = _TYPES[field.type]
    bounds = {"minimum": field.min, "maximum": field.max}
    return told | {name: bound for name, bound in bounds.items() if bound is not None}


def answer_of(text: str, call: Call) -> dict[str, Any]:
    """The object in a model's answer, which may stand in a fence. Raises JobStepError, category `output`, if there is none."""
    inner = text.strip()
    if inner.startswith("```"):
        inner = inner.strip("`").partition("\n")[2]
    start, end = inner.find("{"), inner.rfind("}")
    try:
        found = msgspec.json.decode(inner[start : end + 1]) if start >= 0 else None
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise JobStepError(f"the model's answer is no object: {text[:200]!r}", category="output")
    return found
