"""Jobs: flow files, run.

How a flow file lands on "one graph, one scheduler, one fold": its steps are driven by data and not by triggers, so `holdfast.graph`
has a second pair of pure functions for graphs that have *wiring* (`graph._dataflow`): what is current, ready, skipped and settled,
loops and their frames. Everything else is shared. A job's `GraphState` is the fold of its step events, live and on resume; the
scheduler is the one of flows, with four places where a job does more (`JobScheduler`): it listens to requests before it decides,
weighs an outcome by its exit rules before it is recorded, is woken by answers and by the clock, and says what a step is given.
The core looks at no value: rules and conditions are evaluated here, by pure functions, and their verdicts travel in the facts.

An executor is a coroutine that takes a `Call` and returns outputs. `JobEngine` implements `ports.JobRunner`.
"""

from __future__ import annotations

from holdfast.jobs._calls import Call, Execute, Registry
from holdfast.jobs._compile import compile_flow
from holdfast.jobs._definition import define, uses_of
from holdfast.jobs._engine import JobEngine

__all__ = ["Call", "Execute", "JobEngine", "Registry", "compile_flow", "define", "uses_of"]
