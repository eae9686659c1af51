"""`JobEngine`: runs jobs. What the service's queue hands out goes in here; how each stands comes out."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec
from msgspec.structs import replace

import holdfast.acp
import holdfast.models
from holdfast.checkpoints import CheckpointConfig, Journalling, Restored, RunLog, Source, restore
from holdfast.clock import check_seconds
from holdfast.errors import JobFailedError, RunUnrecordedError
from holdfast.events.families.job import JobFailedEvent
from holdfast.home import find_home, make_home, store_path
from holdfast.jobs._body import Beginning, JobBody
from holdfast.jobs._cache import ResultCache
from holdfast.jobs._calls import Execute, Registry
from holdfast.jobs._compile import compile_flow
from holdfast.jobs._definition import (
    Definition,
    Variables,
    read_definition,
    secret_from_environment,
    secrets_inside,
    variables_of,
)
from holdfast.jobs._grace import GRACE_SECONDS, Grace, Kept, let_go
from holdfast.jobs._listing import list_steps
from holdfast.jobs._logs import JobLogs
from holdfast.jobs._masking import as_stored
from holdfast.jobs._meter import JobMeter
from holdfast.jobs._requests import Inbox
from holdfast.jobs._scheduler import outputs_of
from holdfast.jobs._scope import Scope, Shared
from holdfast.jobs._worked import worked_us
from holdfast.jobs.executors import EXECUTORS
from holdfast.ports import Job, JobControl, JobOutcome, JobStatus, Lease, StepInfo, Usage
from holdfast.resources import Keeper
from holdfast.runs import End, Run, RunEntity, RunRef, RunStatus
from holdfast.stores import SqliteLedger

if TYPE_CHECKING:
    from holdfast.acp import AgentManager
    from holdfast.models import Model

MakeLease: TypeAlias = Callable[[Run, dict[str, Any]], Awaitable[Lease]]
"""Makes something for a run to hold, from a step's options. The run gives it back."""
OUTPUT_CAP = 5 * 1024 * 1024
PEEK_SECONDS = 0.5
"""How long it may take until it is known that someone wants a job that is paused to go on."""
_PUT_DOWN = {RunStatus.PAUSED: PEEK_SECONDS, RunStatus.WAITING: 0.05}
"""The same for a job that was put down; one that waits may have been woken by the clock alone."""
_TAKEN_UP = {RunStatus.FAILED: {"retry", "rerun"}, RunStatus.COMPLETED: {"rerun"}, RunStatus.CANCELLED: set[str]()}
"""What takes up a job that has ended."""


