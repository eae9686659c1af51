"""Starting a run whose frames are read while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.errors import UsageError
from holdfast.runs import Run
from holdfast.streaming._buffers import OwnerBuffer
from holdfast.streaming._channel import RunChannel
from holdfast.streaming._stream import RunStream


def start_here(
    runtime: Any, body: Callable[..., Any], *, ended: Callable[[], None] = lambda: None, **options: Any
) -> RunStream:
    """Start a run on the running loop and stream it. Takes what `Runtime.start` takes.

    `ended` is called when nothing of the run is left, in whatever thread that is.
    """
    run: Run = runtime.start(body, **options)
    run.ending.done.add_done_callback(lambda _: ended())
    buffer = OwnerBuffer()
    RunChannel(run).join(buffer)  # before its first turn of the loop, so nothing is missed
    run.outlet.crowded = buffer.crowded
    return RunStream(buffer, run)


def start_apart(runtime: Any, body: Callable[..., Any], **options: Any) -> RunStream:
    """Start a run on the runtime's own loop and stream it: for plain code. It belongs to the run that this code is in.

    Raises UsageError inside an inline handler of that run: nothing could be streamed before the handler returns.
    """
    if runtime.current_run() is not None and runtime.event_bus.is_delivering():
        raise UsageError(
            "a handler cannot stream a run inside the one whose events it handles: they wait until it returns; "
            "register it with background=True, or kick off without a stream"
        )
    if runtime.loop_thread.is_current():
        return start_here(runtime, body, **options)

    async def start() -> RunStream:
        return start_here(runtime, body, **options)

    stream: RunStream = runtime.loop_thread.submit(start()).result()  # in a copy of this context
    return stream
