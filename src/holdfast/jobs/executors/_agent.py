"""`executor: agent`: one turn of an agent program. Its process is leased by the run, so every way out ends it."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from holdfast.acp import AgentLease, AgentSession, AgentSpec, Permissions, PromptResult, SessionOptions, find_agent
from holdfast.errors import AcpUnsupportedError, ConfigurationError, JobStepError
from holdfast.flowfiles import AgentCall
from holdfast.jobs._calls import Call
from holdfast.jobs._scope import Shared
from holdfast.jobs.executors._llm import answer_of, rendered, schema_of
from holdfast.ports import Ask, HumanRequest
from holdfast.resources import Sandbox


async def run_agent(call: Call) -> Any:
    """What the agent gave: nothing but its session (`effect`), its answer (`stream_result`), or the file that it wrote (`file`)."""
    executor = call.executor
    assert isinstance(executor, AgentCall)
    call.meter.check()
    place = _place(call, executor)
    lease = await _lease(call, executor, place)
    try:
        session = await _session(call, executor, lease, place)
        expected = place / (executor.output_path or f".output-{call.step.name}-{call.execution.number}.json")
        result = await session.prompt(_prompt(call, executor, expected))
        call.meter.count(result.used)
        _check(result)
        handle = {"id": session.id, "agent": lease.name, **await _branch_point(call, executor, lease, session, place)}
        call.scope.remember_session(call.step, handle, session)
        return {**_outputs(call, executor, result, expected), "_session": handle}
    finally:
        if not call.scope.keeps_session(call.step):
            await call.run.release(lease)


# -- who is asked, and where ---------------------------------------------------------------------------------------


def _place(call: Call, executor: AgentCall) -> Path:
    workspace = call.scope.shared.workspace
    if executor.working_dir is None:
        return workspace
    place = workspace / rendered(call, executor.working_dir)
    if not place.is_dir():
        raise JobStepError(f"its working_dir {place} is not there; make it in a step before", category="configuration")
    return place


async def _lease(call: Call, executor: AgentCall, place: Path) -> AgentLease:
    engine = call.scope.engine
    name = executor.agent or engine.default_agent
    if not name:
        raise JobStepError(
            "it names no agent and there is no default: give it `agent:`, or set HOLDFAST_AGENT",
            category="configuration",
        )
    try:
        spec = find_agent(name, engine.home).spec()
    except ConfigurationError as error:
        raise JobStepError(str(error), category="configuration") from error
    lease: AgentLease = await engine.agents.acquire(_confined(call, executor, spec, place), call.run)
    return lease


def _confined(call: Call, executor: AgentCall, spec: AgentSpec, place: Path) -> AgentSpec:
    wanted = executor.sandbox
    if wanted is None:
        return spec
    workspace = str(call.scope.shared.workspace)
    writable = dict.fromkeys((workspace, str(place), *(os.path.abspath(path) for path in wanted.write)))
    readable = dict.fromkeys((call.scope.flow.directory, *(os.path.abspath(path) for path in wanted.read)))
    sandbox = Sandbox(
        readable=tuple(path for path in readable if path),
        writable=tuple(writable),
        network="host" if wanted.network else "none",
    )
    return replace(spec, command=replace(spec.command, sandbox=sandbox))


async def _session(call: Call, executor: AgentCall, lease: AgentLease, place: Path) -> AgentSession:
    """The conversation: the step's own, the one it shares, or a branch of another's."""
    scope, options = call.scope, _options(call, executor, place)
    known = scope.session_of(call.step, call.attempt)
    if known is not None:
        session: AgentSession | None = scope.live_sessions.get(known["id"])
        if session is not None and session.is_open:
            await session.go_on_with(options.permissions, options.model)
            return session
        return await lease.reopen(known["id"], options)
    if call.step.fork_from is not None and (branch := scope.handles.get(f"step:{call.step.fork_from}")) is not None:
        return await _branch(lease, branch.get("branch") or branch["id"], options)
    return await lease.session(options)


async def _branch_point(
    call: Call, executor: AgentCall, lease: AgentLease, session: AgentSession, place: Path
) -> dict[str, str]:
    """Where others branch off from a conversation that goes on: it is kept as it is at this step's end."""
    forks = any(other.fork_from == call.step.name for other in call.scope.flow.steps)
    if not forks or call.step.session is None:
        return {}
    try:
        kept = await lease.fork(session.id, _options(call, executor, place))
    except AcpUnsupportedError:  # whoever wants to branch off is told
        return {}
    return {"branch": kept.id}


