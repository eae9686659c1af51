"""Model classes as JSON Schema and back."""

from __future__ import annotations

import sys
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema

from holdfast.errors import NotStorableError, StorageError
from holdfast.tools._schemas import build_class


def dump_class(cls: type[BaseModel], path: str = "$") -> dict[str, Any]:
    """A model class as its JSON Schema and its place. Raises NotStorableError when it has no schema."""
    try:
        schema = cls.model_json_schema()
    except PydanticInvalidForJsonSchema as error:
        raise NotStorableError(path, f"class {cls.__name__}", f"it has no JSON Schema: {error.message}") from error
    return {"class": f"{cls.__module__}:{cls.__qualname__}", "schema": schema}


def load_class(stored: dict[str, Any]) -> type[BaseModel]:
    """The class itself if this program has it unchanged, else one made from the schema, which checks the same data.

    What a schema cannot say, such as methods and validators, is only in the class itself. Raises StorageError.
    """
    try:
        place, schema = stored["class"], stored["schema"]
        known = _find(place)
        return known if known is not None and known.model_json_schema() == schema else build_class(schema)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"this is not a stored class: {error!r}") from error


def _find(place: str) -> type[BaseModel] | None:
    """A model class that is imported already."""
    module, _, name = place.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None
