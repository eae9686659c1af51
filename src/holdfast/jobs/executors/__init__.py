"""What a step can do: one module for each kind of executor, imported when a step first needs it."""

from __future__ import annotations

EXECUTORS: dict[str, str] = {
    "agent": "holdfast.jobs.executors._agent:run_agent",
    "external": "holdfast.jobs.executors._external:run_external",
    "flow": "holdfast.jobs.executors._subflow:run_subflow",
    "for_each": "holdfast.jobs.executors._for_each:run_for_each",
    "llm": "holdfast.jobs.executors._llm:run_llm",
    "poll": "holdfast.jobs.executors._poll:run_poll",
    "python": "holdfast.jobs.executors._python:run_python",
    "script": "holdfast.jobs.executors._script:run_script",
}

__all__ = ["EXECUTORS"]
