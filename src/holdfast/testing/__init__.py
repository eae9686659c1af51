"""For tests, yours and ours: a clock that stands still, a runtime, crash points, a model server, a process audit, suites."""

from __future__ import annotations

from holdfast.testing._audit import process_audit
from holdfast.testing._clock import ManualClock
from holdfast.testing._crashes import CrashingStore, CrashPoint, kill_process, refuse_write
from holdfast.testing._isolation import isolated_runtime
from holdfast.testing._model_server import ModelServer
from holdfast.testing._model_server_script import Answer, Cut, Drop, Failure, Gate, Raw, Received, Thinking, ToolUse

__all__ = [
    "Answer",
    "CrashPoint",
    "CrashingStore",
    "Cut",
    "Drop",
    "Failure",
    "Gate",
    "ManualClock",
    "ModelServer",
    "Raw",
    "Received",
    "Thinking",
    "ToolUse",
    "isolated_runtime",
    "kill_process",
    "process_audit",
    "refuse_write",
]
