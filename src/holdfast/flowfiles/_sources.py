"""Where inputs come from: `step.field.path`, `$job.name`, and the mappings around them."""

from __future__ import annotations

import re
from typing import Any

from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._model import Input, JobSource, Source, StepSource
from holdfast.flowfiles._parts import Position
from holdfast.flowfiles._shapes import Fields

_JOB = re.compile(r"\$job\.([A-Za-z_]\w*)((?:\.[\w-]+)*)", re.ASCII)
_STEP = re.compile(r"([A-Za-z_][\w-]*)\.([\w-]+(?:\.[\w-]+)*)", re.ASCII)
_REFUSED = re.compile(
    r"PATH|HOME|LD_.*|PYTHON(?:PATH|HOME|STARTUP)|BASH_ENV|ENV|IFS|(?:HOLDFAST|STEPWISE|JOB_ENGINE)_.*"
)


def read_source(text: str, at: Position, report: Report) -> Source | None:
    """What a text refers to; None when it refers to nothing, and `report` was told."""
    if job := _JOB.fullmatch(text):
        return JobSource(job[1], _path(job[2]))
    if step := _STEP.fullmatch(text):
        return StepSource(step[1], _path("." + step[2]))
    shown = text if len(text) < 60 else text[:57] + "…"
    report.error(
        "bad-source", at, f"{shown!r} names no value", fix="write step.field, or $job.name for a variable of the flow"
    )
    return None


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(dotted.split(".")[1:])


def read_inputs(listed: list[tuple[Position, str, Any]], report: Report) -> tuple[Input, ...]:
    """The inputs of a step. One that cannot be is reported, and kept without sources so that its name is known."""
    for at, name, _ in listed:
        if _REFUSED.fullmatch(name):
            message = f"an input called {name} would change the process itself"
            report.error("refused-input", at, message, fix="give it another name")
    return tuple(_input(name, at, value, report) for at, name, value in listed)


def _input(name: str, at: Position, value: Any, report: Report) -> Input:
    texts = [(at, value)] if isinstance(value, str) else _texts(name, value, report)
    found = (read_source(text, place, report) for place, text in texts)
    optional = isinstance(value, Fields) and value.get("optional", False)
    return Input(name=name, at=at, sources=tuple(filter(None, found)), optional=optional)


def _texts(name: str, fields: Fields, report: Report) -> list[tuple[Position, str]]:
    """The sources a mapping lists."""
    if ("from" in fields) == ("any_of" in fields):
        report.error(
            "bad-input", fields.at, f"the input {name} needs either from or any_of", fix="add from: step.field"
        )
        return []
    if "from" in fields:
        return [(fields.place("from"), fields.get("from"))] if fields.get("from") else []
    listed: list[tuple[Position, str]] = fields.get("any_of", [])
    if len(listed) < 2 and "any_of" in fields.values:
        report.error("bad-input", fields.place("any_of"), "any_of needs two sources or more", fix="use from: for one")
        return []
    return listed
