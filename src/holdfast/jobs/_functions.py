"""Functions that flow files name."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import JobStepError
from holdfast.flowfiles import Executor, PythonCall

FRESH_SECONDS = 0.1
"""How long it may take until a module that was changed is used: its file is not looked at for each of many jobs."""
_KEPT = 256
_found: dict[tuple[PythonCall, str], tuple[float, Callable[..., Any]]] = {}


def find_function(executor: Executor, directory: str) -> Callable[..., Any]:
    """The function that a step calls; a module beside the flow file comes first. Raises JobStepError if it is not there."""
    assert isinstance(executor, PythonCall)
    now = time.monotonic()
    until, function = _found.get((executor, directory), (0.0, None))
    if function is None or until < now:
        function = _find(executor, directory)
        if len(_found) >= _KEPT:
            _found.clear()
        _found[executor, directory] = (now + FRESH_SECONDS, function)
    return function


def _find(executor: PythonCall, directory: str) -> Callable[..., Any]:
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
    written = hashlib.sha256(f"{beside} {beside.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    known = f"holdfast_flow_{written}"
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
