"""`Desk`: one session, on the loop that reads the agent. What comes in is handed to the run through an inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.acp import _schema
from holdfast.acp._files import FileDoor
from holdfast.acp._inbox import Inbox
from holdfast.acp._peer import INTERNAL, NO_METHOD, Answer, RefusedError
from holdfast.acp._shelf import Shelf
from holdfast.errors import AcpError, AcpGoneError, AcpProtocolError
from holdfast.logs import get_logger
from holdfast.threads import done_here

if TYPE_CHECKING:
    from holdfast.acp._process import AgentProcess
    from holdfast.runs import Run

log = get_logger("acp")

STALL_SECONDS = 10.0
"""How long a run that does not read may hold up the others that share its agent."""
ASKS_AT_ONCE = 16
"""Requests for permission of one session; other sessions of the agent need answers too."""
CLOSE_SECONDS = 2.0
WITHDRAWN: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}


class Update(Struct, frozen=True):
    """Something the agent tells of."""

    data: dict[str, Any]


class Ask(Struct, frozen=True, eq=False):
    """A request for permission that wants an answer."""

    params: dict[str, Any]
    reply: Future[dict[str, Any]]

    def answer(self, outcome: dict[str, Any]) -> None:
        """From any thread; the first answer counts."""
        with suppress(InvalidStateError):
            self.reply.set_result(outcome)


class Done(Struct, frozen=True):
    """The prompt was answered, or never will be."""

    answer: Answer


class Stop(Struct, frozen=True):
    """Somebody told the session to stop."""


class Broken(Struct, frozen=True):
    """Deciding on a permission went wrong."""

    error: Exception


Item = Update | Ask | Done | Stop | Broken


class Desk:
    """Takes in what the agent sends to one session. All of it runs on the agent's loop."""

    def __init__(self, agent: AgentProcess, holder: object, door: FileDoor, shelf: Shelf | None) -> None:
        self.agent = agent
        self.holder = holder
        """The lease it belongs to."""
        self.session_id = ""
        self.inbox: Inbox[Item] = Inbox()
        self.state: dict[str, Any] = {}
        """The last of each kind of update that tells how the session is set."""
        self.is_closed = False
        self.is_left = False
        """Its lease was given back, or its agent is gone."""
        self.is_stuck = False
        """It did not stop when it was told to."""
        self._listening = False
        self._answered: asyncio.Future[None] | None = None
        """Done when the last prompt was answered."""
        self._asks: list[Ask] = []
        self._door = door
        self._shelf = shelf

    # -- a prompt --------------------------------------------------------------------------------------------------

    async def begin(self, prompt: list[dict[str, Any]]) -> None:
        """Send a prompt. All that comes until its answer, and then that, is put into the inbox in order."""
        params = _schema.outgoing("PromptRequest", {"sessionId": self.session_id, "prompt": prompt})
        self.inbox.clear()
        self._listening = True
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answered = answered

        def hear(answer: Answer) -> None:
            answered.set_result(None)
            if self._answered is answered and self._listening:
                self._listening = False
                self.inbox.put(Done(answer))

        await self.agent.peer.send(self.agent.peer.expect(hear), "session/prompt", params)

    @property
    def is_busy(self) -> bool:
        return self._answered is not None and not self._answered.done()

    async def stop(self) -> None:
        """Tell the agent to stop, and whoever reads the inbox that it was told."""
        if self.is_busy:
            self.inbox.put(Stop())
            await self._send_cancel()

    async def call_off(self, seconds: float) -> bool:
        """Have the agent stop, and wait so long for its answer; nobody wants to hear it any more. Says whether it came."""
        self.hush()
        if self._answered is None or self._answered.done():
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._send_cancel()
                await asyncio.shield(self._answered)
        except TimeoutError:
            return False
        return True

    async def _send_cancel(self) -> None:
        await self.agent.peer.notify("session/cancel", {"sessionId": self.session_id})

    def give_up(self, error: AcpError) -> None:
        """Whoever waits for the prompt gets this instead; what still comes is not kept."""
        if self._listening:
            self.hush()
            self.inbox.put(Done(Answer(error=error)))

    def hush(self) -> None:
        """The prompt is over, for the run at least."""
        self._listening = False
        self.inbox.clear()
        self.withdraw()

    def withdraw(self) -> None:
        """Answer what the agent asked: nobody decides any more."""
        for ask in list(self._asks):
            ask.answer(WITHDRAWN)

    # -- what comes ------------------------------------------------------------------------------------------------

    def take(self, update: dict[str, Any], size: int) -> Awaitable[None] | None:
        kind = str(update.get("sessionUpdate"))
        if kind in _LASTING:
            self.state[kind] = update
        if not self._listening:
            log.debug("session %s tells of %s between prompts", self.session_id, kind)
            return None
        self.inbox.put(Update(update), size)
        return self._make_room() if self.inbox.is_full else None

    async def _make_room(self) -> None:
        """Read no more until the run has caught up; but others that share the agent wait only so long."""
        room = self.inbox.room()
        crowded: asyncio.Future[Any] = asyncio.ensure_future(self.agent.crowded.wait())
        try:
            await asyncio.wait({room, crowded}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            crowded.cancel()
        if not room.done():
            await asyncio.wait({room}, timeout=STALL_SECONDS)
        if not room.done():
            self.give_up(
                AcpProtocolError(
                    f"{self.agent.name} sent more than its run read, and others share it: read the run's stream faster, or "
                    f"give it an agent of its own (AgentSpec.shaped_by)",
                    agent=self.agent.name,
                )
            )

    async def asked(self, method: str, params: dict[str, Any]) -> Any:
        """Answer a request of the agent."""
        kind, answer = _REQUESTS.get(method, ("", None))
        if answer is None:
            raise RefusedError(f"no method {method}", NO_METHOD)
        try:
            return await answer(self, _schema.incoming(kind, params, self.agent.name))
        except AcpProtocolError as error:
            raise RefusedError(str(error)) from error

    async def _permit(self, params: dict[str, Any]) -> dict[str, Any]:
        if not self._listening:
            return WITHDRAWN
        if len(self._asks) >= ASKS_AT_ONCE:
            raise RefusedError(
                f"{ASKS_AT_ONCE} requests for permission wait for an answer; ask for one at a time", INTERNAL
            )
        ask = Ask(params, Future())
        self._asks.append(ask)
        self.inbox.put(ask)
        try:
            await done_here(ask.reply)
            return ask.reply.result()
        finally:
            self._asks.remove(ask)
            ask.reply.cancel()  # so that nobody goes on asking, if it was the agent that gave up

    async def _read_file(self, params: dict[str, Any]) -> dict[str, Any]:
        text = await asyncio.to_thread(self._door.read, params["path"], params.get("line"), params.get("limit"))
        return {"content": text}

    async def _write_file(self, params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.to_thread(self._door.write, params["path"], params["content"])
        return {}

    async def _terminal(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._shelf is None:
            raise RefusedError("this session has no terminals")
        return await self._shelf.serve(method, params)

    # -- its end ---------------------------------------------------------------------------------------------------

    def move_to(self, run: Run) -> None:
        """The session belongs to another run from now on."""
        if self._shelf is not None:
            self._shelf.move_to(run)

    async def close(self) -> None:
        """Take leave of the session: stop it, close it where the agent can, end its terminals. Twice is fine."""
        if self.is_closed:
            return
        self.is_closed = True
        self.give_up(AcpGoneError(f"session {self.session_id} was closed", agent=self.agent.name))
        if self.is_busy:
            await self._send_cancel()
        if self.agent.offers("sessionCapabilities", "close"):
            await self.agent.call("CloseSessionRequest", {"sessionId": self.session_id}, timeout=CLOSE_SECONDS)
        if self._shelf is not None:
            await self._shelf.clear()


_LASTING = {
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "usage_update",
}


def _on_terminal(method: str) -> Callable[[Desk, dict[str, Any]], Awaitable[dict[str, Any]]]:
    return lambda desk, params: desk._terminal(method, params)


_REQUESTS: dict[str, tuple[str, Callable[[Desk, dict[str, Any]], Awaitable[dict[str, Any]]] | None]] = {
    "session/request_permission": ("RequestPermissionRequest", Desk._permit),
    "fs/read_text_file": ("ReadTextFileRequest", Desk._read_file),
    "fs/write_text_file": ("WriteTextFileRequest", Desk._write_file),
    "terminal/create": ("CreateTerminalRequest", _on_terminal("create")),
    "terminal/output": ("TerminalOutputRequest", _on_terminal("output")),
    "terminal/wait_for_exit": ("WaitForTerminalExitRequest", _on_terminal("wait_for_exit")),
    "terminal/kill": ("KillTerminalRequest", _on_terminal("kill")),
    "terminal/release": ("ReleaseTerminalRequest", _on_terminal("release")),
}
"""What an agent may ask of a session: the type of its parameters, and what answers."""
