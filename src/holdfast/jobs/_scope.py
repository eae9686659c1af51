"""What the steps of a job share: where they work, what they know, what they wait for, what they may use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from holdfast.checkpoints import Progress
from holdfast.flowfiles import FlowFile, StepSpec
from holdfast.jobs._grace import Kept
from holdfast.jobs._meter import JobMeter
from holdfast.ports import Ask

if TYPE_CHECKING:
    from holdfast.jobs._engine import JobEngine


class Wait(Struct, frozen=True):
    """What a step waits for: answers, a time, or someone's decision about a step inside it."""

    asks: tuple[Ask, ...] = ()
    until_us: int | None = None
    held: str = ""
    """why someone must decide; empty if nobody must"""
    since_us: int | None = None
    """since when, if that was before it began to wait"""

    def is_due(self, now_us: int) -> bool:
        """Whether the time that it waits for has come."""
        return self.until_us is not None and self.until_us <= now_us


class Request(Struct, frozen=True, eq=False):
    """Something asked of a job."""

    id: str
    kind: str
    step: str = ""
    reason: str = ""
    by: str = ""
    ask: str = ""
    values: dict[str, Any] = {}


class Outside(Protocol):
    """Who asked for a job: told what was acted on, and what its steps wait for."""

    async def settle(self, request: Request) -> None: ...
    async def show(self, asks: tuple[Ask, ...]) -> None: ...


class Parked(Struct, frozen=True):
    """A flow inside a step that was put down while its job goes on."""

    run_id: str
    progress: Progress
    worked_us: int = 0


class Shared:
    """What a whole job shares, the flows inside it included."""

    def __init__(
        self, engine: JobEngine, outside: Outside, job_id: str, project: str, secrets: tuple[str, ...]
    ) -> None:
        self.engine = engine
        self.settle, self.show = outside.settle, outside.show
        self.job_id = job_id
        self._project = project
        self.secrets = secrets
        """Values that are shown and stored nowhere."""
        self.answers: dict[str, Mapping[str, Any]] = {}
        """What someone answered, by the id of the ask."""
        self.open_asks: dict[str, Ask] = {}
        """What steps inside steps wait for while others go on."""
        self.asked_before: tuple[Ask, ...] = ()
        """What it was said to wait for when it was taken up, as far as that is not known to be over."""
        self.paused = False
        self.resumed = False
        """Whether someone lets go on what a rule held back inside a step."""
        self.parked: dict[str, Parked] = {}
        self.kept: dict[str, Kept] = {}
        """What runs of the job hold while it is paused, by run."""
        self.passed: list[tuple[str, Request]] = []
        """Steps inside steps that are to run again, by their path, until whoever runs them has heard of it."""
        self.recalled: dict[str, dict[str, tuple[str, Progress]]] = {}
        """Flows that a step in flight ran before and goes on with, by its execution and their item."""
        self.done: dict[str, Any] = {}
        """Outputs of flows inside steps that are not over, by the call that started them."""
        self.knocks = 0
        """How often someone has knocked."""
        self._loop = asyncio.get_running_loop()
        self._knock: asyncio.Future[None] | None = None

    def is_passed(self, path: str) -> bool:
        """Whether a step below a path is to run again."""
        return any(wanted.startswith(f"{path}/") for wanted, _ in self.passed)

    @cached_property
    def workspace(self) -> Path:
        """The directory that its steps work in, made for the first that does."""
        place = self.engine.workspace(self.job_id)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place

    @property
    def project(self) -> str:
        """The folder of the project, as the job was told when it was submitted."""
        return self._project or str(self.engine.home.parent)

    @cached_property
    def environment(self) -> dict[str, str]:
        """What the job's processes find in their environment, besides what each is told: as it was when the first one began."""
        return dict(os.environ)

    def forget_asked(self, path: str) -> None:
        """A step is over, and so is what it asked before."""
        self.asked_before = tuple(ask for ask in self.asked_before if not f"{ask.step}/".startswith(f"{path}/"))

    def frees(self, wait: Wait) -> bool:
        """Whether what someone had to decide is decided, or one of the answers has come."""
        is_decided = bool(wait.held) and self.resumed and not self.paused
        return is_decided or any(ask.id in self.answers for ask in wait.asks)

    def knock(self) -> None:
        """Something came from outside: whoever waits looks again. From any thread."""
        self.knocks += 1
        self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        if self._knock is not None and not self._knock.done():
            self._knock.set_result(None)
        self._knock = None

    def knocked(self, heard: int | None = None) -> asyncio.Future[None]:
        """Done at the next knock; done already if `knocks` is not any more what it was when whoever waits last looked around."""
        if heard is not None and heard != self.knocks:
            missed = self._loop.create_future()
            missed.set_result(None)
            return missed
        if self._knock is None or self._knock.done():
            self._knock = self._loop.create_future()
        return self._knock


class Scope:
    """One flow of a job: the job's own, or one inside a step."""

    def __init__(
        self,
        shared: Shared,
        flow: FlowFile,
        variables: Mapping[str, Any],
        meter: JobMeter,
        path: tuple[str, ...] = (),
    ) -> None:
        self.shared = shared
        self.flow = flow
        self.variables = variables
        self.meter = meter
        self.path = path
        """The names of the steps around it."""
        self.handles: dict[str, dict[str, Any]] = {}
        """The conversations of agents: `session:NAME` and `step:NAME`, each with its id, its agent and how many turns it had."""
        self.live_sessions: dict[str, Any] = {}
        """Those that are open, by id."""

    @property
    def engine(self) -> JobEngine:
        return self.shared.engine

    def step_path(self, step: str) -> str:
        return "/".join((*self.path, step))

    # -- conversations ---------------------------------------------------------------------------------------------

    def keeps_session(self, step: StepSpec) -> bool:
        """Whether a step's conversation may go on after it."""
        return step.session is not None or any(other.fork_from == step.name for other in self.flow.steps)

    def session_of(self, step: StepSpec, attempt: int) -> dict[str, Any] | None:
        """The conversation that a step goes on with; None to begin one."""
        known = self.handles.get(f"session:{step.session}") if step.session is not None else None
        most = step.max_continuous_attempts
        return None if known is not None and most is not None and known.get("turns", 0) >= most else known

    def remember_session(self, step: StepSpec, handle: dict[str, Any], session: Any = None) -> None:
        """A step has spoken in a conversation, now or before the job was taken up again."""
        if step.session is not None:
            before = self.handles.get(f"session:{step.session}", {})
            turns = before.get("turns", 0) + 1 if before.get("id") == handle["id"] else 1
            self.handles[f"session:{step.session}"] = {**handle, "turns": turns}
        self.handles[f"step:{step.name}"] = handle
        if session is not None and self.keeps_session(step):
            self.live_sessions[handle["id"]] = session
