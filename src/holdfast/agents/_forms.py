"""Answers in a form: a pydantic model, from the text of an answer."""

from __future__ import annotations

import re

from pydantic import BaseModel, ValidationError

_FENCE = re.compile(r"^```[a-zA-Z]*\s*\n(.*?)\n?```\s*$", re.DOTALL)


def read_form(text: str, form: type[BaseModel]) -> BaseModel:
    """The answer as a model. Raises ValueError that says, for the model that answered, what does not fit."""
    found = _FENCE.match(text.strip())
    inner = (found.group(1) if found else text).strip()
    try:
        return form.model_validate_json(_object_in(inner))
    except ValidationError as error:
        places = [f"{'.'.join(map(str, one['loc'])) or 'answer'}: {one['msg']}" for one in error.errors()[:10]]
        raise ValueError("; ".join(places)) from error


def _object_in(text: str) -> str:
    """The JSON object in a text that may have words around it."""
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if first >= 0 and last > first else text
