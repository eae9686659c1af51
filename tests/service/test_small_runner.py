"""The runner of these tests keeps every promise of the port, so what they show of the service holds for a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.service.small_runner import COMPLETE, QUESTION, SmallRunner, definition, gate

from holdfast.ports import JobRunner
from holdfast.testing.runner_conformance import JobRunnerConformance, Program


class TestSmallRunner(JobRunnerConformance):
    @asynccontextmanager
    async def make_runner(self) -> AsyncIterator[JobRunner]:
        yield SmallRunner(self.folder / "runs")

    def definition(self, program: Program) -> bytes:
        return {
            "complete": COMPLETE,
            "fail": definition({"name": "bad", "do": "fail", "message": "boom"}),
            "flaky": definition(
                {"name": "first", "do": "line", "path": str(self.folder / "first")},
                {
                    "name": "second",
                    "do": "need_file",
                    "path": str(self.folder / "ready"),
                    "outputs": {"value": 7},
                },
            ),
            "ask": QUESTION,
            "gate": gate(self.folder),
        }[program]
