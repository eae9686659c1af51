"""Measure crewAI's flows; run in crewAI's own environment as `crewai_flows.py ROW …`, prints one JSON object.

Its events are suppressed, which is its fastest way. Its checkpoints are not measured: on a flow of 120 steps they break the process
("dictionary changed size during iteration"), on one of 25 none is stored by the time `kickoff()` returns.
"""

import json
import os
import sys
import time
from typing import Literal

# Set before the import, so that a run by hand is as quiet as one by the harness.
os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_DISABLE_TRACKING="true",
    CREWAI_DISABLE_VERSION_CHECK="true",
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
)

from crewai.flow.flow import Flow, listen, or_, router, start
from crewai.flow.persistence import SQLiteFlowPersistence, persist
from pydantic import BaseModel


class Chain(Flow):
    @start()
    def one(self) -> int:
        return 1

    @listen(one)
    def two(self, given: int) -> int:
        return given + 1

    @listen(two)
    def three(self, given: int) -> int:
        return given + 1


class Count(BaseModel):
    id: str = ""
    n: int = 0
    limit: int = 0


@persist(SQLiteFlowPersistence("crewai.db"))
class Loop(Flow[Count]):
    max_method_calls: int = 10_000

    @start()
    def begin(self) -> None: ...

    @router(or_(begin, "again"))
    def work(self) -> Literal["again", "done"]:
        self.state.n += 1
        return "again" if self.state.n < self.state.limit else "done"


def measure_plain() -> dict[str, float]:
    def milliseconds(times: int) -> float:
        started = time.perf_counter()
        for _ in range(times):
            Chain(suppress_flow_events=True).kickoff()
        return (time.perf_counter() - started) / times * 1000

    milliseconds(10)
    return {"ms": min(milliseconds(30) for _ in range(5))}


def milliseconds_a_step(flow: Loop, steps: int) -> float:
    started = time.perf_counter()
    flow.kickoff(inputs={"limit": steps})
    taken = time.perf_counter() - started
    if flow.state.n != steps:
        raise SystemExit(f"crewAI stopped at step {flow.state.n} of {steps}")
    return taken / steps * 1000


def measure_persist(steps: str) -> dict[str, float]:
    """The best of five runs, after one that is thrown away."""
    taken = [milliseconds_a_step(Loop(suppress_flow_events=True), int(steps)) for _ in range(6)]
    return {"ms": min(taken[1:])}


if __name__ == "__main__":
    row, *arguments = sys.argv[1:]
    print(json.dumps(globals()[f"measure_{row}"](*arguments)))