async def _branch(lease: AgentLease, session_id: str, options: SessionOptions) -> AgentSession:
    try:
        return await lease.fork(session_id, options)
    except AcpUnsupportedError as error:
        raise JobStepError(f"{error}; its fork_from cannot work with this agent", category="configuration") from error


def _options(call: Call, executor: AgentCall, place: Path) -> SessionOptions:
    wanted = executor.permissions
    permissions = StepPermissions(
        wanted.allow, wanted.deny, wanted.otherwise, Desk(call, call.scope.shared), wanted.ask, executor.tools
    )
    model = rendered(call, executor.model) if executor.model is not None else ""
    return SessionOptions(cwd=str(place), permissions=permissions, model=model, tools=executor.tools)


class StepPermissions(Permissions, frozen=True):
    """What a flow file says an agent may do: of several lists that name a tool the most careful one counts."""

    ask: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    """all that it may use; None for no bound"""

    def verdict(self, kind: str, title: str) -> Literal["allow", "deny", "ask"]:
        if self.tools is not None and not any(
            fnmatchcase(name, tool) for name in (kind, title, f"{kind}:{title}") for tool in self.tools
        ):
            return "deny"
        asked = Permissions(allow=self.ask, deny=self.deny).verdict(kind, title) == "allow"
        return "ask" if asked else super().verdict(kind, title)


class Desk:
    """Where an agent's requests for permission wait for whoever answers the job's questions."""

    def __init__(self, call: Call, shared: Shared) -> None:
        self._step = call.scope.step_path(call.step.name)
        self._shared = shared

    async def request(self, request: HumanRequest) -> str:
        """What someone answered. Meanwhile the job shows the question."""
        shared = self._shared
        fields = {"answer": {"type": "choice", "options": list(request.options), "required": True}}
        shared.open_asks[request.id] = Ask(request.id, self._step, request.message, fields)
        shared.knock()
        try:
            while request.id not in shared.answers:
                await shared.knocked()
            return str(shared.answers.pop(request.id).get("answer", ""))
        finally:
            shared.open_asks.pop(request.id, None)
            shared.knock()


# -- what is said, and what comes back -----------------------------------------------------------------------------


def _prompt(call: Call, executor: AgentCall, expected: Path) -> str:
    again = call.step.loop_prompt if call.attempt > 1 else None
    said = rendered(call, again or executor.prompt)
    if executor.output_mode != "file":
        return said
    expected.unlink(missing_ok=True)
    schema = msgspec.json.encode(schema_of(call.step.outputs)).decode()
    return f"{said}\n\nWhen you are done, write one JSON object to the file {expected}, and nothing else. Its schema: {schema}"


def _check(result: PromptResult) -> None:
    if result.stop_reason != "end_turn":
        said = f": {result.text[-500:]}" if result.text else ""
        category = "limit" if result.stop_reason.startswith("max_") else "failed"
        raise JobStepError(f"the agent stopped with {result.stop_reason}{said}", category=category)


def _outputs(call: Call, executor: AgentCall, result: PromptResult, expected: Path) -> dict[str, Any]:
    if executor.output_mode == "file":
        return _written(expected)
    if executor.output_mode == "stream_result":
        return answer_of(result.text, call) if call.step.outputs else {"result": result.text}
    return {}


def _written(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise JobStepError(f"the agent wrote no {path.name}: {error.strerror}", category="output") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise JobStepError(f"what the agent wrote to {path.name} is no JSON: {error}", category="output") from error
    if not isinstance(found, dict):
        raise JobStepError(f"what the agent wrote to {path.name} is no object", category="output")
    return found
