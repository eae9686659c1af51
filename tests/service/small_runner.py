"""A runner small enough to be believed: steps of a list, one after another, each written down in a file when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

from holdfast.ports import Ask, Job, JobControl, JobOutcome, JobRequest, JobStatus, LogLine, StepInfo

S = JobStatus


class SmallRunner:
    """Definitions: `{"steps": [{"name": …, "do": …, …}]}`; `do` is one of the methods `_do_…` below."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def run(self, job: Job, control: JobControl) -> JobOutcome:
        return await SmallRun(self.folder / f"{job.id}.json", job, control).drive()

    async def steps(self, job: Job) -> list[StepInfo]:
        state = read_state(self.folder / f"{job.id}.json")
        known = {"pending", "running", "waiting", "completed", "failed", "cancelled"}
        names = [step["name"] for step in json.loads(job.definition)["steps"]]
        found = {name: state["steps"].get(name, "pending") for name in names}
        assert set(found.values()) <= known
        return [StepInfo(name, status) for name, status in found.items()]

    async def forget(self, job_id: str) -> None:
        (self.folder / f"{job_id}.json").unlink(missing_ok=True)


def read_state(path: Path) -> dict[str, Any]:
    with contextlib.suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {"steps": {}, "outputs": None, "answers": {}, "end": None, "paused": False}


class SmallRun:
    def __init__(self, path: Path, job: Job, control: JobControl) -> None:
        self.path, self.job, self.control = path, job, control
        self.state = read_state(path)
        self.program: list[dict[str, Any]] = json.loads(job.definition)["steps"]
        self.cancelled = ""
        self.heard = asyncio.Event()

    def save(self) -> None:
        aside = self.path.with_suffix(".new")
        aside.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(self.state))
        os.replace(aside, self.path)

    async def drive(self) -> JobOutcome:
        hearing = asyncio.create_task(self._hear())
        try:
            await asyncio.sleep(0)  # what was asked before comes first
            await asyncio.sleep(0)
            return await self._go()
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})

    async def _hear(self) -> None:
        while True:
            request = await self.control.next_request()
            self._act(request, json.loads(request.data))
            self.save()
            await self.control.settle(request)
            self.heard.set()

    def _act(self, request: JobRequest, data: dict[str, Any]) -> None:
        names = [step["name"] for step in self.program]
        steps = self.state["steps"]
        if request.kind == "cancel":
            self.cancelled = data["reason"]
        elif request.kind == "answer":
            self.state["answers"][data["ask"]] = data["values"]
        elif request.kind in ("pause", "resume"):
            self.state["paused"] = request.kind == "pause"
        elif request.kind == "retry":
            self._undo([name for name in names if steps.get(name) == "failed"])
        else:
            self._undo(names[names.index(data["step"]) :])

    def _undo(self, names: list[str]) -> None:
        self.state["end"], self.state["paused"] = None, False
        for name in names:
            self.state["steps"].pop(name, None)

    async def _go(self) -> JobOutcome:
        if self.state["end"]:
            return self._outcome()
        for step in self.program:
            if self.state["steps"].get(step["name"]) == "completed":
                continue
            if outcome := self._stopped():
                return outcome
            if outcome := await self._step(step):
                return outcome
        return self._end(S.COMPLETED, "settled")

    def _stopped(self) -> JobOutcome | None:
        if self.cancelled:
            return self._end(S.CANCELLED, self.cancelled)
        return JobOutcome(S.PAUSED, "paused") if self.state["paused"] else None

    def _end(self, status: JobStatus, reason: str) -> JobOutcome:
        self.state["end"] = [status, reason]
        self.save()
        return self._outcome()

    def _outcome(self) -> JobOutcome:
        status, reason = self.state["end"]
        outputs = json.dumps(self.state["outputs"]).encode() if status == S.COMPLETED else None
        return JobOutcome(S(status), reason, outputs)  # type: ignore[arg-type]

    async def _step(self, step: dict[str, Any]) -> JobOutcome | None:
        name = step["name"]
        self._mark(name, "running")
        self.control.log(LogLine(1, name, "stderr", f"{name} begins"))
        working = asyncio.create_task(getattr(self, f"_do_{step['do']}")(step))
        try:
            while not working.done() and not self.cancelled:
                self.heard.clear()
                hearing = asyncio.create_task(self.heard.wait())
                try:
                    await asyncio.wait({working, hearing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    hearing.cancel()
            if not working.done():
                self._mark(name, "cancelled")
                return self._end(S.CANCELLED, self.cancelled)
            outcome: JobOutcome | None = working.result()
        except asyncio.CancelledError:
            self._mark(name, "pending")
            raise
        except ValueError as error:
            self._mark(name, "failed")
            return self._end(S.FAILED, f"step {name}: {error}")
        finally:
            working.cancel()
            await asyncio.wait({working})
        if outcome is None:
            self._mark(name, "completed")
        return outcome

    def _mark(self, name: str, status: str) -> None:
        self.state["steps"][name] = status
        self.save()

    # -- what a step can do ----------------------------------------------------------------------------------------

    async def _do_output(self, step: dict[str, Any]) -> None:
        self.state["outputs"] = step["outputs"]

    async def _do_fail(self, step: dict[str, Any]) -> None:
        raise ValueError(step["message"])

    async def _do_need_file(self, step: dict[str, Any]) -> None:
        if not is_there(step):
            raise ValueError("not yet")
        self.state["outputs"] = step["outputs"]

    async def _do_line(self, step: dict[str, Any]) -> None:
        add_line(step["path"])
        self.state["outputs"] = step.get("outputs")

    async def _do_await_file(self, step: dict[str, Any]) -> None:
        while True:
            if is_there(step):
                return
            await asyncio.sleep(0.005)

    async def _do_ask(self, step: dict[str, Any]) -> JobOutcome | None:
        ask = Ask(f"{self.job.id}:{step['name']}", step["name"], step.get("message", ""), step["fields"])
        if (values := self.state["answers"].get(ask.id)) is None:
            self._mark(step["name"], "waiting")
            return JobOutcome(S.WAITING, f"waits at {step['name']}", asks=(ask,))
        self.state["outputs"] = values
        return None

    async def _do_poll(self, step: dict[str, Any]) -> JobOutcome | None:
        if is_there(step):
            return None
        self._mark(step["name"], "waiting")
        return JobOutcome(S.WAITING, "polls", wake_us=step["next_us"])

    async def _do_raise(self, step: dict[str, Any]) -> None:
        raise RuntimeError(step["message"])


def is_there(step: dict[str, Any]) -> bool:
    return Path(step["path"]).exists()


def add_line(path: str) -> None:
    with Path(path).open("a") as file:
        file.write("here\n")


def definition(*steps: dict[str, Any]) -> bytes:
    return json.dumps({"steps": steps}).encode()


VALUE = {"name": "value", "do": "output", "outputs": {"value": 7}}
COMPLETE = definition(VALUE)


def gate(folder: Path) -> bytes:
    """A step `one` that ends once there is a file `open`, and a step `two` after it."""
    return definition(
        {"name": "one", "do": "await_file", "path": str(folder / "open")},
        {"name": "two", "do": "line", "path": str(folder / "two"), "outputs": {"value": 7}},
    )


QUESTION = definition({"name": "question", "do": "ask", "fields": {"value": {"type": "number"}}})
