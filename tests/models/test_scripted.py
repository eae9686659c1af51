from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.errors import ModelRequestError, ModelUnavailableError, NotStorableError, StorageError
from holdfast.models import (
    AssistantMessage,
    Message,
    ModelSettings,
    Reply,
    ScriptedModel,
    Text,
    TextDelta,
    Thought,
    ToolCall,
    ToolSpec,
    Usage,
    UserMessage,
    dump_model,
    load_model,
    resolve_model,
)
from holdfast.serde import decode, encode

ASK = [UserMessage("hello")]


async def test_a_function_sees_the_whole_call() -> None:
    def answer(messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings) -> str:
        assert isinstance(messages[-1], UserMessage)
        return f"{messages[-1].text} {[tool.name for tool in tools]} {settings.max_tokens}"

    async def later(*call: object) -> str:
        return "later"

    reply = await ScriptedModel(answer).request(ASK, [ToolSpec("add")], ModelSettings(max_tokens=9))
    assert reply.text == "hello ['add'] 9"
    assert (await ScriptedModel(later).request(ASK)).text == "later"


async def test_a_whole_reply_is_given_back_as_it_is() -> None:
    reply = Reply(AssistantMessage((Text("one two"),)), Usage(1, 5, 2, 0, 0.25), "length", "m", "id")
    model = ScriptedModel([reply, reply])
    assert await model.request(ASK) == reply
    assert [part async for part in model.stream(ASK)] == [TextDelta("one "), TextDelta("two"), reply]


async def test_pieces_of_one_kind_are_one_part() -> None:
    call = ToolCall("1", "add")
    reply = await ScriptedModel([[Thought("a"), Thought("b"), "c", "d", call, call]]).request(ASK)
    assert reply.message.parts == (Thought("ab"), Text("cd"), call, call)


async def test_beyond_its_end_it_says_so() -> None:
    with pytest.raises(ModelRequestError, match="has 0 answers and this is request 1"):
        await ScriptedModel([]).request(ASK)


async def test_s1_10_it_comes_back_from_storage_where_it_stood() -> None:
    model = ScriptedModel(["one", [Thought("x"), "two"], Reply(AssistantMessage((Text("three"),)))], name="demo:m")
    await model.request(ASK)
    restored = load_model(decode(encode(dump_model(model))))
    assert restored.name == "demo:m"
    assert (await restored.request(ASK)).message == AssistantMessage((Thought("x"), Text("two")))
    assert (await restored.request(ASK)).text == "three"


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (ScriptedModel(lambda *call: "x"), r"\$\.script: cannot store a function"),
        (ScriptedModel(["x", [ModelUnavailableError("no")]]), r"\$\.script\[1\]\[0\]"),
    ],
    ids=["function", "error"],
)
def test_s1_9_what_has_no_stored_form_is_refused_with_its_path(model: ScriptedModel, path: str) -> None:
    with pytest.raises(NotStorableError, match=path):
        dump_model(model)


def test_s1_10_an_unknown_or_broken_stored_model_is_refused() -> None:
    with pytest.raises(StorageError, match="no model class with the type 'other'"):
        load_model({"type": "other"})
    with pytest.raises(StorageError, match="not a stored model of type 'scripted'"):
        load_model({"type": "scripted"})


def test_a_model_is_given_back_and_a_name_becomes_one() -> None:
    model = ScriptedModel([])
    assert resolve_model(model) is model
    assert resolve_model("openai:gpt-4o").name == "openai:gpt-4o"
