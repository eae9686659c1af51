"""What a step can do: one module for each kind of executor."""

from __future__ import annotations

from holdfast.jobs._calls import Execute
from holdfast.jobs.executors._python import run_python
from holdfast.jobs.executors._script import run_script

EXECUTORS: dict[str, Execute] = {
    "python": run_python,
    "script": run_script,
}

__all__ = ["EXECUTORS"]
