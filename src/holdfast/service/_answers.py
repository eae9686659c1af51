"""Answers: which question one is meant for, and whether it fits the form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.flowfiles import OutputField, Position, coerce
from holdfast.ports import Ask, Job
from holdfast.service._service import JobService

NOWHERE = Position("")


async def give_answer(service: JobService, job_id: str, values: Mapping[str, Any], step: str = "") -> Job:
    """Answer what a step of a job waits for. The same answer twice is fine.

    Raises UsageError if nothing waits there, the values do not fit, or it was answered differently.
    """
    job = await service.get(job_id)
    answered = _meant(await _answered(service, job), step)
    ask = answered[0] if len(answered) == 1 and not _meant(job.asks, step) else choose_ask(job, step)
    return await service.answer(job.id, ask, fit(ask, values))


async def _answered(service: JobService, job: Job) -> list[Ask]:
    """What was answered, but has not gone on yet: the same answer may come again."""
    told = [msgspec.json.decode(one.data) for one in await service.jobs.requests(job_id=job.id) if one.kind == "answer"]
    return [msgspec.convert(one["asked"], Ask) for one in told if "asked" in one]


def choose_ask(job: Job, name: str) -> Ask:
    """The question with an id, or of a step; without a name the only one there is. Raises UsageError, naming what waits."""
    found = _meant(job.asks, name)
    if len(found) == 1:
        return found[0]
    waiting = ", ".join(ask.step for ask in job.asks)
    if not job.asks:
        raise UsageError(f"job {job.id} waits for no answer: it was answered, or timed out")
    if not found:
        raise UsageError(f"job {job.id} does not wait at {name!r}; it waits at: {waiting}")
    raise UsageError(f"job {job.id} waits for several answers; say which with --step: {waiting}")


def _meant(asks: Iterable[Ask], name: str) -> list[Ask]:
    return [ask for ask in asks if not name or name in (ask.id, ask.step)]


def fit(ask: Ask, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as the form wants them: text from a command line becomes numbers and truths. Raises UsageError."""
    form = {name: field_of(name, spec) for name, spec in ask.fields.items()}
    unknown = sorted(set(values) - set(form))
    if unknown and form:
        raise UsageError(f"step {ask.step} has no field {unknown[0]!r}; it has: {', '.join(form)}")
    missing = [field for name, field in form.items() if name not in values and is_wanted(field)]
    if missing:
        flags = " ".join(f"--output {field.name}={sample(field)}" for field in missing)
        raise UsageError(f"step {ask.step} needs more: add {flags}")
    try:
        fitting = {name: coerce(field, values[name]) for name, field in form.items() if name in values}
        return {**fitting, **{name: value for name, value in values.items() if name not in form}}
    except ValueError as error:
        raise UsageError(f"step {ask.step}: {error}") from error


def field_of(name: str, spec: Any) -> OutputField:
    """A field of a form, from what is stored of it: anything that is no description takes anything."""
    if not isinstance(spec, Mapping):
        return OutputField(name=name, at=NOWHERE)
    return msgspec.convert({**spec, "name": name, "at": msgspec.to_builtins(NOWHERE)}, OutputField, strict=False)


def is_wanted(field: OutputField) -> bool:
    return field.required and field.default is msgspec.UNSET


def sample(field: OutputField) -> str:
    """What a value could be."""
    if field.options:
        return "|".join(map(str, field.options))
    return {"number": "NUMBER", "bool": "yes|no"}.get(field.type, "TEXT")
