"""What an agent tells, told on as events of the run: text, thinking, tools, plans, and whatever else."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.context import Position, at, position
from holdfast.events.families.acp import AgentPlanUpdatedEvent, AgentUpdateReceivedEvent
from holdfast.events.families.llm import LLMStreamChunkEvent, LLMThinkingChunkEvent
from holdfast.events.families.tool import (
    ToolUsageCancelledEvent,
    ToolUsageErrorEvent,
    ToolUsageFinishedEvent,
    ToolUsageStartedEvent,
)
from holdfast.runs import Run

TEXT_BYTES = 16 * 1024 * 1024
TOOLS = 10_000
"""How many uses of tools in one prompt are told of, and listed."""


class ToolUse(Struct):
    """One use of a tool by an agent."""

    id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    """`pending`, `in_progress`, `completed` or `failed`"""
    paths: list[str] = []
    """the files it is about"""
    arguments: dict[str, Any] = {}


class Telling:
    """Tells of one prompt, and keeps what its result needs."""

    def __init__(self, run: Run, session_id: str, call_id: str) -> None:
        self._run = run
        self._session_id = session_id
        self._call_id = call_id
        self._texts: list[str] = []
        self._length = 0
        self._at_work: dict[str, tuple[Position, str]] = {}
        """Where the events of tools that are at work stand, and the name each began with: titles change."""
        self.tools: dict[str, ToolUse] = {}
        self.plan: list[dict[str, Any]] = []
        self.usage: dict[str, Any] = {}
        self.is_cut = False

    @property
    def text(self) -> str:
        return "".join(self._texts)

    async def take(self, update: dict[str, Any]) -> None:
        """Tell of an update, then wait while whoever reads the run is behind."""
        kind = str(update.get("sessionUpdate", ""))
        _KINDS.get(kind, Telling._take_other)(self, kind, update)
        await self._run.room()

    def _take_text(self, kind: str, update: dict[str, Any]) -> None:
        text = _text(update.get("content"))
        if text is None:
            self._take_other(kind, update)
            return
        self._length += len(text)
        if self._length <= TEXT_BYTES:
            self._texts.append(text)
        else:
            self.is_cut = True
        self._run.tell(LLMStreamChunkEvent, call_id=self._call_id, chunk=text)

    def _take_thought(self, kind: str, update: dict[str, Any]) -> None:
        text = _text(update.get("content"))
        if text is None:
            self._take_other(kind, update)
        else:
            self._run.tell(LLMThinkingChunkEvent, call_id=self._call_id, chunk=text)

    def _take_plan(self, kind: str, update: dict[str, Any]) -> None:
        entries = update.get("entries")
        self.plan = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        self._run.tell(AgentPlanUpdatedEvent, session_id=self._session_id, entries=self.plan)

    def _take_usage(self, kind: str, update: dict[str, Any]) -> None:
        self.usage = {name: value for name, value in update.items() if name != "sessionUpdate"}
        self._take_other(kind, update)

    def _take_other(self, kind: str, update: dict[str, Any]) -> None:
        self._run.tell(AgentUpdateReceivedEvent, session_id=self._session_id, kind=kind, update=update)

    # -- tools -----------------------------------------------------------------------------------------------------

    def take_question(self, tool_call: dict[str, Any]) -> None:
        """Tell of a tool that permission is asked for; some agents name it there for the first time."""
        if str(tool_call.get("toolCallId", "")) not in self.tools:
            self._take_tool("tool_call", tool_call)

    def _take_tool(self, kind: str, update: dict[str, Any]) -> None:
        tool_id = str(update.get("toolCallId", ""))
        tool = self.tools.get(tool_id)
        is_new = tool is None
        if tool is None:
            if len(self.tools) >= TOOLS:
                return
            tool = self.tools[tool_id] = ToolUse(tool_id)
        was_over = tool.status in ("completed", "failed")
        _learn(tool, update)
        if is_new:
            self._begin(tool)
        if tool.status in ("completed", "failed") and not was_over:
            self._finish(tool, update)
        elif not is_new:
            self._take_other(kind, update)

    def _begin(self, tool: ToolUse) -> None:
        with at(position.get()):  # tools overlap: each one's events hang under its own start
            name = tool.title or tool.kind
            self._run.tell(ToolUsageStartedEvent, tool_name=name, tool_args=tool.arguments, call_id=tool.id)
            self._at_work[tool.id] = position.get(), name

    def _finish(self, tool: ToolUse, update: dict[str, Any]) -> None:
        output = update.get("rawOutput", _texts(update.get("content")))
        place, name = self._at_work.pop(tool.id)
        about = {"tool_name": name, "tool_args": tool.arguments, "call_id": tool.id}
        with at(place):
            if tool.status == "completed":
                self._run.tell(ToolUsageFinishedEvent, **about, output=output)
            else:
                self._run.tell(ToolUsageErrorEvent, **about, error=str(output or "it failed"), error_type="failed")

    def close(self, reason: str) -> None:
        """The prompt is over: tools that never said how they ended did not."""
        while self._at_work:
            tool_id, (place, name) = self._at_work.popitem()
            with at(place):
                self._run.tell(ToolUsageCancelledEvent, tool_name=name, call_id=tool_id, reason=reason)


_KINDS = {
    "agent_message_chunk": Telling._take_text,
    "agent_thought_chunk": Telling._take_thought,
    "plan": Telling._take_plan,
    "tool_call": Telling._take_tool,
    "tool_call_update": Telling._take_tool,
    "usage_update": Telling._take_usage,
}


def _learn(tool: ToolUse, update: dict[str, Any]) -> None:
    """Take over what an update says; what it leaves out stays."""
    tool.title = str(update.get("title") or tool.title)
    tool.kind = str(update.get("kind") or tool.kind)
    if tool.status not in ("completed", "failed"):
        tool.status = str(update.get("status") or tool.status)
    if isinstance(update.get("locations"), list):
        tool.paths = [str(at["path"]) for at in update["locations"] if isinstance(at, dict) and "path" in at]
    if "rawInput" in update and update["rawInput"] is not None:
        given = update["rawInput"]
        tool.arguments = given if isinstance(given, dict) else {"input": given}


def _text(content: Any) -> str | None:
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("text"), str):
        return str(content["text"])
    return None


def _texts(content: Any) -> str | None:
    """The text in what a tool shows."""
    parts = (
        [_text(part.get("content")) for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    return "\n".join(part for part in parts if part is not None) or None
