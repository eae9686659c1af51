"""What goes with the messages of a call, and what comes back."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from holdfast.models._messages import AssistantMessage
from holdfast.ports import Usage

Finish = Literal["stop", "length", "tool_call", "content_filter", "error", "unknown"]
Thinking = bool | Literal["minimal", "low", "medium", "high", "xhigh", "max"]


def _no_parameters() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=_no_parameters)
    """The JSON Schema of its arguments."""


class ModelSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to answer. What is None is left to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    timeout: float | None = None
    """Seconds to wait for the provider's next word in one attempt."""
    thinking: Thinking | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: Literal["auto", "none", "required"] | tuple[str, ...] | None = None
    """Whether it must call a tool; a tuple names the ones it must choose from."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema its text must follow, if the text is to be JSON."""
    output_name: str = "answer"
    """What the provider calls that schema."""
    extra_body: dict[str, Any] = {}
    """Added to the request as it is: what only this provider knows. Stored with the settings, so no place for a secret."""


class TextDelta(Struct, frozen=True, gc=False):
    """The next piece of text."""

    text: str


class ThinkingDelta(Struct, frozen=True, gc=False):
    """The next piece of thinking."""

    text: str


class ToolCallDelta(Struct, frozen=True, gc=False):
    """The next piece of a tool call. Pieces with one `index` belong together; the first has the name."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Reply(Struct, frozen=True):
    """A whole answer. The only thing of a call that is recorded."""

    message: AssistantMessage
    usage: Usage = Usage(requests=1, unpriced_requests=1)
    finish: Finish = "stop"
    model: str = ""
    """The model that answered, as the provider names it."""
    id: str = ""
    """The provider's name for the answer."""

    @property
    def text(self) -> str:
        return self.message.text


StreamPart = TextDelta | ThinkingDelta | ToolCallDelta | Reply
"""What a stream gives: pieces, and at last the whole."""
