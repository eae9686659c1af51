"""Holdfast runs agent workflows inside long-lived processes.

It survives crashes, keeps concurrent runs apart, and leaves nothing behind. This module only re-exports, lazily: a name
is imported when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, PlatformError
from holdfast.ports import DefaultRuntime

if sys.platform == "win32":
    raise PlatformError(
        "Holdfast does not run on Windows: it keeps processes by means that only Linux and macOS have. Use WSL."
    )

if TYPE_CHECKING:
    from holdfast.agents import Agent as Agent
    from holdfast.agents import AgentOutput as AgentOutput
    from holdfast.agents import Crew as Crew
    from holdfast.agents import CrewOutput as CrewOutput
    from holdfast.agents import Process as Process
    from holdfast.agents import Task as Task
    from holdfast.agents import TaskOutput as TaskOutput
    from holdfast.checkpoints import CheckpointConfig as CheckpointConfig
    from holdfast.checkpoints import JsonProvider as JsonProvider
    from holdfast.checkpoints import PostgresProvider as PostgresProvider
    from holdfast.checkpoints import SqliteProvider as SqliteProvider
    from holdfast.context import BoundExecutor as BoundExecutor
    from holdfast.context import bind as bind
    from holdfast.context import current_run_id as current_run_id
    from holdfast.context import current_step_key as current_step_key
    from holdfast.context import is_replaying as is_replaying
    from holdfast.context import on_behalf_of as on_behalf_of
    from holdfast.deltas import append_only as append_only
    from holdfast.deltas import sensitive as sensitive
    from holdfast.events import BaseEvent as BaseEvent
    from holdfast.events import BaseEventListener as BaseEventListener
    from holdfast.events import Depends as Depends
    from holdfast.events import EventBus as EventBus
    from holdfast.events import EventRecord as EventRecord
    from holdfast.events import RuntimeState as RuntimeState
    from holdfast.events import UnknownEvent as UnknownEvent
    from holdfast.events import on_signal as on_signal
    from holdfast.events import watch_signals as watch_signals
    from holdfast.flow import Flow as Flow
    from holdfast.flow import FlowState as FlowState
    from holdfast.flow import HumanFeedbackResult as HumanFeedbackResult
    from holdfast.flow import Pending as Pending
    from holdfast.flow import and_ as and_
    from holdfast.flow import each as each
    from holdfast.flow import failed as failed
    from holdfast.flow import gathered as gathered
    from holdfast.flow import human_feedback as human_feedback
    from holdfast.flow import listen as listen
    from holdfast.flow import or_ as or_
    from holdfast.flow import persist as persist
    from holdfast.flow import router as router
    from holdfast.flow import start as start
    from holdfast.graph import StepFailure as StepFailure
    from holdfast.kickoff import Budget as Budget
    from holdfast.models import ScriptedModel as ScriptedModel
    from holdfast.runs import Run as Run
    from holdfast.runs import RunStatus as RunStatus
    from holdfast.runtime import Runtime as Runtime
    from holdfast.runtime import default_runtime as default_runtime
    from holdfast.streaming import Frame as Frame
    from holdfast.streaming import RunStream as RunStream
    from holdfast.tools import BaseTool as BaseTool
    from holdfast.tools import tool as tool

    event_bus: EventBus
    """The bus of the default runtime."""

_WHERE = {
    "Agent": "agents",
    "AgentOutput": "agents",
    "BaseEvent": "events",
    "BaseEventListener": "events",
    "BaseTool": "tools",
    "BoundExecutor": "context",
    "Budget": "kickoff",
    "CheckpointConfig": "checkpoints",
    "Crew": "agents",
    "CrewOutput": "agents",
    "Depends": "events",
    "EventBus": "events",
    "EventRecord": "events",
    "Flow": "flow",
    "FlowState": "flow",
    "Frame": "streaming",
    "HumanFeedbackResult": "flow",
    "JsonProvider": "checkpoints",
    "Pending": "flow",
    "PostgresProvider": "checkpoints",
    "Process": "agents",
    "Run": "runs",
    "RunStatus": "runs",
    "RunStream": "streaming",
    "Runtime": "runtime",
    "RuntimeState": "events",
    "ScriptedModel": "models",
    "SqliteProvider": "checkpoints",
    "StepFailure": "graph",
    "Task": "agents",
    "TaskOutput": "agents",
    "UnknownEvent": "events",
    "and_": "flow",
    "append_only": "deltas",
    "bind": "context",
    "current_run_id": "context",
    "current_step_key": "context",
    "default_runtime": "runtime",
    "each": "flow",
    "failed": "flow",
    "gathered": "flow",
    "human_feedback": "flow",
    "is_replaying": "context",
    "listen": "flow",
    "on_behalf_of": "context",
    "on_signal": "events",
    "or_": "flow",
    "persist": "flow",
    "router": "flow",
    "sensitive": "deltas",
    "start": "flow",
    "tool": "tools",
    "watch_signals": "events",
}

__all__ = ["HoldfastError", "__version__", "event_bus", *sorted(_WHERE)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(f"holdfast.{_WHERE[name]}"), name)
    elif name == "event_bus":
        value = importlib.import_module("holdfast.runtime").default_runtime().event_bus
    elif name == "__version__":
        value = importlib.import_module("importlib.metadata").version("holdfast")
    else:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _find_runtime() -> Any:
    DefaultRuntime.find = importlib.import_module(
        "holdfast.runtime"
    ).current_runtime  # from now on without looking for it
    return DefaultRuntime.get()


DefaultRuntime.find = _find_runtime
