"""Sessions: what a run can do with an agent that behaves, and what the run tells of it."""

from __future__ import annotations

import asyncio
import os
import sys
from glob import glob
from pathlib import Path
from typing import Any

import pytest
from tests.acp.support import DEMO, HERE, rogue, talk, told

from holdfast import Runtime
from holdfast.acp import AgentManager, AgentSession, AgentSpec, Permissions, SessionOptions
from holdfast.acp._spec import mcp_data
from holdfast.errors import (
    AcpGoneError,
    AcpRequestError,
    AcpUnsupportedError,
    AnswerPendingError,
    RunFailedError,
    UsageError,
)
from holdfast.events import (
    AgentExecutionCancelledEvent,
    AgentExecutionCompletedEvent,
    AgentExecutionStartedEvent,
    AgentSessionOpenedEvent,
    HumanInputReceivedEvent,
    HumanInputRequestedEvent,
    LLMStreamChunkEvent,
    RunWaitingEvent,
    ToolUsageFinishedEvent,
    ToolUsageStartedEvent,
)
from holdfast.human import LaterProvider
from holdfast.mcp import McpServer, McpSpec
from holdfast.ports import HumanRequest
from holdfast.resources import Command
from holdfast.runs import Run
from holdfast.streaming._start import start_here


async def test_what_an_agent_does_is_told_as_frames_of_the_run_in_order(agents: AgentManager, runtime: Runtime) -> None:
    async def body(run: Run) -> str:
        session = await (await agents.acquire(DEMO, run)).session()
        return (await session.prompt("think hm\nplan a; b\ntool look\nsay good morning")).text

    async with start_here(runtime, body, name="talk") as stream:
        frames = [frame async for frame in stream]
    assert stream.result == "good morning"
    assert [(frame.channel, frame.type) for frame in frames if frame.channel != "lifecycle"] == [
        ("step", "agent_session_opened"),
        ("step", "agent_execution_started"),
        ("thinking", "llm_thinking_chunk"),
        ("step", "agent_plan_updated"),
        ("tool", "tool_usage_started"),
        ("tool", "tool_usage_finished"),
        ("text", "llm_stream_chunk"),
        ("text", "llm_stream_chunk"),
        ("step", "agent_execution_completed"),
    ]
    assert "".join(frame.text for frame in frames if frame.channel == "text") == "good morning"


