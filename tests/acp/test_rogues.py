"""Whatever an agent does, its run gets an answer or an error that says why, and no process is left."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.acp.support import HERE, PYTHON, rogue, talk, told

from holdfast import Runtime
from holdfast.acp import AgentManager, AgentSession, AgentSpec, Permissions, PromptResult, SessionOptions, _turn
from holdfast.errors import (
    AcpGoneError,
    AcpProtocolError,
    AcpTimeoutError,
    HandshakeError,
    RunFailedError,
    SpawnError,
)
from holdfast.events import (
    AgentExecutionErrorEvent,
    AgentUpdateReceivedEvent,
    LLMStreamChunkEvent,
    ToolUsageCancelledEvent,
)
from holdfast.resources import Command
from holdfast.runs import Run
from holdfast.testing.resource_conformance import Borrower


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (rogue("child", "hang", handshake_timeout=0.5), "it did not answer in 0.5 s"),
        (rogue("child", "exit"), "it hung up, and ended with 3; it said: no key: set SOME_KEY"),
        (rogue("child", "detach", "future"), "it speaks version 99 of the protocol, not 1"),
        (AgentSpec(Command(("/bin/sh", "-c", "echo usage: agent --acp; exit 1")), "rogue"), "usage: agent --acp"),
    ],
)
async def test_s3_3_a_handshake_that_fails_says_why_and_leaves_no_process(
    agents: AgentManager, spec: AgentSpec, words: str
) -> None:
    with pytest.raises(HandshakeError, match="rogue started, but") as caught:
        await agents.acquire(spec, Borrower())
    assert words in str(caught.value)
    assert agents.inventory() == []
    assert await agents.ledger.rows() == []


async def test_a_session_of_another_run_is_not_taken_over_by_an_agent_that_gives_one_id_twice(
    agents: AgentManager, runtime: Runtime
) -> None:
    spec = rogue("one_id")

    async def second(session: AgentSession) -> None:
        raise AssertionError("it was opened")

    async def first(session: AgentSession) -> str:
        with pytest.raises(RunFailedError, match="gave a new session the id of an open one, s1"):
            await talk(runtime, agents, spec, second)
        return (await session.prompt("say still here")).text

    assert await talk(runtime, agents, spec, first) == "still here"


async def test_an_agent_that_is_not_installed_is_a_spawn_error(agents: AgentManager) -> None:
    with pytest.raises(SpawnError, match="there is no such command; install it"):
        await agents.acquire(AgentSpec(Command(("no-such-agent",))), Borrower())


async def failure(runtime: Runtime, agents: AgentManager, prompt: str, *words: str) -> BaseException | None:
    """What a run fails with whose agent does this."""
    with pytest.raises(RunFailedError) as caught:
        await talk(runtime, agents, rogue("child", "detach", *words), lambda session: session.prompt(prompt))
    return caught.value.__cause__


async def test_s3_2_a_crash_in_the_middle_of_a_prompt_is_an_error_with_the_agents_last_words(
    agents: AgentManager, runtime: Runtime
) -> None:
    heard = told(runtime, AgentExecutionErrorEvent)
    error = await failure(runtime, agents, "crash")
    assert isinstance(error, AcpGoneError)
    assert "Traceback: it broke here" in str(error)
    assert error.stderr == "Traceback: it broke here"
    assert [event.error_type for event in heard] == ["AcpGoneError"]  # type: ignore[attr-defined]


async def test_an_agent_whose_wrapper_dies_first_is_ended_as_a_whole(agents: AgentManager, runtime: Runtime) -> None:
    error = await failure(runtime, agents, "orphan")
    assert isinstance(error, AcpGoneError)
    assert "was killed by signal 9" in str(error)


async def test_an_agent_that_hangs_up_but_lives_on_is_ended(agents: AgentManager, runtime: Runtime) -> None:
    alone = AgentSpec(Command((*PYTHON, str(HERE / "rogue.py")), grace=0.3), "rogue")
    with pytest.raises(RunFailedError) as caught:
        await talk(runtime, agents, alone, lambda session: session.prompt("hang_up"))
    assert isinstance(caught.value.__cause__, AcpGoneError)
    assert "rogue hung up" in str(caught.value.__cause__)


async def test_an_agent_deaf_to_sigterm_is_killed_with_its_daemon(agents: AgentManager, runtime: Runtime) -> None:
    result = await talk(runtime, agents, rogue("deaf", "child", "detach"), lambda session: session.prompt("say hello"))
    assert result.text == "hello"
    assert agents.inventory() == []


async def test_lines_that_make_no_sense_are_passed_over(agents: AgentManager, runtime: Runtime) -> None:
    result = await talk(runtime, agents, rogue("gibberish"), lambda session: session.prompt("say hello"))
    assert result.text == "hello"


async def test_half_a_megabyte_on_standard_error_stops_nobody_and_the_end_of_it_is_kept(
    agents: AgentManager, runtime: Runtime
) -> None:
    error = await failure(runtime, agents, "crash", "stderr")  # drained, whatever the command says of it
    assert isinstance(error, AcpGoneError)
    assert "the end of it\nTraceback" in error.stderr
    assert len(error.stderr) <= 65536


async def test_a_flood_of_garbage_and_a_line_without_end_lose_nothing_that_counts(
    agents: AgentManager, runtime: Runtime
) -> None:
    result = await talk(runtime, agents, rogue(), lambda session: session.prompt("flood"))
    assert result.text == "one two three"


async def test_a_request_that_is_too_long_is_refused_with_its_number(agents: AgentManager, runtime: Runtime) -> None:
    result = await talk(runtime, agents, rogue(), lambda session: session.prompt("huge"))
    assert "over the bound of 33,554,432" in result.text


async def test_an_answer_that_is_too_long_fails_its_prompt_instead_of_being_waited_for(
    agents: AgentManager, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_turn, "STOP_SECONDS", 0.1)
    error = await failure(runtime, agents, "answer_hugely 3")  # after initialize and session/new
    assert isinstance(error, AcpProtocolError)


async def test_updates_of_unknown_kinds_are_kept_as_they_came(agents: AgentManager, runtime: Runtime) -> None:
    heard = told(runtime, AgentUpdateReceivedEvent, ToolUsageCancelledEvent)
    result = await talk(runtime, agents, rogue(), lambda session: session.prompt("strange"))
    assert result.text == "still here"
    assert result.plan == ({"content": "a"},)
    assert [(tool.id, tool.status) for tool in result.tools] == [("t", "completed"), ("u", "pending")]
    unknown, image, cancelled = heard
    assert unknown.update == {"sessionUpdate": "holograph", "depth": 3}  # type: ignore[attr-defined]
    assert image.kind == "agent_message_chunk"  # type: ignore[attr-defined]
    assert cancelled.tool_name == "never ends"  # type: ignore[attr-defined]


async def test_messages_that_are_json_and_nothing_more_break_neither_the_reader_nor_the_prompt(
    agents: AgentManager, runtime: Runtime
) -> None:
    result = await talk(runtime, agents, rogue(), lambda session: session.prompt("nasty"))
    assert result.text.endswith("survived")


async def test_sessions_are_closed_before_their_agent_is_ended(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    async def body(run: Run) -> None:
        lease = await agents.acquire(rogue(f"diary={tmp_path}/diary"), run)
        for _ in range(2):
            await lease.session()

    await runtime.arun(body)
    assert (tmp_path / "diary").read_text() == "close s1\nclose s2\n"


async def test_updates_are_told_in_order_although_the_reader_of_the_run_is_slow(
    agents: AgentManager, runtime: Runtime
) -> None:
    heard: list[str] = []

    @runtime.event_bus.on(LLMStreamChunkEvent)
    async def slow(source: object, event: LLMStreamChunkEvent) -> None:
        if len(heard) % 50 == 0:
            await asyncio.sleep(0)
        heard.append(event.chunk)

    result = await talk(runtime, agents, rogue(), lambda session: session.prompt("numbers 3000"))
    assert result.text == "".join(f"{number} " for number in range(3000))
    assert "".join(heard) == result.text


async def test_an_agent_that_talks_without_end_waits_for_its_reader_and_stops_when_the_run_does(
    agents: AgentManager, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_turn, "STOP_SECONDS", 0.1)
    heard = 0

    async def body(run: Run) -> None:
        session = await (await agents.acquire(rogue("child"), run)).session()

        @run.on(LLMStreamChunkEvent)
        def hear(source: object, event: LLMStreamChunkEvent) -> None:
            nonlocal heard
            heard += 1
            if heard == 1000:
                run.cancel("enough")

        await session.prompt("endless")

    ended = await runtime.start(body).ended()
    assert (ended.status, ended.reason) == ("cancelled", "enough")
    assert agents.inventory() == []


async def test_an_agent_that_calls_its_own_stopping_an_error_was_cancelled_all_the_same(
    agents: AgentManager, runtime: Runtime
) -> None:
    """Qwen Code does, when it is stopped while its model is talking."""

    async def how(session: AgentSession) -> PromptResult:
        begun = asyncio.Event()
        session._run.on(LLMStreamChunkEvent)(lambda source, event: begun.set())
        prompting = asyncio.create_task(session.prompt("sulk"))
        await begun.wait()
        await session.cancel()
        return await prompting

    result = await talk(runtime, agents, rogue(), how)
    assert (result.stop_reason, result.text) == ("cancelled", "working")


async def test_an_agent_that_does_not_stop_when_told_to_is_an_error_in_time_and_its_session_is_done(
    agents: AgentManager, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_turn, "STOP_SECONDS", 0.1)

    async def how(session: AgentSession) -> None:
        begun = asyncio.Event()
        session._run.on(LLMStreamChunkEvent)(lambda source, event: begun.set())
        prompting = asyncio.create_task(session.prompt("ignore"))
        await begun.wait()
        await session.cancel()
        with pytest.raises(AcpTimeoutError, match=r"did not stop within 0\.1 s; release its lease"):
            await prompting
        with pytest.raises(AcpTimeoutError, match="never stopped its last prompt"):
            await session.prompt("say hello")

    with caplog.at_level(logging.WARNING):
        await talk(runtime, agents, rogue("child"), how)
    assert "did not stop session" in caplog.text


async def test_several_permissions_asked_at_once_are_answered_each_by_its_own_rule(
    agents: AgentManager, runtime: Runtime
) -> None:
    options = SessionOptions(permissions=Permissions(allow=("execute:a*",), deny=("execute:ab",)))
    result = await talk(runtime, agents, rogue(), lambda session: session.prompt("ask a ab b"), options)
    assert result.text == "a=a ab=r b=r"
    assert [tool.title for tool in result.tools] == ["a", "ab", "b"]  # nothing but the questions told of them


async def test_more_requests_at_once_than_anybody_answers_are_refused(agents: AgentManager, runtime: Runtime) -> None:
    class Nobody:
        async def request(self, request: Any) -> str:
            await asyncio.Event().wait()
            return ""

    options = SessionOptions(permissions=Permissions(otherwise="ask", human=Nobody()))
    result = await talk(runtime, agents, rogue(), lambda session: session.prompt("many"), options)
    assert result.text == "refused"


@pytest.mark.parametrize(
    ("request_text", "words"),
    [
        (
            '{"method": "fs/read_text_file", "params": {"sessionId": "other", "path": "/etc/passwd"}}',
            "names no session",
        ),
        ('{"method": "fs/read_text_file", "params": {"sessionId": "SESSION"}}', "sent no ReadTextFileRequest: path"),
        ('{"method": "fs/read_text_file", "params": 7}', "names no session"),
        ('{"method": "terminal/create", "params": {"sessionId": "SESSION", "command": "id"}}', "has no terminals"),
        ('{"method": "steal/keys", "params": {"sessionId": "SESSION"}}', "no method steal/keys"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_in_words(
    agents: AgentManager, runtime: Runtime, request_text: str, words: str
) -> None:
    result = await talk(runtime, agents, rogue(), lambda session: session.prompt(f"request {request_text}"))
    assert words in result.text
