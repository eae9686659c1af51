"""`flow:`: another flow as a step. The step's inputs are its variables, what it gives are the step's outputs."""

from __future__ import annotations

from typing import Any

from holdfast.flowfiles import SubFlow
from holdfast.jobs._calls import Call
from holdfast.jobs.executors._children import forget_inside, run_inside


async def run_subflow(call: Call) -> Any:
    """The outputs of the flow. Raises JobStepError if it failed."""
    executor = call.executor
    assert isinstance(executor, SubFlow)
    outputs = await run_inside(call, executor.flow, call.inputs)
    forget_inside(call)
    return outputs
