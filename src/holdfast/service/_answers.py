"""Answers: which question one is meant for, and whether it fits the form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.errors import UsageError
from holdfast.ports import Ask, Job

_TRUE, _FALSE = {"true", "yes", "y", "on", "1"}, {"false", "no", "n", "off", "0"}


def choose_ask(job: Job, name: str) -> Ask:
    """The question with an id, or of a step; without a name the only one there is. Raises UsageError, naming what waits."""
    found = [ask for ask in job.asks if not name or name in (ask.id, ask.step)]
    if len(found) == 1:
        return found[0]
    waiting = ", ".join(ask.step for ask in job.asks)
    if not job.asks:
        raise UsageError(f"job {job.id} waits for no answer: it was answered, or timed out")
    if not found:
        raise UsageError(f"job {job.id} does not wait at {name!r}; it waits at: {waiting}")
    raise UsageError(f"job {job.id} waits for several answers; say which with --step: {waiting}")


def fit(ask: Ask, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as the form wants them: text from a command line becomes numbers and truths. Raises UsageError per field."""
    unknown = sorted(set(values) - set(ask.fields))
    if unknown and ask.fields:
        raise UsageError(f"step {ask.step} has no field {unknown[0]!r}; it has: {', '.join(ask.fields)}")
    fitted = {name: _fit_field(ask, name, ask.fields.get(name), value) for name, value in values.items()}
    for name, spec in ask.fields.items():
        if name not in fitted and isinstance(spec, Mapping) and "default" in spec:
            fitted[name] = spec["default"]
        elif name not in fitted and not (isinstance(spec, Mapping) and spec.get("required") is False):
            raise UsageError(f"step {ask.step} needs a value for {name!r}: add --output {name}={_placeholder(spec)}")
    return fitted


def _placeholder(spec: Any) -> str:
    kind = spec.get("type", "str") if isinstance(spec, Mapping) else "str"
    options = spec.get("options") if isinstance(spec, Mapping) else None
    return "|".join(map(str, options)) if options else {"bool": "yes", "number": "1"}.get(str(kind), "TEXT")


def _fit_field(ask: Ask, name: str, spec: Any, value: Any) -> Any:
    kind = spec.get("type", "any") if isinstance(spec, Mapping) else "any"
    try:
        fitted = _COERCE.get(str(kind), lambda given: given)(value)
    except ValueError:
        raise UsageError(f"step {ask.step}: {name} must be a {kind}, and {value!r} is none") from None
    return _check_bounds(ask, name, spec, fitted) if isinstance(spec, Mapping) else fitted


def _check_bounds(ask: Ask, name: str, spec: Mapping[str, Any], value: Any) -> Any:
    options = spec.get("options")
    if options and value not in options:
        raise UsageError(f"step {ask.step}: {name} must be one of {', '.join(map(str, options))}, not {value!r}")
    low, high = spec.get("min"), spec.get("max")
    size = value if isinstance(value, int | float) else None
    if size is not None and ((low is not None and size < low) or (high is not None and size > high)):
        raise UsageError(f"step {ask.step}: {name} must be from {low} to {high}, not {value!r}")
    return value


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    raise ValueError(value)


def _to_number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(value)
    number = json.loads(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(value)
    return number


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


_COERCE = {"bool": _to_bool, "number": _to_number, "str": _to_text, "text": _to_text}
