"""An agent made with the official SDK, to be started by a wrapper; it has a child of its own."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any, cast

from acp import run_agent, update_agent_message_text
from acp.schema import (
    AgentCapabilities,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    SessionCapabilities,
    SessionForkCapabilities,
    ToolCallUpdate,
)


class SdkAgent:
    """Says what it is told, asks before it writes."""

    def __init__(self) -> None:
        self.client: Any = None
        self.cwd = ""

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> InitializeResponse:
        can = SessionCapabilities(fork=SessionForkCapabilities())
        return InitializeResponse(protocol_version=1, agent_capabilities=AgentCapabilities(session_capabilities=can))

    async def new_session(self, cwd: str, **kwargs: Any) -> NewSessionResponse:
        self.cwd = cwd
        return NewSessionResponse(session_id="sdk-1")

    async def prompt(self, prompt: list[Any], session_id: str, **kwargs: Any) -> PromptResponse:
        for word in prompt[0].text.split():
            await self.client.session_update(session_id, update_agent_message_text(word))
        options = [PermissionOption(option_id="ok", name="OK", kind="allow_once")]
        call = ToolCallUpdate(tool_call_id="t1", title="write", kind="edit")
        answer = await self.client.request_permission(options=options, session_id=session_id, tool_call=call)
        if answer.outcome.outcome == "selected":
            await self.client.write_text_file(content="by the SDK\n", path=f"{self.cwd}/sdk.txt", session_id=session_id)
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        return None


if __name__ == "__main__":
    subprocess.Popen(["sleep", "1000"])
    asyncio.run(run_agent(cast(Any, SdkAgent())))
