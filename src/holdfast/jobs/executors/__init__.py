"""What a step can do: one module for each kind of executor."""

from __future__ import annotations

from holdfast.jobs._calls import Execute
from holdfast.jobs.executors._external import run_external
from holdfast.jobs.executors._for_each import run_for_each
from holdfast.jobs.executors._llm import run_llm
from holdfast.jobs.executors._poll import run_poll
from holdfast.jobs.executors._python import run_python
from holdfast.jobs.executors._script import run_script
from holdfast.jobs.executors._subflow import run_subflow

EXECUTORS: dict[str, Execute] = {
    "external": run_external,
    "flow": run_subflow,
    "for_each": run_for_each,
    "llm": run_llm,
    "poll": run_poll,
    "python": run_python,
    "script": run_script,
}

__all__ = ["EXECUTORS"]
