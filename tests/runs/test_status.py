"""The status table: every edge is taken by a real run, and nothing else can be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.runs.support import hear

from holdfast import Run, RunStatus, Runtime
from holdfast.errors import AlreadyFinishedError, IllegalTransitionError, RunCancelledError, RunFailedError
from holdfast.runs import MEANINGS, TRANSITIONS, End
from holdfast.runs._finish import finish

Edge = tuple[str, str]
TARGETS = {
    "run_started": "running",
    "run_waiting": "waiting",
    "run_paused": "paused",
    "run_resumed": "running",
    "run_completed": "completed",
    "run_failed": "failed",
    "run_cancelled": "cancelled",
}


async def quick(run: Run) -> str:
    return "done"


async def breaks(run: Run) -> None:
    raise ValueError("no")


async def endless(run: Run) -> None:
    await asyncio.Event().wait()


async def wait_outside(run: Run, waits: asyncio.Event, come: asyncio.Event) -> str:
    async with run.waiting("an answer"):
        waits.set()
        await come.wait()
    return "done"


async def begun(runtime: Runtime, body: Callable[..., Any]) -> Run:
    """A run that is in its body."""
    inside = asyncio.Event()

    async def entered(run: Run) -> Any:
        inside.set()
        return await body(run)

    run = runtime.start(entered)
    await inside.wait()
    return run


async def waiting(runtime: Runtime) -> tuple[Run, asyncio.Event]:
    waits, come = asyncio.Event(), asyncio.Event()
    run = runtime.start(wait_outside, waits, come)
    await waits.wait()
    assert run.status is RunStatus.WAITING
    return run, come


async def paused(runtime: Runtime, body: Callable[..., Any]) -> Run:
    run = await begun(runtime, body)
    run.pause("a look")
    assert run.status is RunStatus.PAUSED
    return run


async def complete(runtime: Runtime) -> None:
    assert await runtime.arun(quick) == "done"


async def fail(runtime: Runtime) -> None:
    with pytest.raises(RunFailedError, match="no"):
        await runtime.arun(breaks)


async def cancel_running(runtime: Runtime) -> None:
    run = await begun(runtime, endless)
    await run.acancel("enough")
    with pytest.raises(RunCancelledError, match="enough"):
        await run


async def cancel_created(runtime: Runtime) -> None:
    run = runtime.start(endless)
    assert run.status is RunStatus.CREATED
    await run.acancel("never mind")


async def wait_and_go_on(runtime: Runtime) -> None:
    run, come = await waiting(runtime)
    come.set()
    assert await run == "done"


async def end_waiting(runtime: Runtime, end: End) -> None:
    run, _ = await waiting(runtime)
    assert run.request_end(end)
    assert (await run.ended()).status is end.status


async def pause_and_resume(runtime: Runtime) -> None:
    run = await paused(runtime, endless)
    run.resume("seen")
    assert run.status.value == RunStatus.RUNNING
    await run.acancel()


async def end_paused(runtime: Runtime, ending: str) -> None:
    go = asyncio.Event()

    async def body(run: Run) -> str:
        await go.wait()
        if ending == "failed":
            raise ValueError("no")
        return "done"

    run = await paused(runtime, body)
    if ending == "cancelled":
        run.cancel()
    go.set()
    assert (await run.ended()).status == ending


async def resume_failed(runtime: Runtime) -> None:
    run = runtime.start(breaks)
    await run.ended()
    again = runtime.start(quick, resume=run.ref)
    assert again.status is RunStatus.FAILED
    assert await again == "done"


SCENARIOS: dict[Edge, Callable[[Runtime], Awaitable[None]]] = {
    ("created", "running"): complete,
    ("created", "cancelled"): cancel_created,
    ("running", "waiting"): wait_and_go_on,
    ("waiting", "running"): wait_and_go_on,
    ("running", "paused"): pause_and_resume,
    ("paused", "running"): pause_and_resume,
    ("running", "completed"): complete,
    ("running", "failed"): fail,
    ("running", "cancelled"): cancel_running,
    ("waiting", "completed"): lambda runtime: end_waiting(runtime, End(RunStatus.COMPLETED, result=1)),
    ("waiting", "failed"): lambda runtime: end_waiting(runtime, End(RunStatus.FAILED, "no answer")),
    ("waiting", "cancelled"): lambda runtime: end_waiting(runtime, End(RunStatus.CANCELLED, "enough")),
    ("paused", "completed"): lambda runtime: end_paused(runtime, "completed"),
    ("paused", "failed"): lambda runtime: end_paused(runtime, "failed"),
    ("paused", "cancelled"): lambda runtime: end_paused(runtime, "cancelled"),
    ("failed", "running"): resume_failed,
}


@pytest.mark.parametrize("edge", SCENARIOS, ids="-".join)
async def test_a_real_run_takes_the_edge(runtime: Runtime, edge: Edge) -> None:
    heard = hear(runtime)
    await SCENARIOS[edge](runtime)
    taken = [(str(e.from_status), TARGETS[e.type]) for e in heard if hasattr(e, "from_status")]
    assert edge in taken
    assert set(taken) <= {(t.source.value, t.target.value) for t in TRANSITIONS}


def test_every_edge_of_the_table_has_a_scenario_and_every_scenario_an_edge() -> None:
    assert set(SCENARIOS) == {(t.source.value, t.target.value) for t in TRANSITIONS}


def test_every_status_has_a_meaning_and_every_edge_an_occasion() -> None:
    assert set(MEANINGS) == set(RunStatus)
    assert all(text.endswith(".") for text in MEANINGS.values())
    assert all(t.when for t in TRANSITIONS)


def test_a_status_is_terminal_when_a_live_run_cannot_leave_it() -> None:
    left = {t.source for t in TRANSITIONS if t.target is not RunStatus.RUNNING or t.source is not RunStatus.FAILED}
    assert {status for status in RunStatus if status.is_terminal} == set(RunStatus) - left


@pytest.mark.parametrize(
    ("prepare", "call", "allowed"),
    [
        pytest.param("running", "resume", "cancelled, completed, failed, paused, waiting", id="resume-a-running-run"),
        pytest.param("paused", "pause", "cancelled, completed, failed, running", id="pause-twice"),
        pytest.param("created", "pause", "cancelled, running", id="pause-before-it-began"),
        pytest.param("cancelled", "pause", "nothing: start a new run", id="pause-after-the-end"),
        pytest.param("cancelled", "resume", "nothing: start a new run", id="resume-after-the-end"),
    ],
)
async def test_an_illegal_transition_names_the_legal_ones(
    runtime: Runtime, prepare: str, call: str, allowed: str
) -> None:
    run = runtime.start(endless) if prepare == "created" else await begun(runtime, endless)
    if prepare == "paused":
        run.pause()
    elif prepare == "cancelled":
        await run.acancel()
    before, heard = run.status, hear(runtime)
    with pytest.raises(IllegalTransitionError, match=f"is {prepare} and cannot become .*; from here: {allowed}"):
        getattr(run, call)()
    assert run.status is before
    assert heard == []
    await run.acancel()


async def test_a_second_finish_is_refused_and_says_what_to_call(runtime: Runtime) -> None:
    run = runtime.start(quick)
    await run
    with pytest.raises(AlreadyFinishedError, match=r"request_end\(\) or cancel\(\)"):
        await finish(run)
    assert run.status is RunStatus.COMPLETED


async def test_a_second_end_is_refused(runtime: Runtime) -> None:
    run = runtime.start(quick)
    await run
    with pytest.raises(AlreadyFinishedError, match="is completed already; a run ends once"):
        run.stage_end(End(RunStatus.FAILED))


@pytest.mark.parametrize("ending", [RunStatus.COMPLETED, RunStatus.CANCELLED])
async def test_only_a_failed_run_can_be_resumed(runtime: Runtime, ending: RunStatus) -> None:
    # regression: the supervisor died on the illegal edge, so that whoever awaited the run waited for ever
    run = runtime.start(quick)
    if ending is RunStatus.CANCELLED:
        run.cancel()
    await run.ended()
    with pytest.raises(IllegalTransitionError, match=f"is {ending} and cannot become running"):
        runtime.start(quick, resume=run.ref)
    with pytest.raises(IllegalTransitionError, match=f"is {ending} and cannot become running"):
        await asyncio.to_thread(runtime.run, id, resume=run.ref)
    assert runtime.inventory() == []


@pytest.mark.parametrize("ending", [RunStatus.COMPLETED, RunStatus.FAILED])
async def test_an_end_requested_before_the_body_began_still_ends_the_run(runtime: Runtime, ending: RunStatus) -> None:
    # regression: the table has no edge from created to these, and the supervisor died of it
    run = runtime.start(endless)
    run.request_end(End(ending, "at once", result=1))
    async with asyncio.timeout(5):
        assert (await run.ended()).status is ending
    assert run.status is ending


async def test_a_resumed_run_cancelled_before_it_began_ends(runtime: Runtime) -> None:
    # regression: there is no edge from failed to cancelled, and the supervisor died of it
    failed = runtime.start(breaks)
    await failed.ended()
    again = runtime.start(endless, resume=failed.ref)
    again.cancel("changed my mind")
    async with asyncio.timeout(5):
        await again.ended()
    assert again.status.is_terminal
