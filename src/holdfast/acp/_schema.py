"""The official SDK's types, imported when an agent is first started: half a second that others need not pay."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from holdfast.errors import AcpProtocolError, UsageError


def load() -> Any:
    """The module of types. Raises UsageError if it is not installed."""
    try:
        import acp.schema
    except ImportError as error:
        raise UsageError("agents need the types of the Agent Client Protocol: pip install 'holdfast[acp]'") from error
    return acp.schema


def outgoing(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A message that we send, as plain data. Raises UsageError, naming the field, if it is not as the protocol wants it."""
    model: type[BaseModel] = getattr(load(), kind)
    try:
        checked = model.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{kind} cannot be sent: {_problem(error)}") from error
    return checked.model_dump(mode="json", by_alias=True, exclude_none=True)


def incoming(kind: str, data: Any, agent: str = "") -> dict[str, Any]:
    """A message that came, checked. Fields that the types do not know are kept. Raises AcpProtocolError if it cannot be read."""
    model: type[BaseModel] = getattr(load(), kind)
    try:
        known = model.model_validate(data if data is not None else {})
    except ValidationError as error:
        raise AcpProtocolError(f"{agent or 'the other side'} sent no {kind}: {_problem(error)}", agent=agent) from error
    names = {field.alias or name for name, field in model.model_fields.items()}
    unknown = {name: value for name, value in (data or {}).items() if name not in names}
    return unknown | known.model_dump(mode="json", by_alias=True, exclude_none=True)


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
