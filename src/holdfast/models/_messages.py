"""What is said to a model and by it. Plain frozen values with one stored form, because they go into the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.errors import StorageError
from holdfast.serde import to_plain


class Text(Struct, frozen=True, tag="text", tag_field="kind", omit_defaults=True):
    """A piece of text."""

    text: str
    extra: dict[str, Any] = {}
    """What only the provider understands and must get back: ids, signatures."""


class Image(Struct, frozen=True, tag="image", tag_field="kind", omit_defaults=True):
    """An image for the model to look at: by its address, or the bytes themselves with their media type."""

    url: str = ""
    data: bytes = b""
    media_type: str = ""


class Thought(Struct, frozen=True, tag="thought", tag_field="kind", omit_defaults=True):
    """A piece of the model's thinking, shown by those that show it."""

    text: str
    extra: dict[str, Any] = {}
    """As in `Text`."""


class ToolCall(Struct, frozen=True, tag="tool_call", tag_field="kind", omit_defaults=True):
    """A model asks for a tool. `arguments` is the JSON text as the model wrote it, which may be broken."""

    id: str
    name: str
    arguments: str = "{}"
    extra: dict[str, Any] = {}
    """As in `Text`."""


class SystemMessage(Struct, frozen=True, tag="system", tag_field="role"):
    """What the model is to be and to do."""

    text: str


class UserMessage(Struct, frozen=True, tag="user", tag_field="role"):
    """What a person, or the program in a person's place, says."""

    content: str | tuple[Text | Image, ...]

    @property
    def text(self) -> str:
        """All of its text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, Text))


AssistantPart = Text | Thought | ToolCall


class AssistantMessage(Struct, frozen=True, tag="assistant", tag_field="role", omit_defaults=True):
    """What the model said: its parts in order. None at all is an empty answer."""

    parts: tuple[AssistantPart, ...] = ()
    origin: dict[str, Any] = {}
    """Who said it, in the provider's terms, so that signed thinking goes back only to whom it came from."""

    @property
    def text(self) -> str:
        """All of its text, without the thinking."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        """All of its thinking."""
        return "".join(part.text for part in self.parts if isinstance(part, Thought))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools it asks for, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class ToolMessage(Struct, frozen=True, tag="tool", tag_field="role", omit_defaults=True):
    """What a tool gave back for one call, or why it could not."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def dump_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages as plain data, which `load_messages` reads back exactly."""
    plain: list[dict[str, Any]] = to_plain(list(messages))
    return plain


def load_messages(plain: Sequence[object]) -> list[Message]:
    """What `dump_messages` gave. Raises StorageError, naming the place, when this is something else."""
    try:
        return msgspec.convert(plain, list[Message], strict=True)
    except msgspec.ValidationError as error:
        raise StorageError(f"these are not stored messages: {error}") from error
