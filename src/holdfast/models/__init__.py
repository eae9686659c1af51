"""Models: how they are asked, what they say, what it costs. `Model` is the port.

Imported on first use; pydantic-ai, which reaches the providers, only when a provider's model is asked.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.models._calls import Finish as Finish
    from holdfast.models._calls import ModelSettings as ModelSettings
    from holdfast.models._calls import Reply as Reply
    from holdfast.models._calls import StreamPart as StreamPart
    from holdfast.models._calls import TextDelta as TextDelta
    from holdfast.models._calls import ThinkingDelta as ThinkingDelta
    from holdfast.models._calls import ToolCallDelta as ToolCallDelta
    from holdfast.models._calls import ToolSpec as ToolSpec
    from holdfast.models._limits import RequestLimits as RequestLimits
    from holdfast.models._messages import AssistantMessage as AssistantMessage
    from holdfast.models._messages import Image as Image
    from holdfast.models._messages import Message as Message
    from holdfast.models._messages import SystemMessage as SystemMessage
    from holdfast.models._messages import Text as Text
    from holdfast.models._messages import Thought as Thought
    from holdfast.models._messages import ToolCall as ToolCall
    from holdfast.models._messages import ToolMessage as ToolMessage
    from holdfast.models._messages import UserMessage as UserMessage
    from holdfast.models._messages import dump_messages as dump_messages
    from holdfast.models._messages import load_messages as load_messages
    from holdfast.models._model import Model as Model
    from holdfast.models._provider import ProviderModel as ProviderModel
    from holdfast.models._retries import NO_RETRIES as NO_RETRIES
    from holdfast.models._retries import Retries as Retries
    from holdfast.models._scripted import ScriptedModel as ScriptedModel
    from holdfast.models._stored import dump_model as dump_model
    from holdfast.models._stored import load_model as load_model
    from holdfast.models._stored import resolve_model as resolve_model
    from holdfast.models._usage import Price as Price
    from holdfast.models._usage import PriceTable as PriceTable
    from holdfast.models._usage import Usage as Usage

_WHERE = {
    "AssistantMessage": "_messages",
    "Finish": "_calls",
    "Image": "_messages",
    "Message": "_messages",
    "Model": "_model",
    "ModelSettings": "_calls",
    "NO_RETRIES": "_retries",
    "Price": "_usage",
    "PriceTable": "_usage",
    "ProviderModel": "_provider",
    "Reply": "_calls",
    "RequestLimits": "_limits",
    "Retries": "_retries",
    "ScriptedModel": "_scripted",
    "StreamPart": "_calls",
    "SystemMessage": "_messages",
    "Text": "_messages",
    "TextDelta": "_calls",
    "ThinkingDelta": "_calls",
    "Thought": "_messages",
    "ToolCall": "_messages",
    "ToolCallDelta": "_calls",
    "ToolMessage": "_messages",
    "ToolSpec": "_calls",
    "Usage": "_usage",
    "UserMessage": "_messages",
    "dump_messages": "_messages",
    "dump_model": "_stored",
    "load_messages": "_messages",
    "load_model": "_stored",
    "resolve_model": "_stored",
}

__all__ = sorted(_WHERE)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.models' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.models.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
