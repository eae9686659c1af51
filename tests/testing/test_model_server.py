"""The model server, asked by the providers' own clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from tests.runs.support import until

from holdfast.errors import UsageError
from holdfast.testing import Answer, Drop, Failure, Gate, ModelServer, Raw, Received, Thinking, ToolUse
from holdfast.testing._model_server_script import Script

HELLO = [{"role": "user", "content": "hello"}]
PLAIN: dict[str, Any] = {"model": "m", "messages": HELLO}
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


class Served:
    """A running server and both clients of it, without retries."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.openai = openai.AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=0)
        self.anthropic = anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0)

    async def chat(self, **more: Any) -> Any:
        return await self.openai.chat.completions.create(**PLAIN, **more)

    async def message(self, **more: Any) -> Any:
        return await self.anthropic.messages.create(**PLAIN, max_tokens=9, **more)

    async def __aenter__(self) -> Served:
        self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.openai.close()
        await self.anthropic.close()
        self.server.close()


def serving(script: Script) -> Served:
    return Served(ModelServer(script).start())


async def texts(stream: AsyncIterator[Any]) -> list[str]:
    return [
        chunk.choices[0].delta.content async for chunk in stream if chunk.choices and chunk.choices[0].delta.content
    ]


async def keep(stream: AsyncIterator[Any], received: list[Any]) -> None:
    async for chunk in stream:
        received += [chunk]


async def test_openai_text_usage_and_cached_tokens() -> None:
    async with serving([Answer("Hel", "lo", input_tokens=12, output_tokens=3, cached_tokens=4)]) as it:
        reply = await it.chat()
    assert reply.choices[0].message.content == "Hello"
    assert reply.choices[0].finish_reason == "stop"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (12, 3)
    assert reply.usage.prompt_tokens_details.cached_tokens == 4


async def test_openai_streams_each_piece_and_then_the_usage() -> None:
    async with serving(["one", Answer("a", "b", "c")]) as it:
        assert await texts(await it.chat(stream=True)) == ["one"]
        chunks = [chunk async for chunk in await it.chat(**USAGE)]
    assert [c.choices[0].delta.content for c in chunks if c.choices][1:4] == ["a", "b", "c"]
    assert chunks[-1].usage.total_tokens == 15


async def test_openai_parallel_tool_calls_are_whole_or_in_pieces() -> None:
    answer = Answer(ToolUse("add", {"a": 1, "b": 2}), ToolUse("add", '{"a": ', id="mine"))
    async with serving([answer, answer]) as it:
        reply = await it.chat()
        pieces = [
            c.choices[0].delta.tool_calls[0] async for c in await it.chat(stream=True) if c.choices[0].delta.tool_calls
        ]
    calls = reply.choices[0].message.tool_calls
    assert reply.choices[0].finish_reason == "tool_calls"
    assert [(call.id, call.function.arguments) for call in calls] == [("call_1_0", '{"a":1,"b":2}'), ("mine", '{"a": ')]
    joined = ["".join(p.function.arguments for p in pieces if p.index == index) for index in (0, 1)]
    assert joined == ['{"a":1,"b":2}', '{"a": ']
    assert [p.function.name for p in pieces if p.id] == ["add", "add"]


async def test_a_single_part_stands_for_an_answer() -> None:
    """A tool use in the list broke the server, and its client tried again with the next answer."""
    async with serving([ToolUse("add", {"a": 1}), "done"]) as it:
        first, second = await it.chat(), await it.chat()
    assert first.choices[0].message.tool_calls[0].function.name == "add"
    assert second.choices[0].message.content == "done"


async def test_anthropic_text_thinking_and_tools() -> None:
    answer = Answer(Thinking("hm"), "It is ", "four.", ToolUse("add", {"a": 1}), input_tokens=9, cached_tokens=2)
    async with serving([answer, answer]) as it:
        reply = await it.message()
        async with it.anthropic.messages.stream(**PLAIN, max_tokens=9) as stream:
            pieces = [event.text async for event in stream if event.type == "text"]
            streamed: Any = await stream.get_final_message()
    assert pieces == ["It is ", "four."]
    for message in (reply, streamed):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert (message.content[0].thinking, message.content[0].signature) == ("hm", "c2lnbmVk")
        assert message.content[1].text == "It is four."
        assert message.content[2].input == {"a": 1}
        assert message.stop_reason == "tool_use"
        assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (7, 2)
        assert message.usage.output_tokens == 5


async def test_an_empty_answer_and_a_cut_one() -> None:
    async with serving([Answer(), Answer(), Answer("x", finish="length"), Answer("x", finish="length")]) as it:
        assert (await it.chat()).choices[0].message.content is None
        assert (await it.message()).content == []
        assert (await it.chat()).choices[0].finish_reason == "length"
        assert (await it.message()).stop_reason == "max_tokens"