async def test_a_reader_that_is_behind_slows_its_own_agent_and_loses_nothing(
    agents: AgentManager, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[bool] = []

    async def body(run: Run) -> Any:
        real = run.room

        async def room() -> None:
            waits.append(run.outlet.crowding() is not None)
            await real()

        monkeypatch.setattr(run, "room", room)
        return await (await (await agents.acquire(DEMO, run)).session()).prompt("count 5000")

    async with start_here(runtime, body) as stream:
        texts: list[str] = []
        async for frame in stream:
            if len(texts) % 500 == 0:
                await asyncio.sleep(0.01)  # longer than the agent takes for as much
            texts.append(frame.text)
    assert "".join(texts).split() == [str(number) for number in range(1, 5001)]
    assert any(waits)


async def test_events_of_tools_that_overlap_hang_under_their_own_start(agents: AgentManager, runtime: Runtime) -> None:
    heard = told(
        runtime, AgentExecutionStartedEvent, ToolUsageStartedEvent, ToolUsageFinishedEvent, AgentExecutionCompletedEvent
    )
    await talk(runtime, agents, DEMO, lambda session: session.prompt("tool a\ntool b"))
    agent, first, first_end, second, second_end, done = heard
    assert first.parent_event_id == second.parent_event_id == agent.event_id
    assert (first_end.started_event_id, second_end.started_event_id) == (first.event_id, second.event_id)
    assert done.started_event_id == agent.event_id


async def test_usage_and_stop_reason_are_in_the_result(agents: AgentManager, runtime: Runtime) -> None:
    result = await talk(runtime, agents, DEMO, lambda session: session.prompt("say one two"))
    assert (result.stop_reason, result.usage) == ("end_turn", {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5})


async def test_mode_and_model_are_chosen_and_what_is_not_offered_is_refused_with_what_is(
    agents: AgentManager, runtime: Runtime
) -> None:
    async def how(session: AgentSession) -> str:
        assert (session.modes, session.models) == (["careful", "bold"], ["demo-small", "demo-large"])
        before = (await session.prompt("settings")).text
        await session.set_mode("careful")
        with pytest.raises(AcpUnsupportedError, match="demo has no model 'gpt'; it offers demo-small, demo-large"):
            await session.set_model("gpt")
        return f"{before}, {(await session.prompt('settings')).text}"

    chosen = SessionOptions(mode="bold", model="demo-large")
    assert await talk(runtime, agents, DEMO, how, chosen) == "bold demo-large, careful demo-large"
    with pytest.raises(RunFailedError) as caught:
        await talk(runtime, agents, rogue(), how, SessionOptions(mode="bold"))
    assert "it lets nobody choose a mode" in str(caught.value)


async def test_a_session_is_reopened_by_another_process_and_forked_with_what_it_knew(
    agents: AgentManager, runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DEMO_SESSIONS", str(tmp_path))
    heard = told(runtime, AgentSessionOpenedEvent)

    async def first(session: AgentSession) -> str:
        await session.prompt("say first")
        return session.id

    known = await talk(runtime, agents, DEMO, first)

    async def second(run: Run) -> list[str]:
        async with await agents.acquire(DEMO, run) as lease:
            again = await lease.reopen(known)
            fork = await lease.fork(known)
            return [(await session.prompt("recall")).text for session in (again, fork, again)]

    assert await runtime.arun(second) == ["say first", "say first", "say first | recall"]
    assert [event.how for event in heard] == ["new", "resume", "fork"]  # type: ignore[attr-defined]


async def test_an_agent_that_cannot_reopen_or_fork_says_so(agents: AgentManager, runtime: Runtime) -> None:
    async def body(run: Run) -> None:
        lease = await agents.acquire(rogue(), run)
        for attempt in (lease.reopen("s1"), lease.fork("s1")):
            with pytest.raises(AcpUnsupportedError, match="open a new one"):
                await attempt

    await runtime.arun(body)


async def test_a_prompt_that_is_cancelled_returns_with_that_reason(agents: AgentManager, runtime: Runtime) -> None:
    heard = told(runtime, AgentExecutionCancelledEvent)

    async def how(session: AgentSession) -> Any:
        begun = asyncio.Event()
        session._run.on(LLMStreamChunkEvent)(lambda source, event: begun.set())
        prompting = asyncio.create_task(session.prompt("wait"))
        await begun.wait()
        await session.cancel()
        cancelled = await prompting
        return cancelled.stop_reason, (await session.prompt("say again")).text

    assert await talk(runtime, agents, DEMO, how) == ("cancelled", "again")
    assert len(heard) == 1


async def test_cancelling_the_wait_stops_the_agent_and_the_session_can_go_on(
    agents: AgentManager, runtime: Runtime
) -> None:
    async def how(session: AgentSession) -> str:
        begun = asyncio.Event()
        session._run.on(LLMStreamChunkEvent)(lambda source, event: begun.set())
        prompting = asyncio.create_task(session.prompt("wait"))
        await begun.wait()
        prompting.cancel()
        await asyncio.wait({prompting})
        assert prompting.cancelled()
        assert not session._desk.is_busy
        text: str = (await session.prompt("say again")).text
        return text

    assert await talk(runtime, agents, DEMO, how) == "again"


async def test_one_prompt_at_a_time(agents: AgentManager, runtime: Runtime) -> None:
    async def how(session: AgentSession) -> None:
        begun = asyncio.Event()
        session._run.on(LLMStreamChunkEvent)(lambda source, event: begun.set())
        prompting = asyncio.create_task(session.prompt("wait"))
        await begun.wait()
        with pytest.raises(UsageError, match="is at work on a prompt"):
            await session.prompt("say no")
        await session.cancel()
        assert (await prompting).stop_reason == "cancelled"

    await talk(runtime, agents, DEMO, how)


async def test_an_error_of_the_agent_comes_with_its_words(agents: AgentManager, runtime: Runtime) -> None:
    async def how(session: AgentSession) -> None:
        with pytest.raises(AcpRequestError, match="demo refuses session/prompt: out of luck") as caught:
            await session.prompt("fail out of luck")
        assert (caught.value.code, caught.value.agent) == (-32603, "demo")
        assert (await session.prompt("say still here")).text == "still here"

    await talk(runtime, agents, DEMO, how)


async def test_a_closed_session_says_so(agents: AgentManager, runtime: Runtime) -> None:
    async def how(session: AgentSession) -> None:
        await session.aclose()
        await session.aclose()
        with pytest.raises(AcpGoneError, match="was closed; reopen it"):
            await session.prompt("say hello")

    await talk(runtime, agents, DEMO, how)


# -- permissions -------------------------------------------------------------------------------------------------------


class Answers:
    """A person who says the same every time."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[HumanRequest] = []

    def request(self, request: HumanRequest) -> str:
        self.asked.append(request)
        return self.answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Allow once", "allowed"),
        ("yes", "allowed"),
        ("always", "allowed"),
        ("Reject", "denied"),
        ("whatever", "denied"),
        ("", "denied"),
    ],
)
async def test_a_person_is_asked_for_permission_and_the_answer_counts(
    agents: AgentManager, runtime: Runtime, answer: str, said: str
) -> None:
    person = Answers(answer)
    heard = told(runtime, HumanInputRequestedEvent, HumanInputReceivedEvent, RunWaitingEvent)
    options = SessionOptions(permissions=Permissions(otherwise="ask", human=person))
    result = await talk(runtime, agents, DEMO, lambda session: session.prompt("ask launch"), options)
    assert result.text == said
    (request,) = person.asked
    assert request.options == ("Allow once", "Always allow", "Reject")
    assert "launch" in request.message
    assert [event.type for event in heard] == ["human_input_requested", "run_waiting", "human_input_received"]


async def test_an_answer_that_comes_later_stops_the_agent_and_puts_the_question_to_whoever_runs_it(
    agents: AgentManager, runtime: Runtime
) -> None:
    async def how(session: AgentSession) -> str:
        with pytest.raises(AnswerPendingError) as caught:
            await session.prompt("ask launch\nsay launched")
        (request,) = caught.value.requests
        assert "launch" in request.message  # type: ignore[attr-defined]
        return (await session.prompt("recall")).text

    options = SessionOptions(permissions=Permissions(otherwise="ask", human=LaterProvider()))
    assert "launch" in await talk(runtime, agents, DEMO, how, options)


async def test_asking_without_anybody_to_ask_is_refused_at_once(agents: AgentManager, runtime: Runtime) -> None:
    with pytest.raises(RunFailedError, match="needs somebody to ask"):
        await talk(runtime, agents, DEMO, _nothing, SessionOptions(permissions=Permissions(otherwise="ask")))


async def _nothing(session: AgentSession) -> None:
    return None


# -- files, terminals, servers -----------------------------------------------------------------------------------------


async def test_a_file_is_written_with_permission_only_and_only_where_it_may_be(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    (inside / "way").symlink_to(outside)

    async def how(session: AgentSession) -> Any:
        return await session.prompt("write a.txt hello\nwrite way/b.txt out\nwrite ../c.txt up\nread a.txt")

    allowed = SessionOptions(cwd=str(inside), permissions=Permissions(allow=("edit:write *",)))
    result = await talk(runtime, agents, DEMO, how, allowed)
    assert (inside / "a.txt").read_text() == "hello\n"
    assert [*os.listdir(outside), *glob(f"{tmp_path}/*.txt")] == []
    assert [tool.status for tool in result.tools] == ["completed", "failed", "failed", "completed"]
    await talk(runtime, agents, DEMO, how, SessionOptions(cwd=str(outside)))
    assert os.listdir(outside) == []


async def test_a_terminal_runs_as_a_lease_of_the_run_and_says_how_it_ended(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    heard: list[str] = []
    spec = AgentSpec(DEMO.command, "demo", terminals=True)

    async def body(run: Run) -> Any:
        session = await (await agents.acquire(spec, run)).session(SessionOptions(cwd=str(tmp_path)))
        run.on(ToolUsageFinishedEvent)(lambda source, event: heard.extend(held.kind for held in run.inventory()))
        return await session.prompt("run pwd; (setsid sleep 1000 &) ; exit 3")

    result = await runtime.arun(body)
    assert result.text == f"{tmp_path} (3)"
    assert "terminal" in heard


async def test_the_last_words_of_a_command_are_there_when_it_has_ended(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    spec = AgentSpec(DEMO.command, "demo", terminals=True)
    much = "run head -c 500000 /dev/zero | tr '\\0' x; echo END"
    result = await talk(runtime, agents, spec, lambda session: session.prompt(much), SessionOptions(cwd=str(tmp_path)))
    assert len(result.text) > 500_000
    assert result.text.endswith("END (0)")


async def test_a_terminal_that_still_runs_ends_with_its_run(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    spec = AgentSpec(DEMO.command, "demo", terminals=True)

    async def body(run: Run) -> None:
        session = await (await agents.acquire(spec, run)).session(SessionOptions(cwd=str(tmp_path)))
        run.on(ToolUsageFinishedEvent)(lambda source, event: run.cancel("enough"))
        await session.prompt("run trap '' TERM; sleep 1000")

    ended = await runtime.start(body).ended()
    assert ended.reason == "enough"
    assert agents.inventory() == []


async def test_mcp_servers_are_passed_on_and_refused_where_the_agent_cannot_use_them(
    agents: AgentManager, runtime: Runtime
) -> None:
    stdio = {"name": "files", "command": "mcp-files"}
    http = {"type": "http", "name": "web", "url": "https://example.org/mcp"}
    ours = (
        McpSpec(Command(("mcp-git", "--all"), {"TOKEN": "x"})),
        McpServer("https://example.org/mcp", headers={"key": "y"}),
    )
    await talk(runtime, agents, DEMO, _nothing, SessionOptions(mcp_servers=(stdio, http, *ours)))
    assert [mcp_data(one) for one in ours] == [
        {"name": "mcp-git", "command": "mcp-git", "args": ["--all"], "env": [{"name": "TOKEN", "value": "x"}]},
        {
            "type": "http",
            "name": "example.org",
            "url": "https://example.org/mcp",
            "headers": [{"name": "key", "value": "y"}],
        },
    ]
    with pytest.raises(RunFailedError, match="rogue cannot use MCP servers over http"):
        await talk(runtime, agents, rogue(), _nothing, SessionOptions(mcp_servers=(http,)))
    with pytest.raises(RunFailedError, match="McpServerStdio cannot be sent: command"):
        await talk(runtime, agents, DEMO, _nothing, SessionOptions(mcp_servers=({"name": "what"},)))


async def test_an_agent_of_the_official_sdk_behind_a_wrapper_with_a_child_works(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    command = Command(("/bin/sh", "-c", f"{sys.executable} {HERE / 'sdk_agent.py'}; :"), grace=0.3)

    async def body(run: Run) -> Any:
        lease = await agents.acquire(AgentSpec(command, "sdk"), run)
        assert len(agents.inventory()[0].processes) == 3
        options = SessionOptions(cwd=str(tmp_path), permissions=Permissions(allow=("edit",)))
        return await (await lease.session(options)).prompt("one two three")

    assert (await runtime.arun(body)).text == "onetwothree"
    assert (tmp_path / "sdk.txt").read_text() == "by the SDK\n"
