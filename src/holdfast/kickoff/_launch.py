"""From a plan to a run: open the journal if there is one, start the run, and let go of what could not start."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.errors import RunFailedError
from holdfast.kickoff._kickoff import Kickoff
from holdfast.kickoff._opening import Opening, Plan, open_inside, open_journal, open_recorded, waited_for
from holdfast.streaming import RunStream, start_apart, start_here

if TYPE_CHECKING:
    from holdfast.kickoff._front import Front


def launch(front: Front, runtime: Any, plan: Plan) -> Any:
    """Run it as planned, from plain code."""
    opening = _opened_inside(front, runtime)
    if opening is None and (opener := _opener(front, runtime, plan)) is not None:
        opening = waited_for(runtime, opener)
    kickoff = Kickoff(front, plan, opening)
    if kickoff.is_over:
        return kickoff.recall()
    try:
        return runtime.run(kickoff.run_blocking, **_options(front, opening))
    except RunFailedError as error:
        raise _cause(error) from _cause(error).__cause__
    finally:
        if (left := _left_open(opening)) is not None:
            waited_for(runtime, left.log.close())


async def alaunch(front: Front, runtime: Any, plan: Plan) -> Any:
    """`launch` for coroutines."""
    opening = _opened_inside(front, runtime)
    if opening is None and (opener := _opener(front, runtime, plan)) is not None:
        opening = await opener
    kickoff = Kickoff(front, plan, opening)
    if kickoff.is_over:
        return kickoff.recall()
    body = kickoff.run_async if front.is_async else kickoff.run_blocking  # one thread from end to end
    try:
        return await runtime.arun(body, **_options(front, opening))
    except RunFailedError as error:
        raise _cause(error) from _cause(error).__cause__
    finally:
        if (left := _left_open(opening)) is not None:
            await left.log.close()


def launch_stream(front: Front, runtime: Any, plan: Plan) -> RunStream:
    """Start it as planned on the runtime's own loop, and stream it to plain code."""
    opening = _opened_inside(front, runtime)
    if opening is None and (opener := _opener(front, runtime, plan)) is not None:
        opening = waited_for(runtime, opener)
    try:
        return _stream(start_apart, front, runtime, plan, opening)
    except BaseException:
        if (left := _left_open(opening)) is not None:
            waited_for(runtime, left.log.close())
        raise


async def alaunch_stream(front: Front, runtime: Any, plan: Plan) -> RunStream:
    """Start it as planned on the running loop, and stream it."""
    opening = _opened_inside(front, runtime)
    if opening is None and (opener := _opener(front, runtime, plan)) is not None:
        opening = await opener
    try:
        return _stream(start_here, front, runtime, plan, opening)
    except BaseException:
        if (left := _left_open(opening)) is not None:
            await left.log.close()
        raise


def _stream(
    begin: Callable[..., RunStream], front: Front, runtime: Any, plan: Plan, opening: Opening | None
) -> RunStream:
    kickoff = Kickoff(front, plan, opening)
    if kickoff.is_over:
        return RunStream.over(kickoff.recall())

    def ended() -> None:
        if (left := _left_open(opening)) is not None:  # its end could not be stored
            runtime.loop_thread.submit(left.log.close())

    body = kickoff.run_async if front.is_async else kickoff.run_blocking
    return begin(runtime, body, ended=ended, **_options(front, opening))


def _opener(front: Front, runtime: Any, plan: Plan) -> Coroutine[Any, Any, Opening] | None:
    """What opens the journal of a run that is at the top of its tree, if it has one."""
    if (config := plan.config or front.checkpoint) is not None:
        return open_journal(front, config, runtime, plan)
    if (runtime.event_bus.is_recording or front.may_ask) and runtime.current_run() is None:
        return open_recorded(front, runtime, plan)
    return None


def _opened_inside(front: Front, runtime: Any) -> Opening | None:
    """What a kickoff inside a run that is written down begins with, whatever its own settings say."""
    parent = None if front.is_apart else runtime.current_run()
    return open_inside(parent, runtime) if parent is not None else None


def _left_open(opening: Opening | None) -> Opening | None:
    """The opening of a run that could not even start, and so has not let go of its journal."""
    return opening if opening is not None and not opening.is_inner and not opening.log.is_closed else None


def _options(front: Front, opening: Opening | None) -> dict[str, Any]:
    """How the runtime is to start the run."""
    options: dict[str, Any] = {"name": front.name, "entity": front.entity}
    if opening is None:
        return options
    options |= {"resume": opening.ref, "run_id": opening.run_id}
    return options if opening.is_inner else options | {"journal": opening.log}


def _cause(error: RunFailedError) -> BaseException:
    return error.__cause__ or error
