"""The state of a flow: a pydantic model, a dataclass or a dict; always with an `id`."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from holdfast.errors import FlowInputError
from holdfast.ids import new_id


class FlowState(BaseModel):
    """A base for typed states that brings the `id`."""

    model_config = ConfigDict(arbitrary_types_allowed=False)

    id: str = Field(default_factory=new_id)


def fresh_state(kind: Any) -> Any:
    """A new state of a kind: a class, or an example that is copied. It has an `id` of its own."""
    if kind is None or kind is dict or kind is Any or get_origin(kind) is dict:
        return {"id": new_id()}
    state = kind() if isinstance(kind, type) else _copy(kind)
    return with_id(state)


def _copy(state: Any) -> Any:
    return state.model_copy(deep=True) if isinstance(state, BaseModel) else copy.deepcopy(state)


def with_id(state: Any) -> Any:
    """The state, given an id if it has none. A model without an `id` field gets a subclass that has one."""
    if isinstance(state, dict):
        if not state.get("id"):
            state["id"] = new_id()
        return state
    if isinstance(state, BaseModel) and "id" not in type(state).model_fields:
        return _with_id_field(type(state)).model_validate(dict(state), by_alias=True, by_name=True)
    if not getattr(state, "id", None):
        if dataclasses.is_dataclass(state) and "id" not in {f.name for f in dataclasses.fields(state)}:
            raise FlowInputError(f"{type(state).__name__} needs a field `id: str = ''` to be the state of a flow")
        state.id = new_id()
    return state


@functools.cache
def _with_id_field(kind: type[BaseModel]) -> type[BaseModel]:
    """A subclass of a model that has an id, made once."""
    return type(kind.__name__, (kind, FlowState), {"__module__": kind.__module__})


def restore_state(example: Any, plain: Mapping[str, Any]) -> Any:
    """A state as it was stored, of the kind of an example. Nothing of the example is left but its kind.

    Fields get their types back by validation, so validators see stored values once more and must leave valid ones alone.
    Raises FlowInputError when the kind has changed too much.
    """
    if isinstance(example, dict):
        return dict(plain)
    try:
        if isinstance(example, BaseModel):
            return type(example).model_validate(dict(plain), by_alias=False, by_name=True)
        return _restore_dataclass(type(example), plain)
    except (ValidationError, TypeError) as error:
        raise FlowInputError(f"what was stored does not fit {type(example).__name__} any more: {error}") from error


def _restore_dataclass(kind: type, plain: Mapping[str, Any]) -> Any:
    fields = dataclasses.fields(kind)
    made: Any = TypeAdapter(kind).validate_python({f.name: plain[f.name] for f in fields if f.init and f.name in plain})
    for field in fields:
        if not field.init and field.name in plain:
            object.__setattr__(made, field.name, plain[field.name])
    return made


def update_state(state: Any, inputs: Mapping[str, Any]) -> Any:
    """The state with inputs set, validated. Raises FlowInputError naming what does not fit."""
    if not inputs:
        return state
    if isinstance(state, dict):
        return {**state, **inputs}
    if isinstance(state, BaseModel):
        try:
            return type(state).model_validate({**dict(state), **inputs}, by_alias=True, by_name=True)
        except ValidationError as error:
            raise FlowInputError(f"these inputs do not fit {type(state).__name__}: {error}") from error
    unknown = [name for name in inputs if not hasattr(state, name)]
    if unknown:
        raise FlowInputError(f"{type(state).__name__} has no field {unknown[0]!r}")
    changed = copy.copy(state)  # not dataclasses.replace: that would reset fields that are not arguments
    for name, value in inputs.items():
        setattr(changed, name, value)
    return changed


def state_id(state: Any) -> str:
    """The state's own id."""
    return str(state["id"] if isinstance(state, dict) else state.id)
