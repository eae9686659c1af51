"""`executor: python`: a function, given the inputs as keyword arguments."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from typing import Any

from holdfast.jobs._calls import Call
from holdfast.jobs._functions import find_function
from holdfast.threads import done_here


async def run_python(call: Call) -> Any:
    """Call the function: an async one here, any other in a thread, which a time-out leaves behind."""
    function = find_function(call.executor, call.scope.flow.directory)
    if asyncio.iscoroutinefunction(function):
        return await function(**call.inputs)
    thread = call.run.host.threads.submit(copy_context(), partial(function, **call.inputs))
    waiter = done_here(thread)
    try:
        await asyncio.wait({waiter})
    except asyncio.CancelledError:
        if not thread.done():
            call.run.host.disown(call.run.id, call.step.name, thread)
        raise
    return thread.result()
