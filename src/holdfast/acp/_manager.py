"""`AgentManager`: agent programs that runs share, each ended with all its children when the last run has let go of it."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from holdfast.acp import _schema
from holdfast.acp._desk import Desk
from holdfast.acp._files import FileDoor
from holdfast.acp._process import AgentProcess
from holdfast.acp._session import AgentSession
from holdfast.acp._shelf import Shelf
from holdfast.acp._spec import AgentSpec, SessionOptions, mcp_data
from holdfast.acp._terminals import TerminalManager
from holdfast.clock import Clock
from holdfast.context import at, position
from holdfast.errors import AcpUnsupportedError, UsageError
from holdfast.events.families.acp import AgentSessionOpenedEvent
from holdfast.ports import HeldResource, Holder, Ledger, LedgerRow, ProcessTable, ProcessUse, SweepReport
from holdfast.resources import Keeper, Limits, PooledLease, PooledManager, ProcessSpec
from holdfast.resources._entries import Entry
from holdfast.resources._keeper import new_tag
from holdfast.resources._loops import on_loop, surely
from holdfast.resources._process_manager import end_process_row, shake_hands
from holdfast.runs import Run

_HOW = {
    "NewSessionRequest": "new",
    "ResumeSessionRequest": "resume",
    "LoadSessionRequest": "load",
    "ForkSessionRequest": "fork",
}


_SERVERS = {"stdio": "McpServerStdio", "http": "HttpMcpServer", "sse": "SseMcpServer"}


class AgentLease(PooledLease[AgentProcess]):
    """A run's hold on an agent. It opens sessions; they are closed when it is released, at the latest when the run ends."""

    _run: Holder | None = None
    _terminals: TerminalManager | None = None

    def bind(self, run: Holder, terminals: TerminalManager) -> None:
        """Say whose it is. The manager calls this."""
        self._run, self._terminals = run, terminals

    def move_to(self, run: Run) -> None:
        """Belong to another run that has taken it over, under the same id."""
        self._run = run

    @property
    def info(self) -> dict[str, Any]:
        """What the agent said of itself: `agentInfo`, `agentCapabilities`, `authMethods`."""
        return self.resource.info

    async def session(self, options: SessionOptions | None = None) -> AgentSession:
        """Open a new session. Raises AcpError if the agent refuses, UsageError if the options make no sense."""
        return await self._open("NewSessionRequest", {}, options or SessionOptions())

    async def reopen(self, session_id: str, options: SessionOptions | None = None) -> AgentSession:
        """Go on with a session of before, also of another process. Raises AcpUnsupportedError if the agent cannot."""
        if self.resource.offers("sessionCapabilities", "resume"):
            kind = "ResumeSessionRequest"
        elif self.resource.offers("loadSession"):
            kind = "LoadSessionRequest"
        else:
            raise AcpUnsupportedError(f"{self.name} cannot reopen a session; open a new one", agent=self.name)
        return await self._open(kind, {"sessionId": session_id}, options or SessionOptions())

    async def fork(self, session_id: str, options: SessionOptions | None = None) -> AgentSession:
        """A new session that knows what another one knew. Raises AcpUnsupportedError if the agent cannot."""
        if not self.resource.offers("sessionCapabilities", "fork"):
            raise AcpUnsupportedError(f"{self.name} cannot fork a session; open a new one", agent=self.name)
        return await self._open("ForkSessionRequest", {"sessionId": session_id}, options or SessionOptions())

    async def _open(self, kind: str, fields: dict[str, Any], options: SessionOptions) -> AgentSession:
        run, agent = self._run, self.resource
        if not isinstance(run, Run):
            raise UsageError("sessions belong to runs: acquire the lease for a Run")
        options.permissions.check()
        cwd = _absolute(options.cwd or agent.spec.command.cwd or "")
        fields = {**fields, "cwd": cwd, "mcpServers": [self._checked(mcp_data(one)) for one in options.mcp_servers]}
        if options.tools is not None:
            fields["_meta"] = {"tools": list(options.tools)}
        desk = self._desk(run, cwd, options)
        opened = await on_loop(agent.loop, agent.open(kind, fields, desk), undo=lambda _: agent.close(desk))
        session = AgentSession(desk, run, options.permissions, opened)
        with at(run.place if position.get().run_id != run.id else position.get()):
            run.tell(AgentSessionOpenedEvent, agent=self.name, session_id=session.id, how=_HOW[kind])
        try:
            if options.model:
                await session.set_model(options.model)
            if options.mode:
                await session.set_mode(options.mode)
        except BaseException:
            await surely(session.aclose())
            raise
        return session

    def _desk(self, run: Run, cwd: str, options: SessionOptions) -> Desk:
        agent = self.resource
        door = FileDoor(
            (cwd,) if options.readable is None else options.readable,
            (cwd,) if options.writable is None else options.writable,
        )
        shelf = (
            Shelf(run, self._terminals, door, cwd, agent.spec.command)
            if agent.spec.terminals and self._terminals
            else None
        )
        return Desk(agent, self, door, shelf)

    def _checked(self, server: dict[str, Any]) -> dict[str, Any]:
        transport = server.get("type", "stdio")
        if transport in ("http", "sse") and not self.resource.offers("mcpCapabilities", transport):
            raise AcpUnsupportedError(f"{self.name} cannot use MCP servers over {transport}", agent=self.name)
        if transport not in _SERVERS:
            raise UsageError(f"MCP server {server.get('name')}: {transport!r} is none of {', '.join(_SERVERS)}")
        return _schema.outgoing(_SERVERS[transport], server)  # the list as a whole would drop a wrong one in silence

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._run, Run):
            await self._run.release(self)
        else:
            await self.release()


