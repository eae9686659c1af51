"""What is stored with a job: its flow, whole, so that it runs as it was submitted, whatever becomes of the file."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import StorageError
from holdfast.flowfiles import AgentCall, Executor, FlowFile, ForEach, SubFlow, fit_secret, kind_of, secret_variables


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
    """What `$job.NAME` is: what was given, else the default; a sensitive one comes from the process that runs the job.

    Raises FlowInputError, which does not show it, for a secret of another type than its variable's.
    """
    values, secrets, missing = dict(given), [], []
    for variable in flow.variables:
        if variable.sensitive:
            found = secret(variable.name) if variable.name not in given else None
            if found is not None:
                values[variable.name] = fit_secret(variable, found)
                secrets += [found] if found else []
            elif variable.name not in values and variable.required and variable.default is UNSET:
                missing.append(variable.name)
        if variable.name not in values and variable.default is not UNSET:
            values[variable.name] = variable.default
    return Variables(values, tuple(secrets), tuple(missing))


def secrets_inside(flow: FlowFile, secret: Callable[[str], str | None]) -> Variables:
    """The secrets of flows inside a flow's steps, at any depth, that those steps do not give them."""
    secrets: dict[str, None] = {}
    missing: dict[str, None] = {}
    for step in flow.steps:
        executor = step.executor
        if not isinstance(executor, SubFlow | ForEach):
            continue
        given: dict[str, Any] = {one.name: None for one in step.inputs}
        if isinstance(executor, ForEach):
            given[executor.item_name] = None
        for found in (variables_of(executor.flow, given, secret), secrets_inside(executor.flow, secret)):
            secrets |= dict.fromkeys(found.secrets)
            missing |= dict.fromkeys(found.missing)
    return Variables({}, tuple(secrets), tuple(missing))


def secret_from_environment(name: str) -> str | None:
    """What `HOLDFAST_VAR_NAME`, or its alias for existing flows, says."""
    return next((os.environ[known] for known in secret_variables(name) if known in os.environ), None)
