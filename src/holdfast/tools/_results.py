"""What a tool call came to, and how its output is put into words for a model."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.errors import NotStorableError
from holdfast.serde import to_plain

Outcome = Literal["finished", "invalid", "error", "limit", "timeout", "unknown"]
"""`invalid`: the arguments do not fit; `limit`: used up; `unknown`: there is no such tool."""


class ToolResult(Struct, frozen=True):
    """The end of one call. Nothing is raised for a model's or a tool's mistake: the model reads `text` and goes on."""

    tool_name: str
    text: str
    outcome: Outcome = "finished"
    output: Any = None
    """What the tool returned, as it returned it."""
    arguments: dict[str, Any] = {}
    """As they were sent, if they could be read."""
    from_cache: bool = False
    error: str = ""
    error_type: str = ""
    use: int = 0
    """How often the tool was used, this time included; 0 if this was no use of it."""

    @property
    def is_error(self) -> bool:
        return self.outcome != "finished"


def render(output: object, longest: int) -> str:
    """`output` as text of at most about `longest` characters: text as it is, data as JSON, anything else by `str`."""
    return cut(_in_words(output), longest)


def _in_words(output: object) -> str:
    if isinstance(output, str):
        return output
    if output is None:
        return "(the tool returned nothing)"
    try:
        return msgspec.json.encode(to_plain(output)).decode()
    except (NotStorableError, ValueError):
        return str(output)


def cut(text: str, longest: int) -> str:
    """The beginning of `text`, and how much is missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n[cut: the first {longest} of {len(text)} characters]"
