"""The engine keeps every promise of the seam: what these tests show with a small runner holds with flow files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast import Runtime
from holdfast.flowfiles import load_flow
from holdfast.jobs import JobEngine, define
from holdfast.ports import JobRunner
from holdfast.stores import SqliteStore
from holdfast.testing.runner_conformance import JobRunnerConformance, Program

FLOWS: dict[Program, str] = {
    "complete": """
steps:
  value:
    outputs: [value]
    run: |
      echo '{"value": 7}'
""",
    "fail": """
steps:
  bad:
    run: |
      echo boom >&2; exit 1
""",
    "flaky": """
steps:
  first:
    outputs: [done]
    run: |
      echo here >> "FOLDER/first"; echo '{"done": true}'
  second:
    inputs: {done: first.done}
    outputs: [value]
    run: |
      [ -e "FOLDER/ready" ] || { echo "not yet" >&2; exit 1; }
      echo '{"value": 7}'
""",
    "ask": """
steps:
  question:
    executor: external
    outputs:
      value: {type: number}
""",
    "gate": """
steps:
  one:
    outputs: [done]
    run: |
      while [ ! -e "FOLDER/open" ]; do sleep 0.01; done
      echo '{"done": true}'
  two:
    inputs: {done: one.done}
    outputs: [value]
    run: |
      echo here >> "FOLDER/two"; echo '{"value": 7}'
""",
}


class TestJobEngine(JobRunnerConformance):
    @asynccontextmanager
    async def make_runner(self) -> AsyncIterator[JobRunner]:
        store = SqliteStore(self.folder / "holdfast.db")
        runtime = Runtime(store=store, grace=2.0)
        engine = JobEngine(runtime, home=self.folder / "home")
        try:
            yield engine
        finally:
            await engine.aclose()
            await runtime.aclose()
            await store.aclose()

    def definition(self, program: Program) -> bytes:
        file = self.folder / f"{program}.flow.yaml"
        file.write_text(FLOWS[program].replace("FOLDER", str(self.folder)))
        return define(load_flow(file), self.folder)
