"""`AgentProcess`: an agent program that runs, and the sessions it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from importlib.metadata import version
from typing import Any

from holdfast.acp import _schema
from holdfast.acp._desk import Desk
from holdfast.acp._peer import Peer, RefusedError
from holdfast.acp._spec import AgentSpec
from holdfast.errors import (
    AcpError,
    AcpGoneError,
    AcpProtocolError,
    AcpRequestError,
    AcpTimeoutError,
    AcpUnsupportedError,
)
from holdfast.logs import get_logger
from holdfast.ports import ProcessUse
from holdfast.resources import KeptProcess

log = get_logger("acp")

PROTOCOL = 1
CALL_SECONDS = 120.0
"""How long anything but a prompt may take."""


LAST_WORDS_SECONDS = 0.5
"""How long what an agent that ended had written is waited for, or the end of one that hung up."""
WORDS = 2000
"""How much of its standard error an error message shows."""
SIGN_IN_NEEDED = -32000
_METHODS = {
    "AuthenticateRequest": "authenticate",
    "CloseSessionRequest": "session/close",
    "ForkSessionRequest": "session/fork",
    "InitializeRequest": "initialize",
    "LoadSessionRequest": "session/load",
    "NewSessionRequest": "session/new",
    "ResumeSessionRequest": "session/resume",
    "SetSessionConfigOptionSelectRequest": "session/set_config_option",
    "SetSessionModeRequest": "session/set_mode",
}


class AgentProcess:
    """One process of an agent. It may serve sessions of several runs. All of it belongs to the manager's loop."""

    def __init__(self, process: KeptProcess, spec: AgentSpec) -> None:
        self.process = process
        self.spec = spec
        self.name = spec.name
        self.loop = asyncio.get_running_loop()
        self.info: dict[str, Any] = {}
        """What it said of itself when it was greeted."""
        self.peer = Peer(process.read, process.write, self, self.gone)
        self.desks: dict[str, Desk] = {}
        self.crowded = asyncio.Event()
        """Set while more than one lease uses it."""
        self._holders: set[object] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._serving = self.loop.create_task(self._serve())

    async def _serve(self) -> None:
        """Read until it hangs up or its first process ends; then whoever waits for an answer is told.

        What it started may hold its output open for ever, so that is not waited for.
        """
        both = [self.loop.create_task(work) for work in (self.peer.serve(), self.process.wait())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(both, timeout=LAST_WORDS_SECONDS)
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)
            await self.peer.stop()

    # -- greeting --------------------------------------------------------------------------------------------------

    async def greet(self, process: KeptProcess) -> None:
        """Shake hands. Raises AcpError."""
        offered = {
            "protocolVersion": PROTOCOL,
            "clientInfo": {"name": "holdfast", "version": version("holdfast")},
            "clientCapabilities": {
                "fs": {"readTextFile": self.spec.files, "writeTextFile": self.spec.files},
                "terminal": self.spec.terminals,
            },
        }
        try:
            told = await self.call("InitializeRequest", offered)
        except AcpGoneError as error:  # how it ended, and its last words, are told by who shakes hands
            wrote = f" after it wrote {self.peer.last_garbage!r}" if self.peer.last_garbage else ""
            raise AcpGoneError(f"it hung up{wrote}", agent=self.name) from error
        self.info = _schema.incoming("InitializeResponse", told, self.name)
        if self.info["protocolVersion"] != PROTOCOL:
            raise AcpProtocolError(
                f"it speaks version {self.info['protocolVersion']} of the protocol, not {PROTOCOL}; use another version of it",
                agent=self.name,
            )
        if self.spec.sign_in:
            await self.call("AuthenticateRequest", {"methodId": self.spec.sign_in})

    def offers(self, *path: str) -> bool:
        """Whether it said that it can do something: a path into its capabilities."""
        found: Any = self.info.get("agentCapabilities", {})
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found is not None and found is not False

    # -- asking it -------------------------------------------------------------------------------------------------

    async def call(self, kind: str, fields: dict[str, Any], timeout: float = CALL_SECONDS) -> Any:
        """Send a request of a type and return its result. Raises AcpError: gone, refused, or too late."""
        return await self.ask(_METHODS[kind], _schema.outgoing(kind, fields), timeout)

    async def ask(self, method: str, params: dict[str, Any], timeout: float = CALL_SECONDS) -> Any:
        """`call`, for what has no type."""
        try:
            async with asyncio.timeout(timeout):
                return await self.peer.request(method, params)
        except TimeoutError as error:
            raise AcpTimeoutError(
                f"{self.name} did not answer {method} within {timeout:g} s{self._said()}",
                agent=self.name,
                stderr=self.stderr(),
            ) from error
        except AcpRequestError as error:
            raise self.explained(method, error) from error

    def explained(self, method: str, error: AcpRequestError) -> AcpRequestError:
        """An error of the agent's, with what we know of it."""
        detail = f" ({error.data})"[:WORDS] if error.data else ""
        advice = f"; {self._how_to_sign_in()}" if error.code == SIGN_IN_NEEDED else ""
        return AcpRequestError(
            f"{self.name} refuses {method}: {error}{detail}{advice}",
            code=error.code, data=error.data, agent=self.name, stderr=self.stderr(),
        )  # fmt: skip

    def _how_to_sign_in(self) -> str:
        ways = [f"{way.get('id')} ({way.get('name')})" for way in self.info.get("authMethods") or ()]
        known = f", by {' or '.join(ways)}" if ways else ""
        return f"it may want you to sign in{known}: do so in its own program, or give AgentSpec `sign_in`"

    # -- what it sends ---------------------------------------------------------------------------------------------

    def notified(self, method: str, params: Any, size: int) -> Awaitable[None] | None:
        update = params.get("update") if isinstance(params, dict) else None
        desk = self.desks.get(str(params.get("sessionId"))) if isinstance(update, dict) else None
        if method != "session/update" or desk is None or not isinstance(update, dict):
            log.debug("%s tells of %s, which concerns nobody here", self.name, method)
            return None
        return desk.take(update, size)

    async def asked(self, method: str, params: Any) -> Any:
        desk = self.desks.get(str(params.get("sessionId"))) if isinstance(params, dict) else None
        if desk is None:
            raise RefusedError(f"{method} names no session that is open here")
        return await desk.asked(method, params)

    # -- sessions --------------------------------------------------------------------------------------------------

    async def open(self, kind: str, fields: dict[str, Any], desk: Desk) -> dict[str, Any]:
        """Open a session at a desk: a new one, or one it knows. Returns what the agent says of it."""
        self._holders.add(desk.holder)
        self._count()
        known = "" if kind in ("NewSessionRequest", "ForkSessionRequest") else str(fields["sessionId"])
        if known in self.desks:
            raise AcpUnsupportedError(f"session {known} is open already; close it first", agent=self.name)
        if known:  # while it is loaded, the agent tells what was
            self._seat(known, desk)
        try:
            opened = await self.call(kind, fields)
            answer = _schema.incoming(kind.replace("Request", "Response"), opened, self.name)
        except BaseException:
            self.desks.pop(known, None)
            raise
        if not known and answer["sessionId"] in self.desks:  # another run's, perhaps
            raise AcpProtocolError(
                f"{self.name} gave a new session the id of an open one, {answer['sessionId']}; use another version of it",
                agent=self.name,
            )
        self._seat(known or answer["sessionId"], desk)
        return answer

    def _seat(self, session_id: str, desk: Desk) -> None:
        desk.session_id = session_id
        self.desks[session_id] = desk

    async def close(self, desk: Desk) -> None:
        """Close a session; the agent goes on."""
        try:
            await desk.close()
        except AcpError as error:  # it is closed for us all the same
            log.info("session %s did not close as it should: %s", desk.session_id, error)
        finally:
            self.desks.pop(desk.session_id, None)

    def leave(self, holder: object) -> None:
        """A lease was given back: its sessions are closed, without waiting for the agent."""
        self._holders.discard(holder)
        self._count()
        for desk in [desk for desk in self.desks.values() if desk.holder is holder]:
            desk.is_left = True
            desk.give_up(AcpGoneError(f"the lease on {self.name} was released", agent=self.name))
            task = asyncio.get_running_loop().create_task(self.close(desk))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _count(self) -> None:
        if len(self._holders) > 1:
            self.crowded.set()
        else:
            self.crowded.clear()

    # -- its end ---------------------------------------------------------------------------------------------------

    async def goodbye(self) -> None:
        """Close every session that is open. `end()` gives it no more time than the grace."""
        for holder in {desk.holder for desk in self.desks.values()}:
            self.leave(holder)
        if self._closing:
            await asyncio.wait(self._closing)

    async def lost(self) -> None:
        """Wait until it can serve nobody any more."""
        await asyncio.wait({self._serving})

    async def end(self) -> None:
        """End it with all it started. Raises StuckError."""
        try:
            await self.process.end()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Stop reading; whoever waits for an answer is told, and its sessions have nobody to talk to any more."""
        tasks = {self._serving, *self._closing}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for desk in self.desks.values():
            desk.is_left = True

    def gone(self) -> AcpError:
        """What is told to those who wait for an answer that will not come."""
        code = self.process.returncode
        how = "hung up" if code is None else f"ended with {code}" if code >= 0 else f"was killed by signal {-code}"
        return AcpGoneError(f"{self.name} {how}{self._said()}", agent=self.name, stderr=self.stderr())

    def stderr(self) -> str:
        return self.process.stderr_tail().decode(errors="replace").strip()

    def _said(self) -> str:
        said = self.stderr()[-WORDS:] or self.peer.last_garbage
        return f"; its last words: {said}" if said else "; it said nothing on standard error"

    def uses(self) -> list[ProcessUse]:
        return self.process.processes()
