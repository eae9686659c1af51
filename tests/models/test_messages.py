"""Messages go into the journal: exact, and in a form that does not change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import StorageError
from holdfast.models import (
    AssistantMessage,
    Image,
    Message,
    Reply,
    SystemMessage,
    Text,
    Thought,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    dump_messages,
    load_messages,
)
from holdfast.serde import decode, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
extras: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.text(), json_values, max_size=3)
parts = st.one_of(
    st.builds(Text, st.text(), extras),
    st.builds(Thought, st.text(), extras),
    st.builds(ToolCall, st.text(), st.text(), st.text(), extras),
)
contents = st.text() | st.lists(
    st.builds(Text, st.text()) | st.builds(Image, st.text(), st.binary(), st.text()), max_size=3
).map(tuple)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, st.text()),
    st.builds(UserMessage, contents),
    st.builds(AssistantMessage, st.lists(parts, max_size=4).map(tuple), extras),
    st.builds(ToolMessage, st.text(), st.text(), st.text(), st.booleans()),
)

GOLDEN: list[tuple[Message, dict[str, Any]]] = [
    (SystemMessage("s"), {"role": "system", "text": "s"}),
    (UserMessage("u"), {"role": "user", "content": "u"}),
    (
        UserMessage((Text("look"), Image(data=b"\x00", media_type="image/png"))),
        {
            "role": "user",
            "content": [
                {"kind": "text", "text": "look"},
                {"kind": "image", "data": "AA==", "media_type": "image/png"},
            ],
        },
    ),
    (
        AssistantMessage((Thought("hm", {"signature": "x"}), Text("t"), ToolCall("1", "add", '{"a":1}'))),
        {
            "role": "assistant",
            "parts": [
                {"kind": "thought", "text": "hm", "extra": {"signature": "x"}},
                {"kind": "text", "text": "t"},
                {"kind": "tool_call", "id": "1", "name": "add", "arguments": '{"a":1}'},
            ],
        },
    ),
    (AssistantMessage(), {"role": "assistant"}),
    (ToolMessage("1", "add", "4"), {"role": "tool", "call_id": "1", "name": "add", "text": "4"}),
    (
        ToolMessage("1", "add", "no", is_error=True),
        {"role": "tool", "call_id": "1", "name": "add", "text": "no", "is_error": True},
    ),
]


@given(st.lists(messages, max_size=4))
def test_messages_come_back_exactly_through_json(said: list[Message]) -> None:
    assert load_messages(decode(encode(dump_messages(said)))) == said


@pytest.mark.parametrize(("message", "stored"), GOLDEN, ids=range(len(GOLDEN)))
def test_the_stored_form_is_the_one_that_older_journals_hold(message: Message, stored: dict[str, Any]) -> None:
    assert decode(encode(dump_messages([message]))) == [stored]
    assert load_messages([stored]) == [message]


@given(st.builds(Reply, st.builds(AssistantMessage, st.lists(parts, max_size=3).map(tuple)), st.builds(Usage)))
def test_a_reply_comes_back_exactly_through_json(reply: Reply) -> None:
    assert msgspec.json.decode(msgspec.json.encode(reply), type=Reply) == reply


def test_what_is_no_message_is_refused_with_its_place() -> None:
    with pytest.raises(StorageError, match=r"not stored messages.*\$\[1\]"):
        load_messages([{"role": "system", "text": "s"}, {"role": "nobody"}])


def test_an_answer_says_its_text_thinking_and_calls_apart() -> None:
    call = ToolCall("1", "add")
    message = AssistantMessage((Thought("h"), Text("a"), call, Thought("m"), Text("b")))
    assert (message.text, message.thinking, message.tool_calls) == ("ab", "hm", (call,))
    assert UserMessage((Text("a"), Image("x"), Text("b"))).text == "ab"
