"""What every `Model` must do. Subclass the suite in your tests and say how yours is made to answer a script.

    class TestMine(ModelConformance):
        @asynccontextmanager
        async def serving(self, script, **options):
            yield Subject(MyModel(as_lines(script), **options), lambda: …)

Wants pytest with `asyncio_mode = "auto"`.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.errors import (
    ContextLengthError,
    ModelAuthError,
    ModelError,
    ModelRateLimitedError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
)
from holdfast.models import (
    Message,
    Model,
    Reply,
    RequestLimits,
    Retries,
    StreamPart,
    SystemMessage,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from holdfast.testing._clock import ManualClock
from holdfast.testing._model_lines import as_lines
from holdfast.testing._model_server_script import Answer, Cut, Drop, Failure, Gate, Thinking, ToolUse

__all__ = ["ModelConformance", "Subject", "as_lines"]

ASK: list[Message] = [SystemMessage("Be brief."), UserMessage("What is two and two?")]
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
NOW = Retries(first_wait=0.0, longest_wait=0.0)


@dataclass(frozen=True)
class Subject:
    """A model and a look behind it."""

    model: Model
    asked: Callable[[], int]
    """How many requests have come to whatever answers."""


class _NotingClock(ManualClock):
    """Remembers how long it was asked to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


async def drain(parts: AsyncGenerator[StreamPart, None], seen: list[Any] | None = None) -> list[Any]:
    """Every part of a stream; what came before an error is in `seen`."""
    found: list[Any] = [] if seen is None else seen
    async with aclosing(parts):
        async for part in parts:
            found += [part]
    return found


