"""`executor: python`: a function, given the inputs as keyword arguments."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import JobStepError
from holdfast.flowfiles import Executor, PythonCall
from holdfast.jobs._calls import Call
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


def find_function(executor: Executor, directory: str) -> Callable[..., Any]:
    """The function that a step calls; a module beside the flow file comes first. Raises JobStepError if it is not there."""
    assert isinstance(executor, PythonCall)
    try:
        found: Any = _module(executor.module, directory)
        for name in executor.function.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise JobStepError(
            f"cannot find {executor.module}:{executor.function}: {error}; see that it can be imported",
            category="configuration",
        ) from error
    if not callable(found) or inspect.isclass(found):
        raise JobStepError(f"{executor.module}:{executor.function} is no function", category="configuration")
    return found  # type: ignore[no-any-return]


def _module(name: str, directory: str) -> ModuleType:
    beside = Path(directory, *name.split(".")).with_suffix(".py")
    if not directory or not beside.is_file():
        return importlib.import_module(name)
    known = f"holdfast_flow_{abs(hash(str(beside)))}_{name.replace('.', '_')}"
    if known not in sys.modules:  # under a name of its own: two flows may both have a `steps.py`
        spec = importlib.util.spec_from_file_location(known, beside)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[known]
            raise
    return sys.modules[known]
