"""Loops that leave and programs that are interrupted: what a run holds is released on the way out."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap

import pytest
from tests.runs.support import NotedJournal, NotedLease, hear, run_script

from holdfast import Run, RunStatus, Runtime
from holdfast.events import StepDisownedEvent


def test_a_loop_that_leaves_cancels_its_runs_and_waits_for_them(runtime: Runtime) -> None:
    notes: list[str] = []
    runs: list[Run] = []

    async def body(run: Run, inside: asyncio.Event) -> None:
        run.own(NotedLease(notes))
        inside.set()
        await asyncio.Event().wait()

    async def main() -> None:
        inside = asyncio.Event()
        runs.append(runtime.start(body, inside, journal=NotedJournal(notes)))
        await inside.wait()

    asyncio.run(main())
    assert notes == ["released it", "committed running"]  # it can be taken up again
    assert runs[0].status is RunStatus.CANCELLED
    assert runtime.inventory() == []


def test_a_loop_that_leaves_before_a_run_had_its_first_turn_ends_it_too(runtime: Runtime) -> None:
    # regression: a supervisor cancelled before its first turn never runs, and its run lived for ever
    runs: list[Run] = []

    async def body(run: Run) -> None:
        raise AssertionError("it never began")

    async def main() -> None:
        runs.append(runtime.start(body))

    asyncio.run(main())
    left = runtime.inventory()
    runtime.close()
    assert left == []
    assert runs[0].status is RunStatus.CANCELLED


def test_a_loop_that_leaves_before_a_step_had_its_first_turn_does_not_wait_for_it(runtime: Runtime) -> None:
    # regression: such a step never said that it was over; the whole grace went by, and then it was given up
    heard = hear(runtime, StepDisownedEvent)

    async def step() -> None:
        raise AssertionError("it never began")

    async def body(run: Run, inside: asyncio.Event) -> None:
        inside.set()
        await asyncio.Event().wait()

    async def main() -> None:
        inside = asyncio.Event()
        run = runtime.start(body, inside)
        await inside.wait()
        run.spawn(step)

    asyncio.run(main())
    assert heard == []


def test_a_loop_that_leaves_waits_for_blocking_steps_and_children(runtime: Runtime) -> None:
    notes: list[str] = []

    def blocking(run: Run, inside: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(inside.set)
        while not run.is_ending:
            pass
        notes.append("blocking step stopped")

    async def child(run: Run) -> None:
        run.own(NotedLease(notes, "of the child"))
        await asyncio.Event().wait()

    async def body(run: Run, inside: asyncio.Event) -> None:
        runtime.start(child)
        run.spawn(blocking, run, inside, asyncio.get_running_loop())
        await asyncio.Event().wait()

    async def main() -> None:
        inside = asyncio.Event()
        runtime.start(body, inside)
        await inside.wait()

    asyncio.run(main())
    assert sorted(notes) == ["blocking step stopped", "released of the child"]
    assert runtime.inventory() == []


HOLD = """
    import asyncio, sys, threading
    from holdfast import Runtime

    runtime = Runtime(grace=2.0)

    def hold(run):
        run.hold("thing", "it", lambda: print("released", flush=True))

    async def forever(run):
        hold(run)
        print("inside", flush=True)
        await asyncio.Event().wait()

    def block(run):
        hold(run)
        print("inside", flush=True)
        threading.Event().wait()

    async def sleepy():
        print("inside", flush=True)
        await asyncio.Event().wait()

    def leave_a_step(run):
        hold(run)
        run.spawn(sleepy)

    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted", [h.name for h in runtime.inventory()], flush=True)
    runtime.close()
"""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("asyncio.run(runtime.arun(forever))", id="arun"),
        pytest.param("runtime.run(forever)", id="run-async-body"),
        pytest.param("runtime.run(block)", id="run-blocking-body"),
        # regression: the body had returned, and the wait for its steps was outside the try
        pytest.param("runtime.run(leave_a_step)", id="run-waiting-for-steps"),
    ],
)
def test_ctrl_c_releases_everything_before_the_program_goes_on(call: str) -> None:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(HOLD).replace("{call}", call)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("released\ninterrupted []\n", "", 0)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("asyncio.run(runtime.arun(body))", id="arun"),
        pytest.param("runtime.run(body)", id="run"),
        # regression: the loop thread died of it, and the run could not be finished on it
        pytest.param("runtime.run(blocking_body)", id="run-blocking-body"),
    ],
)
@pytest.mark.parametrize("step", ["blocking", "awaiting"])
def test_sys_exit_in_a_step_releases_everything_and_ends_the_program(call: str, step: str) -> None:
    done = run_script(
        f"""
    import asyncio, sys
    from holdfast import Runtime

    runtime = Runtime(grace=2.0)

    def blocking():
        sys.exit(3)

    async def awaiting():
        sys.exit(3)

    async def body(run):
        blocking_body(run)
        await asyncio.Event().wait()

    def blocking_body(run):
        run.hold("thing", "it", lambda: print("released"))
        run.spawn({step})

    try:
        {call}
    finally:
        print([h.name for h in runtime.inventory()])
    """,
        timeout=10,
    )
    assert done.stdout == "released\n[]\n", done.stderr
    if "blocking_body" not in call:
        assert done.returncode == 3