class ModelConformance(ABC):
    """Every promise of `holdfast.models.Model`."""

    @abstractmethod
    def serving(self, script: Sequence[str | Answer | Failure], **options: Any) -> AbstractAsyncContextManager[Subject]:
        """A model that answers `script`, one answer for each attempt; `options` go to its constructor."""

    # -- answers ---------------------------------------------------------------------------------------------------

    async def test_an_answer_is_text_with_its_usage(self) -> None:
        async with self.serving(["Four."]) as it:
            reply = await it.model.request(ASK)
        assert (reply.text, reply.finish, reply.usage.requests) == ("Four.", "stop", 1)
        assert reply.message.tool_calls == ()

    async def test_a_stream_gives_pieces_and_at_last_the_same_as_a_request(self) -> None:
        async with self.serving([Answer("It is ", "four."), Answer("It is ", "four.")]) as it:
            *pieces, last = await drain(it.model.stream(ASK))
            whole = await it.model.request(ASK)
        assert [type(piece) for piece in pieces] == [TextDelta] * len(pieces)
        assert len(pieces) > 1
        assert isinstance(last, Reply)
        assert "".join(piece.text for piece in pieces) == last.text == whole.text == "It is four."
        assert (last.finish, last.usage) == (whole.finish, whole.usage)

    async def test_thinking_is_kept_apart_from_text(self) -> None:
        async with self.serving([Answer(Thinking("hm"), "Four.")]) as it:
            parts = await drain(it.model.stream(ASK))
        assert [part.text for part in parts if isinstance(part, ThinkingDelta)] == ["hm"]
        assert (parts[-1].message.thinking, parts[-1].text) == ("hm", "Four.")

    async def test_parallel_tool_calls_come_whole_and_in_pieces(self) -> None:
        calls = Answer(ToolUse("add", {"a": 1}), ToolUse("add", {"a": 2}))
        async with self.serving([calls, calls]) as it:
            whole = await it.model.request(ASK, [ADD])
            *pieces, last = await drain(it.model.stream(ASK, [ADD]))
        for reply in (whole, last):
            assert [(call.name, call.arguments) for call in reply.message.tool_calls] == [
                ("add", '{"a":1}'),
                ("add", '{"a":2}'),
            ]
            assert len({call.id for call in reply.message.tool_calls}) == 2
            assert reply.finish == "tool_call"
        joined = _joined_calls(pieces)
        assert [joined[index] for index in sorted(joined)] == [["add", '{"a":1}'], ["add", '{"a":2}']]

    async def test_broken_arguments_are_passed_on_as_they_are(self) -> None:
        async with self.serving([Answer(ToolUse("add", '{"a": '))]) as it:
            reply = await it.model.request(ASK, [ADD])
        assert reply.message.tool_calls[0].arguments == '{"a": '

    async def test_an_empty_answer_is_an_answer(self) -> None:
        async with self.serving([Answer(), Answer()]) as it:
            reply = await it.model.request(ASK)
            parts = await drain(it.model.stream(ASK))
        assert (reply.text, reply.message.parts) == ("", ())
        assert [type(part) for part in parts] == [Reply]

    async def test_a_conversation_with_tools_goes_on(self) -> None:
        async with self.serving([Answer(Thinking("hm"), ToolUse("add", {"a": 1})), "Four."]) as it:
            first = await it.model.request(ASK, [ADD])
            call = first.message.tool_calls[0]
            after: list[Message] = [*ASK, first.message, ToolMessage(call.id, call.name, "4")]
            assert (await it.model.request(after, [ADD])).text == "Four."

    # -- errors ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("failure", "kind"),
        [
            (Failure(401), ModelAuthError),
            (Failure(400), ModelRequestError),
            (Failure(400, code="context_length"), ContextLengthError),
        ],
        ids=["key", "request", "context"],
    )
    async def test_an_error_that_will_not_pass_is_raised_at_once(
        self, failure: Failure, kind: type[ModelError]
    ) -> None:
        async with self.serving([failure, failure, "no"]) as it:
            with pytest.raises(kind) as raised:
                await it.model.request(ASK)
            with pytest.raises(kind):
                await drain(it.model.stream(ASK))
            assert type(raised.value) is kind
            assert raised.value.status == failure.status
            assert it.asked() == 2

    @pytest.mark.parametrize("failure", [Failure(429), Failure(500), Failure(503)], ids=lambda f: str(f.status))
    async def test_an_error_that_may_pass_is_tried_again(self, failure: Failure) -> None:
        async with self.serving([failure, failure, "Four.", failure, "Four."], retries=NOW) as it:
            assert (await it.model.request(ASK)).text == "Four."
            assert (await drain(it.model.stream(ASK)))[-1].text == "Four."
            assert it.asked() == 5

    async def test_after_the_last_attempt_the_error_is_raised(self) -> None:
        retries = Retries(attempts=3, first_wait=0.0)
        async with self.serving([Failure(500)] * 6, retries=retries) as it:
            with pytest.raises(ModelUnavailableError):
                await it.model.request(ASK)
            assert it.asked() == 3
            with pytest.raises(ModelUnavailableError):
                await drain(it.model.stream(ASK))
            assert it.asked() == 6

    async def test_the_provider_says_how_long_to_wait(self) -> None:
        clock = _NotingClock()
        async with self.serving([Failure(429, retry_after=7), "Four."], clock=clock) as it:
            asking = asyncio.create_task(it.model.request(ASK))
            await clock.until_sleeping()
            assert (clock.slept, it.asked()) == ([7.0], 1)
            clock.advance(7)
            assert (await asking).text == "Four."

    async def test_a_wait_beyond_all_patience_is_refused(self) -> None:
        async with self.serving([Failure(429, retry_after=3600)], clock=ManualClock()) as it:
            with pytest.raises(ModelRateLimitedError) as raised:
                await it.model.request(ASK)
        assert raised.value.retry_after == 3600

    # -- streams that break ----------------------------------------------------------------------------------------

    async def test_a_stream_that_breaks_before_its_first_piece_is_tried_again(self) -> None:
        async with self.serving([Answer(Drop()), Answer("It is ", "four.")], retries=NOW) as it:
            assert (await drain(it.model.stream(ASK)))[-1].text == "It is four."
            assert it.asked() == 2

    @pytest.mark.parametrize("end", [Drop(), Cut()], ids=["dropped", "cut"])
    async def test_a_stream_that_breaks_half_way_is_an_error_and_no_reply(self, end: Drop | Cut) -> None:
        async with self.serving([Answer("It is ", end, "four."), "no"], retries=NOW) as it:
            seen: list[Any] = []
            with pytest.raises(ModelStreamError):
                await drain(it.model.stream(ASK), seen)
            assert "".join(part.text for part in seen) == "It is "
            assert not any(isinstance(part, Reply) for part in seen)
            assert it.asked() == 1

    async def test_a_request_that_breaks_half_way_is_tried_again(self) -> None:
        async with self.serving([Answer("It is ", Drop()), "Four."], retries=NOW) as it:
            assert (await it.model.request(ASK)).text == "Four."

    # -- several at once -------------------------------------------------------------------------------------------

    async def test_leaving_a_stream_early_frees_its_place(self) -> None:
        limits, gate = RequestLimits({"openai": 1, "anthropic": 1, "scripted": 1}), Gate()
        async with self.serving([Answer("It is ", gate, "four."), "Next."], limits=limits) as it:
            async with aclosing(it.model.stream(ASK)) as parts:
                assert isinstance(await anext(parts), TextDelta)
            assert limits.in_use(it.model.provider) == 0
            assert (await it.model.request(ASK)).text == "Next."
            gate.open()

    async def test_a_cancelled_request_frees_its_place(self) -> None:
        limits, gate = RequestLimits({"openai": 1, "anthropic": 1, "scripted": 1}), Gate()
        async with self.serving([Answer(gate, "Late."), "Next."], limits=limits) as it:
            asking = asyncio.create_task(it.model.request(ASK))
            await gate.until_reached()
            waiting = asyncio.create_task(it.model.request(ASK))
            asking.cancel()
            assert (await waiting).text == "Next."
            assert asking.cancelled()
            gate.open()

    async def test_no_more_requests_than_the_cap_are_under_way(self) -> None:
        limits, gate = RequestLimits({"openai": 2, "anthropic": 2, "scripted": 2}), Gate()
        async with self.serving([Answer(gate, "Four.")] * 5, limits=limits) as it:
            asking = [asyncio.create_task(it.model.request(ASK)) for _ in range(5)]
            await gate.until_reached(2)
            assert (it.asked(), limits.in_use(it.model.provider)) == (2, 2)
            gate.open()
            assert [(await task).text for task in asking] == ["Four."] * 5
        assert limits.in_use(it.model.provider) == 0

    async def test_many_streams_at_once_do_not_mix(self) -> None:
        barrier = Gate(opens_at=20)
        script = [Answer(barrier, *[f"{n}-{k} " for k in range(20)]) for n in range(20)]
        async with self.serving(script) as it, it.model.opened():
            streams = await asyncio.gather(*[drain(it.model.stream(ASK)) for _ in range(20)])
        texts = ["".join(part.text for part in parts[:-1]) for parts in streams]
        assert texts == [parts[-1].text for parts in streams]
        assert sorted(texts) == sorted("".join(f"{n}-{k} " for k in range(20)) for n in range(20))

    async def test_one_model_serves_several_loops_at_once(self) -> None:
        barrier = Gate(opens_at=3)
        async with self.serving([Answer(barrier, "Four.")] * 3) as it:
            found: list[str] = []

            def ask() -> None:
                found.append(asyncio.run(it.model.request(ASK)).text)

            threads = [threading.Thread(target=ask) for _ in range(2)]
            for thread in threads:
                thread.start()
            found.append((await it.model.request(ASK)).text)
            for thread in threads:
                await asyncio.to_thread(thread.join)
        assert found == ["Four."] * 3


def _joined_calls(pieces: list[Any]) -> dict[int, list[str]]:
    joined: dict[int, list[str]] = {}
    for piece in pieces:
        if isinstance(piece, ToolCallDelta):
            name, arguments = joined.setdefault(piece.index, ["", ""])
            joined[piece.index] = [name + piece.name, arguments + piece.arguments]
    return joined
