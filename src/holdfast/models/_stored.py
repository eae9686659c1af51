"""Models by name, and models as plain data."""

from __future__ import annotations

from typing import Any

from holdfast.errors import StorageError
from holdfast.models._model import Model
from holdfast.models._provider import ProviderModel
from holdfast.models._scripted import ScriptedModel

OURS: dict[str, type[Model]] = {cls.tag: cls for cls in (ProviderModel, ScriptedModel)}


def resolve_model(model: str | Model, **options: Any) -> Model:
    """A model from its name, `"provider:model"`, with options as `ProviderModel` takes them; an object is given back."""
    return model if isinstance(model, Model) else ProviderModel(model, **options)


def dump_model(model: Model) -> dict[str, Any]:
    """A model as plain data without its key. Raises NotStorableError for one that has no stored form."""
    return model.to_stored()


def load_model(stored: dict[str, Any]) -> Model:
    """The model that `dump_model` described. Only classes this program has defined are made; nothing is imported.

    Its key is looked for in the environment again, or must be given again if it was an argument (`needs_key`). Raises
    StorageError.
    """
    tag = stored.get("type", "")
    found = OURS.get(tag) or Model._stored_classes.get(tag)
    if found is None:
        raise StorageError(f"there is no model class with the type {tag!r}; import the module that defines it first")
    try:
        return found.from_stored(stored)
    except (KeyError, TypeError) as error:
        raise StorageError(f"this is not a stored model of type {tag!r}: {error!r}") from error