class JobEngine:
    """Runs jobs of flow files, many at once on one loop. Close it: `async with JobEngine(runtime) as engine`.

    `home` is where workspaces and cached results are kept, else the project's own. `models` finds a model by its name. `executors`
    adds to those there are. `secret` supplies what sensitive variables are. `agents` starts agent programs. `resources` makes
    what steps ask to hold. A paused job goes on holding its agents for `pause_grace` seconds.
    """

    def __init__(
        self,
        runtime: Any,
        *,
        home: Path | None = None,
        executors: Mapping[str, Execute] | None = None,
        models: Callable[[str], Model] | None = None,
        default_model: str = "",
        secret: Callable[[str], str | None] = secret_from_environment,
        agents: AgentManager | None = None,
        resources: Mapping[str, MakeLease] | None = None,
        output_cap: int = OUTPUT_CAP,
        pause_grace: float = GRACE_SECONDS,
    ) -> None:
        check_seconds(pause_grace=pause_grace)
        self.runtime = runtime
        self.registry = Registry({**EXECUTORS, **(executors or {})})
        self.models: Callable[[str], Model] = models or _model_named
        self.default_model = default_model or os.environ.get("HOLDFAST_MODEL", "")
        self.default_agent = os.environ.get("HOLDFAST_AGENT", "")
        self._agents = agents
        self.resources = dict(resources or {})
        """Who makes what steps ask to hold (`resources`), by kind."""
        self.output_cap = output_cap
        self.jobs_at_work = 0
        self._pause_grace = pause_grace
        self.secret = secret
        self._home = home

    @cached_property
    def home(self) -> Path:
        return self._home or find_home() or make_home()

    @cached_property
    def keeper(self) -> Keeper:
        """Starts the processes of steps."""
        return Keeper()

    @cached_property
    def agents(self) -> AgentManager:
        """Starts agent programs: what it was given, else one of its own, whose ledger is in the project's store."""
        if self._agents is not None:
            return self._agents
        manager = holdfast.acp.AgentManager(self._ledger)
        self.runtime.register(manager)
        return manager

    @cached_property
    def grace(self) -> Grace:
        return Grace(self.runtime.store, self.runtime.clock, self._pause_grace)

    @cached_property
    def _ledger(self) -> SqliteLedger:
        return SqliteLedger(store_path(self.home))

    @cached_property
    def cache(self) -> ResultCache:
        return ResultCache(self.home / "cache")

    @cached_property
    def _logs(self) -> JobLogs:
        return JobLogs(self.runtime.event_bus)

    def workspace(self, job_id: str) -> Path:
        """The directory that a job's steps work in, once one of them needs it."""
        return self.home / "jobs" / job_id / "workspace"

    # -- the runner ------------------------------------------------------------------------------------------------

    async def run(self, job: Job, control: JobControl) -> JobOutcome:
        """Run a claimed job, or go on with it, until it ends, waits or is paused; then hold nothing of it."""
        definition = read_definition(job.definition)
        variables = variables_of(definition.flow, msgspec.json.decode(job.inputs), self.secret)
        inside = secrets_inside(definition.flow, self.secret)
        variables = replace(
            variables, secrets=variables.secrets + inside.secrets, missing=variables.missing + inside.missing
        )
        inbox = Inbox(control)
        try:
            if variables.missing and "cancel" not in await inbox.peek():  # to be cancelled it needs none
                return _needs_secrets(variables, job, inbox.unsettled)
            return await self._go_on(job, definition, variables, inbox)
        finally:
            await inbox.close()

    async def _go_on(self, job: Job, definition: Definition, variables: Variables, inbox: Inbox) -> JobOutcome:
        """Open the journal of a job and run it, with what is still held for it."""
        outcome: JobOutcome | None = None
        kept = await self.grace.take(job.id)
        self.jobs_at_work += 1
        try:
            opened = await self._open(job, definition, inbox)
            if isinstance(opened, JobOutcome):
                return opened
            outcome = await self._run(job, definition, variables, inbox, opened, kept)
            return outcome
        finally:
            self.jobs_at_work -= 1
            if outcome is not None and outcome.status is JobStatus.PAUSED:
                self.grace.keep(job.id, kept)
            elif kept:
                await asyncio.shield(let_go(kept))

    async def _open(self, job: Job, definition: Definition, inbox: Inbox) -> Opened | JobOutcome:
        """The journal of a job, new or known; how it ended, if it has and nobody wants more of it."""
        graph = compile_flow(definition.flow)
        store, made_by = self.runtime.store, f"flow:{definition.flow.name}"
        journalling = self._journalling
        if job.runs == 1 or await store.run(job.id) is None:  # one that is claimed for the first time has no journal
            await inbox.peek()  # whoever cancels it before it begins must be heard before it does
            return Opened(await journalling.begin(job.id, graph, made_by))
        restored = await restore(store, job.id, graph)
        status = RunStatus(restored.info.status)
        if status.is_terminal and not await inbox.peek() & _TAKEN_UP[status]:
            return await self._recalled(restored, status)
        await inbox.peek(_PUT_DOWN.get(status, 0.0))
        is_timed = definition.flow.limits.max_duration_minutes is not None
        worked = await worked_us(store, job.id, restored.branch, job.id) if is_timed else 0
        if status is RunStatus.COMPLETED:  # what it did then stays as it is: it goes on beside that
            log, ref = await journalling.fork(restored, graph, made_by, "")
        else:
            log, ref = await journalling.resume(restored, graph, made_by)
        # nothing is awaited from here until it runs: cut off in between, the run would stay held and in nobody's hands
        return Opened(log, ref, restored if restored.is_begun else None, worked)

    @cached_property
    def _journalling(self) -> Journalling:
        runtime, store = self.runtime, self.runtime.store
        bus = runtime.event_bus
        config = CheckpointConfig(store, on_events=("step_completed",), on_change="adopt")
        return Journalling(
            config,
            Source(store),
            runtime.clock,
            runtime.new_id,
            runtime.loop_thread,
            lambda event_type, payload: bus.announce(self, event_type, payload),
            bus.wants,
            bus.listeners,
            kind="job",
        )

    async def _run(
        self,
        job: Job,
        definition: Definition,
        variables: Variables,
        inbox: Inbox,
        opened: Opened,
        kept: dict[str, Kept],
    ) -> JobOutcome:
        flow = definition.flow
        shared = Shared(self, inbox, job.id, definition.project, variables.secrets)
        shared.kept, shared.asked_before = kept, job.asks
        used = opened.restored.fold.root.usage if opened.restored is not None else Usage()
        meter = JobMeter(f"job {job.id}", flow.limits, used=used, is_job=True)
        opened.log.secrets = as_stored(variables.secrets)
        body = JobBody(Scope(shared, flow, variables.values, meter), opened.beginning())
        try:
            run = self.runtime.start(
                body.run,
                name=flow.name,
                entity=RunEntity(job.id, flow.name, "job"),
                resume=opened.ref,
                run_id=job.id,
                journal=opened.log,
            )
            with self._logs.passed_on(job.id, inbox.control, variables.secrets):
                inbox.begin(run, body)
                end = await _until_over(run)
        finally:
            await opened.log.close()  # with an end that could not be stored the hold was not given up
        if (problem := run.ending.problem) is not None:
            said = f"its journal could not be written ({problem.__cause__}); retry it to go on from what is recorded"
            raise RunUnrecordedError(said) from problem
        kept_back = await inbox.settle_rest(end, body)
        return _outcome(end, body, kept_back)

    async def _recalled(self, restored: Restored, status: RunStatus) -> JobOutcome:
        """How a job ended before, as its journal says."""
        root = restored.fold.root
        if status is RunStatus.COMPLETED:
            outputs = outputs_of(root.graph, root.standing, root.results)
            return JobOutcome(JobStatus.COMPLETED, outputs=msgspec.json.encode(outputs))
        if status is RunStatus.CANCELLED:
            return JobOutcome(JobStatus.CANCELLED, "it was cancelled before")
        reason = ""
        async for row in self.runtime.store.read(restored.info.root_run_id, branch=restored.branch):
            if row.type == JobFailedEvent.type and row.run_id == restored.info.root_run_id:
                told = msgspec.json.decode(row.payload)
                reason = _reason(
                    told.get("error", ""), told.get("reason", ""), told.get("step", ""), told.get("rule", "")
                )
        return JobOutcome(JobStatus.FAILED, reason or "it failed before")

    async def steps(self, job: Job) -> list[StepInfo]:
        """The steps of a job, running or not, in the order they first started; those that never did at the end."""
        return await list_steps(self.runtime.store, job, read_definition(job.definition).flow)

    async def forget(self, job_id: str) -> None:
        """Delete everything that is kept of an ended job. One that is unknown is fine."""
        store = self.runtime.store
        if await store.run(job_id) is not None:
            await store.delete(job_id, now_us=self.runtime.clock.time_ns() // 1000)
        await asyncio.to_thread(shutil.rmtree, self.workspace(job_id).parent, ignore_errors=True)

    # -- its own end -----------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Start nothing more, and end the processes that are left. Twice is fine."""
        if "grace" in self.__dict__:
            await self.grace.aclose()
        self._logs.close()
        if self._agents is None and "agents" in self.__dict__:
            await self.agents.release_all()
            await self._ledger.aclose()
        if "keeper" in self.__dict__:
            await self.keeper.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _model_named(name: str) -> Model:
    """A model by its name; what reaches the providers is imported with the first."""
    return holdfast.models.resolve_model(name)


class Opened(msgspec.Struct, frozen=True, eq=False):
    """The journal of a job, and how far it says the job had come."""

    log: RunLog
    ref: RunRef | None = None
    restored: Restored | None = None
    worked_us: int = 0

    def beginning(self) -> Beginning:
        if self.restored is None:
            return Beginning(self.log)
        return Beginning(
            self.log,
            self.restored.fold.root,
            checkpoint=self.restored.info.root_run_id,
            branch=self.log.session.branch,
            worked_us=self.worked_us,
        )


async def _until_over(run: Run) -> End:
    """How a run ended. Cancelling this call is a departure: it returns when nothing of the run is left, then raises."""
    try:
        end = await run.ended()
    except asyncio.CancelledError:
        run.depart("its worker leaves")
        while not run.ending.done.done():
            try:
                await run.ended()
            except asyncio.CancelledError:
                continue
        raise
    if end.departed:  # the runtime is closing
        raise asyncio.CancelledError
    return end


def _outcome(end: End, body: JobBody, unheard: tuple[str, ...]) -> JobOutcome:
    if end.status is RunStatus.COMPLETED:
        return JobOutcome(JobStatus.COMPLETED, outputs=msgspec.json.encode(end.result))
    if end.status is RunStatus.CANCELLED:
        return JobOutcome(JobStatus.CANCELLED, end.reason)
    if end.status in (RunStatus.WAITING, RunStatus.PAUSED) and body.parked is not None:
        wait = body.parked
        if end.status is RunStatus.PAUSED:
            return JobOutcome(JobStatus.PAUSED, wait.held, asks=wait.asks, unheard=unheard)
        reason = (
            f"waits for an answer to {', '.join(ask.step for ask in wait.asks)}" if wait.asks else "waits for a time"
        )
        return JobOutcome(JobStatus.WAITING, reason, asks=wait.asks, wake_us=wait.until_us)
    error = end.error
    if isinstance(error, JobFailedError):
        return JobOutcome(JobStatus.FAILED, _reason(str(error), error.reason, error.step, error.rule))
    return JobOutcome(JobStatus.FAILED, f"{type(error).__name__}: {error}" if error is not None else end.reason)


def _reason(error: str, reason: str, step: str, rule: str) -> str:
    """What failed a job, at which step, by which rule, in one line."""
    where = [f"step {step}"] if step else []
    where += [f"rule {rule}"] if rule else []
    said = f"{reason} ({', '.join(where)})" if where else reason
    error = error.removeprefix(f"{reason} at step {step} by rule {rule}").removeprefix(": ")  # said already
    if not error:
        return said
    return f"{said}: {error}" if said and error != said else error or said


def _needs_secrets(variables: Variables, job: Job, unheard: tuple[str, ...]) -> JobOutcome:
    names = ", ".join(f"HOLDFAST_VAR_{name.upper()}" for name in variables.missing)
    reason = f"needs_secret: set {names} for the worker, then resume the job"
    return JobOutcome(JobStatus.WAITING, reason, asks=job.asks, unheard=unheard)