class AgentManager(PooledManager[AgentSpec, AgentProcess]):
    """Agent programs over the Agent Client Protocol, under keepers.

        agents = AgentManager(SqliteLedger(path))
        runtime.register(agents)
        …
        async with await agents.acquire(find_agent("demo").spec(), run) as lease:
            session = await lease.session(SessionOptions(cwd=folder, permissions=Permissions(allow=("edit",))))
            result = await session.prompt("say hello")

    A run that is not done with its lease when it ends gives it back then. A process is ended in this order: its sessions are
    closed, its input ends, SIGTERM to its tree, after a grace SIGKILL, until it is proved that nothing is left. One that
    fails its handshake leaves nothing. Linux only.
    """

    kind = "agent"

    def __init__(
        self,
        ledger: Ledger,
        *,
        table: ProcessTable | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(ledger, table=table, limits=limits, clock=clock)
        self._keeper = Keeper(self._table)
        self._terminals = TerminalManager(ledger, self._keeper, table)

    async def acquire(self, spec: AgentSpec, run: Holder) -> AgentLease:
        """A lease on an agent that is ready for sessions. Raises SpawnError, or HandshakeError with what it said."""
        lease = await super().acquire(spec, run)
        assert isinstance(lease, AgentLease)
        lease.bind(run, self._terminals)
        return lease

    def lease(self, entry: Entry[AgentProcess], run_id: str) -> AgentLease:
        return AgentLease(self.kind, entry, run_id, self._release_at_home)

    def intend(self, spec: AgentSpec, row: LedgerRow) -> LedgerRow:
        return replace(row, tag=new_tag())

    async def make(self, spec: AgentSpec, row: LedgerRow) -> tuple[AgentProcess, LedgerRow]:
        await asyncio.to_thread(_schema.load)  # half a second, the first time
        command = replace(spec.command, stderr="ring")  # drained, or an agent that complains a lot would stop
        process = await self._keeper.spawn(command, tag=row.tag)
        agent = AgentProcess(process, spec)
        shown = ProcessSpec(spec.command, spec.name, handshake_timeout=spec.handshake_timeout)
        try:
            await shake_hands(process, shown, agent.greet)
        except BaseException:
            await agent.stop()
            raise
        process.goodbye = agent.goodbye
        return agent, replace(row, keeper=process.keeper, leader=process.leader)

    async def is_healthy(self, resource: AgentProcess) -> bool:
        return resource.process.returncode is None and not resource.peer.is_over

    async def died(self, resource: AgentProcess) -> None:
        await resource.lost()

    def left(self, resource: AgentProcess, lease: PooledLease[AgentProcess]) -> None:
        resource.leave(lease)

    async def end(self, resource: AgentProcess) -> None:
        await resource.end()

    async def end_orphan(self, row: LedgerRow) -> str:
        return await end_process_row(row, self._table)

    def uses(self, resource: AgentProcess) -> list[ProcessUse]:
        return resource.uses()

    # -- with the terminals ----------------------------------------------------------------------------------------

    async def release_for_run(self, run_id: str) -> None:
        try:
            await super().release_for_run(run_id)
        finally:
            await self._terminals.release_for_run(run_id)

    async def release_all(self) -> None:
        try:
            await self._terminals.release_all()
        finally:
            await super().release_all()

    async def sweep(self) -> SweepReport:
        agents, terminals = await super().sweep(), await self._terminals.sweep()
        return SweepReport(
            agents.ended + terminals.ended, agents.left + terminals.left, agents.problem or terminals.problem
        )

    def inventory(self) -> list[HeldResource]:
        return super().inventory() + self._terminals.inventory()

    async def shut(self) -> None:
        await self._keeper.aclose()


def _absolute(path: str) -> str:
    return os.path.abspath(path)
