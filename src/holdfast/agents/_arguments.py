"""What agents, tasks and crews are made with, in words where it is not meant so."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from holdfast.errors import UsageError
from holdfast.tools import BaseTool

_EVENTS = "what it does is told as events: kickoff(stream=True), or holdfast.event_bus.on(…)"
_MEMORY = "there is no memory and no knowledge; say what it should know in a task, or give it a tool"
ELSEWHERE = {
    "verbose": _EVENTS,
    "step_callback": _EVENTS,
    "before_kickoff_callbacks": _EVENTS,
    "after_kickoff_callbacks": _EVENTS,
    "output_log_file": _EVENTS,
    "memory": _MEMORY,
    "knowledge_sources": _MEMORY,
    "embedder": _MEMORY,
    "max_rpm": "cap the requests to a provider with limits=RequestLimits({…})",
    "max_retry_limit": "transient errors of a provider are tried again by the model",
    "max_retries": "write guardrail_max_retries=…",
    "reasoning": "write settings=ModelSettings(…)",
    "config": "write its fields, or load it with crew_from_yaml(…)",
}
"""What other frameworks call something, and what does it here."""


def known_arguments(kind: type[BaseModel], given: Any) -> Any:
    """The arguments, if the kind has them all. Raises UsageError with what to write instead."""
    if isinstance(given, Mapping) and kind.model_config.get("extra") == "forbid":
        for name in given:
            if name not in kind.model_fields:
                raise UsageError(f"{kind.__name__} has no {name!r}{_instead(kind, name)}")
    return given


def _instead(kind: type[BaseModel], name: str) -> str:
    if name in ELSEWHERE:
        return f": {ELSEWHERE[name]}"
    near = difflib.get_close_matches(name, kind.model_fields, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(kind.model_fields)}"


def only_tools(given: Any) -> Any:
    """The tools, if they are some. Raises UsageError with how a function is made one."""
    for item in given if isinstance(given, list | tuple) else ():
        if callable(item) and not isinstance(item, BaseTool):
            name = getattr(item, "__name__", repr(item))
            how = (
                f"{name}()"
                if isinstance(item, type)
                else f"write @tool above {name}, and say in a docstring what it does"
            )
            raise UsageError(f"{name} is no tool yet: {how}")
    return given
