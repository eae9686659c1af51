"""Secrets of a state: never stored, and put back when a run is taken up again."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import Secret, SecretStr

from holdfast.deltas import Withheld, fields_of, live_value, plain, reveal, unveil, withheld_in
from holdfast.errors import AnswerPendingError, FlowInputError, NotStorableError
from holdfast.kickoff._state import fields_by_name, restore_state
from holdfast.ports import HumanRequest

HIDDEN = "**********"
Secrets = Callable[[str], Any]


def variable_of(path: str) -> str:
    """The environment variable that holds a secret: `api_key` is in `HOLDFAST_SECRET_API_KEY`."""
    return "HOLDFAST_SECRET_" + re.sub(r"\W+", "_", path).upper()


def from_environment(path: str) -> str | None:
    return os.environ.get(variable_of(path))


def request_id_of(run_id: str, path: str) -> str:
    """The id under which `resume()` brings a secret."""
    return f"{run_id} secret {path}"


def with_secrets(
    state: Mapping[str, Any], run_id: str, flow_name: str, secrets: Secrets | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """A stored state with its secrets put back: `given`, by request or by path, else what `secrets` knows.

    Raises AnswerPendingError that says which are missing.
    """
    missing: list[HumanRequest] = []

    def value_at(path: str) -> Any:
        request_id = request_id_of(run_id, path)
        found: Any = given.get(request_id) or given.get(path) or (secrets or from_environment)(path)
        if found is None:
            message = f"the secret {path} is needed: set {variable_of(path)}, or give it to resume()"
            missing.append(HumanRequest(request_id, "secret", message, run_id, flow_name))
        return found.get_secret_value() if hasattr(found, "get_secret_value") else found

    revealed: dict[str, Any] = reveal(dict(state), value_at)
    if missing:
        raise AnswerPendingError("secrets are needed to go on", requests=tuple(missing))
    return revealed


def missing_secrets(
    state: Mapping[str, Any], run_id: str, flow_name: str, secrets: Secrets | None
) -> tuple[HumanRequest, ...]:
    """The secrets that a stored state needs and nobody has."""
    try:
        with_secrets(state, run_id, flow_name, secrets, {})
    except AnswerPendingError as pending:
        return cast(tuple[HumanRequest, ...], pending.requests)
    return ()


def restore_saved(fresh: Any, saved: Mapping[str, Any]) -> Any:
    """A state that `@persist` saved, with the secrets of the environment, else those that a fresh one has."""
    found = reveal(dict(saved), lambda path: from_environment(path) or live_value(fresh, path))
    return hide_again(restore_state(fresh, found), dict(saved))


def shown_state(fresh: Any, stored: Mapping[str, Any]) -> Any:
    """A stored state to look at: asterisks stand where its secrets were, and where text does not fit, what a fresh one has."""
    try:
        return restore_state(fresh, reveal(dict(stored), lambda path: HIDDEN))
    except FlowInputError:
        return restore_state(fresh, reveal(dict(stored), lambda path: _stand_in(live_value(fresh, path))))


def _stand_in(value: Any) -> Any:
    is_text = isinstance(value, str | Withheld) or hasattr(value, "get_secret_value")
    return HIDDEN if is_text else value


def rebuild(state: Any, stored: dict[str, Any]) -> Any:
    """A state like another one from its plain form, with the secrets of that."""
    return hide_again(restore_state(state, unveil(stored)), stored)


def hide_again(state: Any, stored: Mapping[str, Any]) -> Any:
    """The state, in which text that was put back hides itself again, or the next checkpoint would have it.

    The type of a field sees to that by itself; in a dict, a list or a tuple, nothing says what was there.
    """
    return _hidden_in(state, stored) if withheld_in(stored) else state


def _hidden_in(live: Any, stored: Any) -> Any:
    """What a live value is when what was withheld in it hides itself: the same, or a tuple made anew."""
    if isinstance(stored, dict):
        for name, item in stored.items():
            before = live.get(name) if isinstance(live, dict) else getattr(live, name, None)
            after = _hidden(live, before, item)
            if after is not before and isinstance(live, dict):
                live[name] = after
            elif after is not before:
                setattr(live, name, after)
    elif isinstance(stored, list | tuple) and isinstance(live, list | tuple) and len(stored) == len(live):
        items = [_hidden(live, before, item) for before, item in zip(live, stored, strict=True)]
        if isinstance(live, list):
            live[:] = items
        elif any(map(operator.is_not, items, live)):
            return tuple(items)
    return live


def _hidden(around: Any, value: Any, stored: Any) -> Any:
    if not isinstance(stored, Withheld):
        return _hidden_in(value, stored)
    by_its_type = value is None or isinstance(value, Withheld) or hasattr(value, "get_secret_value")
    if by_its_type or not isinstance(around, dict | list | tuple):
        return value
    return SecretStr(value) if isinstance(value, str) else Secret(value)


def told_inputs(state: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as they may be told of: a secret of the state, however deep, is none of anybody's business."""
    if not inputs:
        return {}
    fields, names = fields_of(state), fields_by_name(state)
    return {name: _told(value, fields.get(names.get(name, name))) for name, value in inputs.items()}


def _told(value: Any, field: Any) -> Any:
    """An input, or, if there is a secret in the field it has set, that field without it."""
    try:
        stored = plain({"": field})[""]
    except NotStorableError:  # then nothing of it is written down
        return value
    return reveal(stored, lambda path: HIDDEN) if withheld_in(stored) else value
