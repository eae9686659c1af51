"""`holdfast checkpoint fork` and `resume`: going on with a recorded run, with the class that the user names."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from holdfast.agents import Agent, Crew
from holdfast.checkpoints import CheckpointConfig, Found, find, fork_checkpoint, restore
from holdfast.cli._checkpoint_data import mark_data, program_of
from holdfast.cli._checkpoint_edits import Edits
from holdfast.cli._outcome import Outcome
from holdfast.cli._terminal import printable, shorten, width
from holdfast.errors import AnswerPendingError, GraphChangedError, HoldfastError, RunFailedError, UsageError
from holdfast.flow import Flow, Pending
from holdfast.human import ConsoleProvider
from holdfast.ids import new_id
from holdfast.ports import HumanRequest, JournalStore, RunInfo
from holdfast.serde import to_plain

FlowClass = type[Flow[Any]]
ENTITIES: dict[str, type[Crew] | type[Agent]] = {"crew": Crew, "agent": Agent}
EXIT_CODES = {"failed": 1, "cancelled": 4, "waiting": 5, "paused": 5}


def fork_only(store: JournalStore, checkpoint: str, branch: str, edits: Edits, flow: str | None) -> Outcome:
    """Start a branch; nothing runs. With a class, that must be the one the run was recorded with."""
    found = asyncio.run(find(store, checkpoint))
    if flow is not None:
        _check_graph(load_flow(flow), found.run)
    mark = asyncio.run(_fork(store, found, branch, edits))
    program = flow or program_of(found.run)
    lines = [
        f"branch {printable(branch)} starts at {mark.seq - 1} of run {printable(mark.root_run_id)}: checkpoint {mark.id}",
        f"go on with it: holdfast checkpoint resume {mark.id} --flow {printable(program)}",
    ]
    return Outcome(mark_data(mark), lines)


async def _fork(store: JournalStore, found: Found, branch: str, edits: Edits) -> Any:
    state = edits.apply((await restore(store, found.id)).state)
    return await fork_checkpoint(store, found, branch=branch, state=state, now_us=time.time_ns() // 1000, ids=new_id)


def fork_and_run(store: JournalStore, checkpoint: str, branch: str, edits: Edits, flow: str | None) -> Outcome:
    """Start a branch and run it to its end."""
    found = asyncio.run(find(store, checkpoint))
    cls = load_flow(_named(flow, found.run))
    state = edits.apply(asyncio.run(restore(store, found.id)).state)
    forked = _made(lambda: cls.fork(found.id, checkpoint=CheckpointConfig(store), branch=branch, state=state))
    return _run(store, found, forked.kickoff)


def resume_run(store: JournalStore, checkpoint: str, flow: str | None) -> Outcome:
    """Go on from a checkpoint to the run's end."""
    found = asyncio.run(find(store, checkpoint))
    if (kind := ENTITIES.get(found.run.kind)) is not None:
        return _run(store, found, _entity(kind, store, found, flow).kickoff)
    cls = load_flow(_named(flow, found.run))
    made = _made(lambda: cls(checkpoint=CheckpointConfig(store)))
    return _run(store, found, lambda: made.kickoff(from_checkpoint=found.id))


def _entity(kind: type[Crew] | type[Agent], store: JournalStore, found: Found, module: str | None) -> Crew | Agent:
    """The crew or agent of a run, made again from what was stored with it; its tools and functions are in a module."""
    if module is not None:
        _import(module.partition(":")[0])
    made = kind.from_checkpoint(found.id, checkpoint=CheckpointConfig(store))
    if isinstance(made, Crew):
        made.human = PatientConsole()
    return made


def _made(make: Callable[[], Flow[Any]]) -> Flow[Any]:
    try:
        flow = make()
    except TypeError as error:
        raise UsageError(f"this flow cannot be made without arguments ({error}); go on with it from Python") from error
    if isinstance(flow.human, ConsoleProvider):
        flow.human = PatientConsole()
    return flow


class PatientConsole(ConsoleProvider):
    """Asks whoever sits at the terminal, or the pipe; once that has ended, the run waits for its answer."""

    def request(self, request: HumanRequest) -> str:
        try:
            return super().request(request)
        except UsageError as error:
            raise AnswerPendingError from error


def _run(store: JournalStore, found: Found, kickoff: Callable[[], Any]) -> Outcome:
    """Run to the end, and tell what became of it."""
    try:
        result = kickoff()
    except HoldfastError:
        raise
    except Exception as error:  # whatever the flow's own code raised
        raise RunFailedError(f"the run failed: {type(error).__name__}: {error}") from error
    info = asyncio.run(store.run(found.run.root_run_id))
    status = info.status if info is not None else "completed"
    data = {"run_id": found.run.root_run_id, "status": status, "result": None}
    told = f"run {printable(found.run.root_run_id)} {printable(status)}"
    if isinstance(result, Pending):
        questions = [request.message for request in result.requests]
        lines = [told, *(f"it asks: {printable(question)}" for question in questions)]
        return Outcome(data | {"questions": questions}, lines, EXIT_CODES.get(status, 0))
    data["result"] = to_plain(result)
    return Outcome(data, [told, shorten(data["result"], max(width(), 200))], EXIT_CODES.get(status, 0))


def _named(flow: str | None, run: RunInfo) -> str:
    if flow is not None:
        return flow
    program = printable(program_of(run))
    hint = f"it was recorded with --flow {program}"
    if program.startswith("MODULE:"):
        hint = f"it was recorded by a script: --flow {program}, MODULE being the script without .py"
    raise UsageError(f"say which class is to go on with the run; {hint}")


def _import(module_name: str) -> Any:
    """A module of the user's. Raises UsageError for whatever it raises."""
    if os.getcwd() not in sys.path:  # as `python -m` would have it
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(f"--flow {module_name}: {type(error).__name__}: {error}") from error


def load_flow(named: str) -> FlowClass:
    """The flow class that the user names as `module:Class`; nothing else is imported. Raises UsageError if it is none."""
    module_name, colon, qualname = named.partition(":")
    if not (module_name and colon and qualname):
        raise UsageError(f"--flow {named!r}: write MODULE:CLASS, such as shop.flows:Order")
    try:
        found: Any = _import(module_name)
        for part in qualname.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise UsageError(f"--flow {named}: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Flow)):
        raise UsageError(f"--flow {named}: this is not a Flow class")
    return found


def _check_graph(cls: FlowClass, run: RunInfo) -> None:
    graph = cls.graph()
    if run.fingerprint != graph.fingerprint:
        raise GraphChangedError(
            f"{graph.name} is not what run {run.root_run_id} was recorded with; leave --flow out to fork"
        )
