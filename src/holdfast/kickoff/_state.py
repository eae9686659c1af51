"""The state of a flow: a pydantic model, a dataclass or a dict; always with an `id`."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
from collections.abc import Iterator, Mapping
from typing import Any, get_origin

import msgspec
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

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
    state = _made(kind) if isinstance(kind, type) else _copy(kind)
    return with_id(state)


def _made(kind: type) -> Any:
    try:
        return kind()
    except (ValidationError, TypeError) as error:
        raise FlowInputError(
            f"a flow begins with a fresh state, and {kind.__name__}() cannot be made: give every field a default, or the "
            f"flow an example, initial_state={kind.__name__}(…). {error}"
        ) from error


def _copy(state: Any) -> Any:
    return state.model_copy(deep=True) if isinstance(state, BaseModel) else copy.deepcopy(state)


def with_id(state: Any, known: str = "") -> Any:
    """The state, given an id if it has none: a known one, or a new one. A model without an `id` field gets a subclass that has one.

    Raises FlowInputError for what cannot be the state of a flow.
    """
    if isinstance(state, dict):
        if not state.get("id"):
            state["id"] = known or new_id()
        return state
    if isinstance(state, BaseModel) and "id" not in type(state).model_fields:
        has = {"id": known} if known else {}
        return _with_id_field(type(state)).model_validate(dict(state) | has, by_alias=True, by_name=True)
    if not _can_be_state(state):
        name = type(state).__name__
        raise FlowInputError(
            f"the state of a flow is a pydantic model, a dataclass or a dict, and {name} is none of them"
        )
    made_up = bool(known) and isinstance(state, BaseModel) and "id" not in state.model_fields_set
    if made_up or not getattr(state, "id", None):
        if dataclasses.is_dataclass(state) and "id" not in {f.name for f in dataclasses.fields(state)}:
            raise FlowInputError(f"{type(state).__name__} needs a field `id: str = ''` to be the state of a flow")
        _set_id(state, known or new_id())
    return state


def exchanged(state: Any, other: Any) -> Any:
    """Another state in the place of one: it has that one's id, unless it comes with its own."""
    known = state.get("id") if isinstance(state, dict) else getattr(state, "id", None)
    return with_id(other, str(known or ""))


def _set_id(state: Any, state_id: str) -> None:
    try:
        state.id = state_id
    except (AttributeError, ValidationError) as error:
        raise FlowInputError(
            f"{type(state).__name__} cannot be the state of a flow: its id cannot be set, because it is frozen"
        ) from error


def _can_be_state(value: object) -> bool:
    return isinstance(value, BaseModel | msgspec.Struct) or dataclasses.is_dataclass(value)


@functools.cache
def _with_id_field(kind: type[BaseModel]) -> type[BaseModel]:
    """A subclass of a model that has an id, made once."""
    return type(kind.__name__, (kind, FlowState), {"__module__": kind.__module__})


def restore_state(example: Any, plain: Mapping[str, Any]) -> Any:
    """A state as it was stored, of the kind of an example. Nothing of the example is left but its kind.

    Fields get their types back by validation, never a strict one: an enum is stored as its value. Validators see stored values
    once more and must leave valid ones alone.
    Raises FlowInputError when the kind has changed too much.
    """
    if isinstance(example, dict):
        return dict(plain)
    try:
        if isinstance(example, BaseModel):
            return type(example).model_validate(dict(plain), by_alias=False, by_name=True, strict=False)
        return _restore_dataclass(type(example), plain)
    except (ValidationError, TypeError) as error:
        raise FlowInputError(
            f"what was stored does not fit {type(example).__name__} any more: {_said(error)}"
        ) from None


def _said(error: Exception) -> str:
    """What does not fit, and where, without the values: one may be a secret, and errors are written down."""
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)


def _restore_dataclass(kind: type, plain: Mapping[str, Any]) -> Any:
    fields = dataclasses.fields(kind)
    found = {f.name: plain[f.name] for f in fields if f.init and f.name in plain}
    made: Any = TypeAdapter(kind).validate_python(found, strict=False)
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
    _refuse_unknown(state, inputs)
    if isinstance(state, BaseModel):
        names = fields_by_name(state)
        replaced = {names.get(name) for name in inputs}  # a field and its alias at once would be ambiguous
        kept = {name: value for name, value in dict(state).items() if name not in replaced}
        try:
            return type(state).model_validate({**kept, **inputs}, by_alias=True, by_name=True)
        except ValidationError as error:
            raise FlowInputError(f"these inputs do not fit {type(state).__name__}: {_said(error)}") from None
    changed = copy.copy(state)  # not dataclasses.replace: that would reset fields that are not arguments
    for name, value in inputs.items():
        setattr(changed, name, value)
    return changed


def _refuse_unknown(state: Any, inputs: Mapping[str, Any]) -> None:
    """A model would pass over what it does not know, and whoever mistyped a name would never hear of it."""
    if isinstance(state, BaseModel):
        if type(state).model_config.get("extra") == "allow" or _takes_more(type(state)):
            return
        known = list(fields_by_name(state))
    else:
        known = [name for name in dir(state) if not name.startswith("_")]
    for name in inputs:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise FlowInputError(f"{type(state).__name__} has no field {name!r}{hint}")


def _takes_more(kind: type[BaseModel]) -> bool:
    """Whether a model has a validator that sees its input first, and may know names that are no fields."""
    return any(one.info.mode != "after" for one in kind.__pydantic_decorators__.model_validators.values())


def fields_by_name(state: Any) -> dict[str, str]:
    """The fields of a model, by every name that an input may have for them; of other states, nothing."""
    if not isinstance(state, BaseModel):
        return {}
    return {name: field for field in type(state).model_fields for name in _names_of(type(state), field)}


def _names_of(kind: type[BaseModel], field: str) -> Iterator[str]:
    yield field
    alias = kind.model_fields[field].validation_alias
    for choice in alias.choices if isinstance(alias, AliasChoices) else (alias,):
        first = choice.path[0] if isinstance(choice, AliasPath) else choice
        if isinstance(first, str):
            yield first


def state_id(state: Any) -> str:
    """The state's own id."""
    return str(state["id"] if isinstance(state, dict) else state.id)
