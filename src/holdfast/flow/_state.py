"""The state of a flow: a pydantic model, a dataclass or a dict; always with an `id`."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
        kind = type(type(state).__name__, (type(state), FlowState), {"__module__": type(state).__module__})
        return kind(**dict(state))
    if not getattr(state, "id", None):
        if dataclasses.is_dataclass(state) and "id" not in {f.name for f in dataclasses.fields(state)}:
            raise FlowInputError(f"{type(state).__name__} needs a field `id: str = ''` to be the state of a flow")
        state.id = new_id()
    return state


def update_state(state: Any, inputs: Mapping[str, Any]) -> Any:
    """The state with inputs set, validated. Raises FlowInputError naming what does not fit."""
    if isinstance(state, dict):
        return {**state, **inputs}
    if isinstance(state, BaseModel):
        try:
            return type(state).model_validate({**dict(state), **inputs})
        except ValidationError as error:
            raise FlowInputError(f"these inputs do not fit {type(state).__name__}: {error}") from error
    unknown = [name for name in inputs if not hasattr(state, name)]
    if unknown:
        raise FlowInputError(f"{type(state).__name__} has no field {unknown[0]!r}")
    return dataclasses.replace(state, **inputs)


def state_id(state: Any) -> str:
    """The state's own id."""
    return str(state["id"] if isinstance(state, dict) else state.id)
