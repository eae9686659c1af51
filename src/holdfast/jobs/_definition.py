"""What is stored with a job: its flow, whole, so that it runs as it was submitted, whatever becomes of the file."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import StorageError
from holdfast.flowfiles import AgentCall, Executor, FlowFile, ForEach, SubFlow, kind_of


class Definition(Struct, frozen=True):
    """What a job is made of."""

    flow: FlowFile
    project: str = ""
    """the directory it was submitted from"""


def define(flow: FlowFile, project: str | os.PathLike[str] = "") -> bytes:
    """A flow as `Job.definition` holds it."""
    return msgspec.json.encode(Definition(flow, os.fspath(project)))


@functools.lru_cache(32)  # jobs of one flow share it, and the graph that is made of it
def read_definition(stored: bytes) -> Definition:
    """What `define` wrote. Raises StorageError if it is something else."""
    try:
        return msgspec.json.decode(stored, type=Definition)
    except msgspec.DecodeError as error:
        raise StorageError(f"what is stored of this job is no flow: {error}; submit it again") from error


def uses_of(flow: FlowFile) -> tuple[str, ...]:
    """What a job of a flow takes a place of, as `Job.uses` says it: the flow, its executors, its agents, at any depth."""
    found = {f"flow:{flow.name}": None}
    for executor in _executors(flow):
        found[f"executor:{kind_of(executor)}"] = None
        if isinstance(executor, AgentCall):
            found[f"agent:{executor.agent or 'default'}"] = None
    return tuple(found)


def _executors(flow: FlowFile) -> Iterator[Executor]:
    for step in flow.steps:
        for executor in (step.executor, *((step.fallback.executor,) if step.fallback else ())):
            yield executor
            if isinstance(executor, SubFlow | ForEach):
                yield from _executors(executor.flow)


class Variables(Struct, frozen=True):
    """The values of a flow's variables."""

    values: dict[str, Any]
    secrets: tuple[str, ...] = ()
    """the values that are shown and stored nowhere"""
    missing: tuple[str, ...] = ()
    """sensitive variables that nobody supplies"""


def variables_of(flow: FlowFile, given: Mapping[str, Any], secret: Callable[[str], str | None]) -> Variables:
    """What `$job.NAME` is: what was given, else the default; a sensitive one comes from the process that runs the job."""
    values, secrets, missing = dict(given), [], []
    for variable in flow.variables:
        if variable.sensitive:
            found = secret(variable.name)
            if found is not None:
                values[variable.name] = found
                secrets += [found] if found else []
            elif variable.name not in values and variable.required and variable.default is UNSET:
                missing.append(variable.name)
        if variable.name not in values and variable.default is not UNSET:
            values[variable.name] = variable.default
    return Variables(values, tuple(secrets), tuple(missing))


def secret_from_environment(name: str) -> str | None:
    """What `HOLDFAST_VAR_NAME` says."""
    return os.environ.get(f"HOLDFAST_VAR_{name.upper()}")
