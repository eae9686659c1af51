"""`isolated_runtime`: one test, one clean runtime, and everything as before afterwards."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.runs.support import hear, run_script

from holdfast import BaseEvent, Run, bind, current_run_id, default_runtime
from holdfast.testing import isolated_runtime


class PingEvent(BaseEvent):
    """Something happened."""


def test_s0_6_within_the_block_the_default_runtime_is_as_new() -> None:
    with isolated_runtime():
        outer = hear(default_runtime(), PingEvent)
        default_runtime().event_bus.enable_recording()
        default_runtime().event_bus.emit(None, PingEvent())
        before = default_runtime().event_bus.registrations(), default_runtime().event_bus.runtime_state
        with isolated_runtime() as runtime:
            bus = runtime.event_bus
            assert runtime is default_runtime()
            assert bus.registrations() == []
            assert bus.runtime_state is None
            assert bus.is_recording is False
            assert bus.statistics().outside_runs == 0
            inner = hear(runtime, PingEvent)
            bus.enable_recording()
            bus.emit(None, PingEvent())
            assert len(inner) == 1
        assert (bus.registrations(), bus.runtime_state) == before
        assert default_runtime().event_bus.is_recording
        assert bus.statistics().outside_runs == 1
        assert len(outer) == 1


def test_s0_6_everything_is_restored_when_the_block_raises() -> None:
    before = default_runtime().event_bus.registrations()

    def block() -> None:
        with isolated_runtime() as runtime:
            hear(runtime, PingEvent)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        block()
    assert default_runtime().event_bus.registrations() == before


def test_s0_6_the_block_is_outside_any_run_wherever_it_stands() -> None:
    def body(run: Run) -> None:
        with isolated_runtime():
            assert current_run_id() is None
        assert current_run_id() == run.id

    default_runtime().run(body)


async def test_s0_6_a_run_left_alive_is_an_assertion_error_that_names_it() -> None:
    inside = asyncio.Event()

    async def leak(run: Run) -> None:
        run.hold("socket", "a port", lambda: None)
        inside.set()
        await asyncio.Event().wait()

    runs: list[Run] = []

    async def block() -> None:
        with isolated_runtime() as runtime:
            runs.append(runtime.start(leak, name="leaky"))
            await inside.wait()

    with pytest.raises(AssertionError, match="left behind: run leaky, step leaky, socket a port"):
        await block()
    with isolated_runtime():
        pass  # what was there before the block is not its fault
    await runs[0].acancel()


def test_s0_6_background_handlers_of_the_block_end_with_it() -> None:
    with isolated_runtime() as runtime:
        heard = threading.Event()

        @runtime.event_bus.on(PingEvent, background=True)
        def note(source: object, event: BaseEvent) -> None:
            heard.set()

        runtime.event_bus.emit(None, PingEvent())
    assert heard.is_set()
    assert [t.name for t in threading.enumerate() if "note" in t.name] == []


def test_s0_6_a_bus_or_runtime_closed_in_the_block_is_open_after_it() -> None:
    # regression: "everything is as it was before" did not hold for what was shut; in a process of its own
    done = run_script(
        """
    from holdfast import BaseEvent, default_runtime
    from holdfast.testing import isolated_runtime

    with isolated_runtime() as runtime:
        runtime.event_bus.shutdown()
    default_runtime().event_bus.emit(None, BaseEvent())
    with isolated_runtime() as runtime:
        runtime.close()
    print(default_runtime().run(lambda run: 7))
    """
    )
    assert done.stdout == "7\n", done.stderr


def test_a_function_bound_in_the_block_does_not_find_a_run_after_it() -> None:
    with isolated_runtime() as runtime:
        late = runtime.run(lambda run: bind(runtime.current_run))
    assert late() is None