async def test_failures_are_the_providers_own() -> None:
    async with serving(
        [Failure(429, retry_after=7), Failure(500), Failure(401), Failure(400, code="context_length")] * 2
    ) as it:
        with pytest.raises(openai.RateLimitError) as limited:
            await it.chat()
        assert limited.value.response.headers["retry-after"] == "7"
        with pytest.raises(openai.InternalServerError):
            await it.chat()
        with pytest.raises(openai.AuthenticationError):
            await it.chat()
        with pytest.raises(openai.BadRequestError, match="maximum context length"):
            await it.chat()
        with pytest.raises(anthropic.RateLimitError):
            await it.message()
        with pytest.raises(anthropic.InternalServerError):
            await it.message()
        with pytest.raises(anthropic.AuthenticationError):
            await it.message()
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
            await it.message()


async def test_a_request_beyond_the_script_is_refused_in_words() -> None:
    async with serving([]) as it:
        with pytest.raises(openai.BadRequestError, match="the script has 0 answers; this is request 1"):
            await it.chat()


async def test_a_connection_can_break_in_the_middle() -> None:
    async with serving([Answer("one", Drop(), "two")] * 3) as it:
        received: list[Any] = []
        with pytest.raises(openai.APIConnectionError):
            await keep(await it.chat(stream=True), received)
        assert [chunk.choices[0].delta.content for chunk in received] == ["", "one"]
        with pytest.raises(openai.APIConnectionError):
            await it.chat()
        with pytest.raises(httpx2.RemoteProtocolError):
            await keep(await it.message(stream=True), received)


async def test_a_raw_body_is_sent_as_it_is() -> None:
    async with serving([Raw(b'{"choices": [')]) as it:
        with pytest.raises(Exception, match=r"JSON|delimiter|Expecting"):
            await it.chat()


async def test_a_gate_holds_an_answer_between_two_pieces() -> None:
    gate = Gate()
    async with serving([Answer("one", gate, "two")]) as it:
        stream = texts(await it.chat(stream=True))
        reading = asyncio.ensure_future(stream)
        await gate.until_reached()
        assert not reading.done()
        gate.open()
        assert await reading == ["one", "two"]


async def test_a_barrier_opens_when_all_have_come() -> None:
    barrier = Gate(opens_at=3)
    async with serving(lambda request: Answer(barrier, str(request.number))) as it:
        replies = await asyncio.gather(it.chat(), it.chat(), it.message())
        assert it.server.peak_active == 3
        await until(lambda: it.server.active == 0)
    assert sorted(r.content[0].text if hasattr(r, "content") else r.choices[0].message.content for r in replies) == [
        "1",
        "2",
        "3",
    ]


async def test_a_script_may_be_a_function_of_the_request_sync_or_async() -> None:
    async def echo(request: Received) -> str:
        return f"{request.protocol} {request.messages[-1]['content']} {request.is_stream}"

    async with serving(echo) as it:
        assert (await it.chat()).choices[0].message.content == "openai hello False"
        assert (await it.message()).content[0].text == "anthropic hello False"
        assert await texts(await it.chat(stream=True)) == ["openai hello True"]
        assert [r.number for r in it.server.requests] == [1, 2, 3]
        assert it.server.requests[0].headers["authorization"] == "Bearer k"


async def test_two_hundred_streams_at_once_each_get_their_own() -> None:
    barrier = Gate(opens_at=200)

    def script(request: Received) -> Answer:
        name = request.messages[0]["content"]
        return Answer(barrier, *[f"{name}:{n} " for n in range(10)])

    async with serving(script) as it:

        async def one(name: str) -> list[str]:
            said = [{"role": "user", "content": name}]
            return await texts(await it.openai.chat.completions.create(model="m", messages=said, stream=True))  # type: ignore[arg-type]

        got = await asyncio.gather(*[one(f"s{n}") for n in range(200)])
        assert it.server.peak_active == 200
    assert got == [[f"s{n}:{k} " for k in range(10)] for n in range(200)]


def test_a_sync_client_in_the_same_thread_is_served_and_nothing_is_left() -> None:
    before = set(threading.enumerate())
    with ModelServer(["hi"]) as server, openai.OpenAI(base_url=server.openai_url, api_key="k") as client:
        assert client.chat.completions.create(**PLAIN).choices[0].message.content == "hi"
        port = int(server.url.rpartition(":")[2])
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_closing_breaks_answers_that_are_still_held() -> None:
    gate = Gate()
    async with ModelServer([Answer("one", gate)]) as server:
        client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=0)
        waiting = asyncio.ensure_future(texts(await client.chat.completions.create(**PLAIN, stream=True)))
        await gate.until_reached()
    with pytest.raises(openai.APIConnectionError):
        await waiting
    await client.close()


def test_closing_twice_and_before_starting_is_fine() -> None:
    server = ModelServer()
    server.close()
    with pytest.raises(UsageError, match="not running"):
        _ = server.url
    server.start()
    server.close()
    server.close()
