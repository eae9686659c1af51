"""Recording in run scope: only the run that asked, only while it lives; and resuming under the same id."""

from __future__ import annotations

import asyncio

import pytest
from tests.runs.support import hear

from holdfast import BaseEvent, Run, Runtime, RuntimeState
from holdfast.runs import RunEntity, RunRef, RunStatus


class PingEvent(BaseEvent):
    """Something happened."""


async def test_s0_2_a_recording_run_has_a_state_and_a_plain_one_beside_it_has_none(runtime: Runtime) -> None:
    together = asyncio.Barrier(2)
    states: dict[str, RuntimeState | None] = {}
    shown: dict[str, bool] = {}

    async def body(run: Run) -> None:
        @run.on(PingEvent)
        def note(source: object, event: PingEvent, state: RuntimeState | None) -> None:
            shown[run.name] = state is run.runtime_state and state is not None

        await together.wait()
        run.emit(PingEvent())
        states[run.name] = run.runtime_state
        await together.wait()

    await asyncio.gather(runtime.arun(body, name="recorded", record=True), runtime.arun(body, name="plain"))
    recorded = states["recorded"]
    assert states["plain"] is None
    assert shown == {"recorded": True, "plain": False}
    assert recorded is not None
    assert {node.event.run_id for node in recorded.event_record.all_nodes()} == {recorded.root[0].entity_id}
    assert [entity.entity_type for entity in recorded.root] == ["run"]
    assert runtime.event_bus.runtime_state is None


async def test_what_nobody_hears_of_a_plain_run_is_wanted_and_recorded_of_one_that_records(runtime: Runtime) -> None:
    states: list[RuntimeState | None] = []
    wanted: list[bool] = []

    def body(run: Run) -> None:
        states.append(run.runtime_state)
        wanted.append(runtime.event_bus.wants(PingEvent))

    await runtime.arun(body)
    await runtime.arun(body, record=True)
    [plain, recorded] = states
    assert wanted == [False, True]
    assert plain is None
    assert recorded is not None
    assert [node.event.type for node in recorded.event_record.all_nodes()] == ["run_started", "run_completed"]


@pytest.mark.parametrize("driver", ["loop", "thread"])
def test_s0_7_the_record_is_gone_when_its_run_ends(runtime: Runtime, driver: str) -> None:
    runs: list[Run] = []

    def body(run: Run) -> int:
        run.emit(PingEvent())
        runs.append(run)
        assert run.runtime_state is not None
        return len(run.runtime_state.event_record)

    async def abody(run: Run) -> int:
        return body(run)

    assert runtime.run(body if driver == "thread" else abody, record=True) == 2
    assert runs[0].runtime_state is None


async def test_a_recording_run_records_the_runs_inside_it(runtime: Runtime) -> None:
    async def child(run: Run) -> None:
        run.emit(PingEvent())

    async def parent(run: Run) -> tuple[int, int]:
        await runtime.arun(child, entity=RunEntity("an-entity", "child"))
        assert run.runtime_state is not None
        return len(run.runtime_state.event_record), len(run.runtime_state.root)

    assert await runtime.arun(parent, record=True) == (4, 2)


async def test_a_recording_child_is_in_its_recording_parents_record_too(runtime: Runtime) -> None:
    # regression: the child's own state hid its events from the record of the tree it is in
    async def child(run: Run) -> str:
        run.emit(PingEvent())
        assert run.runtime_state is not None
        return run.id

    async def parent(run: Run) -> bool:
        child_id = await runtime.arun(child, record=True)
        assert run.runtime_state is not None
        return child_id in {node.event.run_id for node in run.runtime_state.event_record.all_nodes()}

    assert await runtime.arun(parent, record=True)


async def test_a_resumed_run_keeps_its_id_and_goes_on_with_its_numbers(runtime: Runtime) -> None:
    heard = hear(runtime)

    async def breaks(run: Run) -> None:
        run.emit(PingEvent())
        raise ValueError("no")

    async def goes_well(run: Run) -> tuple[str, int]:
        run.emit(PingEvent())
        return run.id, run.incarnation

    failed = runtime.start(breaks)
    await failed.ended()
    ref = failed.ref
    assert ref == RunRef(failed.id, RunStatus.FAILED, 1, 3)
    assert await runtime.arun(goes_well, resume=ref) == (failed.id, 2)
    assert [e.emission_sequence for e in heard] == [1, 2, 3, 4, 5, 6]
    assert [getattr(e, "incarnation", None) for e in heard if e.type == "run_started"] == [1, 2]


def test_a_run_driven_by_a_thread_can_be_resumed_too(runtime: Runtime) -> None:
    ref = RunRef("some-id", RunStatus.FAILED, 4, 10)
    heard = hear(runtime)
    assert runtime.run(lambda run: (run.id, run.incarnation), resume=ref) == ("some-id", 5)
    assert [e.emission_sequence for e in heard] == [11, 12]
