"""Functions that flow files name."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import JobStepError
from holdfast.flowfiles import Executor, PythonCall


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
