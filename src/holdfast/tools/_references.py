"""Functions and classes by their place in the program. Nothing is imported because a file names it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from holdfast.errors import NotStorableError, StorageError

HINT = "define it at the top level of a module, so that another process can find it by name"


def dump_reference(target: Any, path: str = "$") -> str:
    """`module:name` of a function or class at the top level of a module.

    Raises NotStorableError, naming `path`, for a lambda, a local function, a bound method, or what the name does not
    lead back to.
    """
    inner = getattr(target, "func", target)  # a tool made by @tool stands under its function's name
    module, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise NotStorableError(path, type(target).__name__, HINT)
    if "<lambda>" in name or "<locals>" in name:
        raise NotStorableError(path, "lambda" if name.endswith("<lambda>") else f"local function {name}", HINT)
    if _is_foreign(module):
        raise NotStorableError(
            path, f"function of the standard library ({module}.{name})", "wrap it in one of your own"
        )
    found = _find(module, name)
    if getattr(found, "func", found) is not inner:
        raise NotStorableError(path, f"{type(target).__name__} {name}", f"{module}.{name} is something else; {HINT}")
    return f"{module}:{name}"


def load_reference(reference: str) -> Any:
    """What `dump_reference` named, if this program has it. Raises StorageError that says which module to import."""
    module, _, name = reference.partition(":")
    if _is_foreign(module):
        raise StorageError(f"{reference} is part of the standard library, which is never restored from a file")
    found = _find(module, name)
    if found is None:
        raise StorageError(f"{reference} is not here; import {module} before restoring, or see whether it was renamed")
    return found


def load_function(reference: str) -> Callable[..., Any]:
    """A function by its reference. Raises StorageError when something else stands there."""
    found = load_reference(reference)
    if not callable(found) or isinstance(found, type):
        raise StorageError(f"{reference} is no function but a {type(found).__name__}")
    return getattr(found, "func", found)  # type: ignore[no-any-return]


def _find(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _is_foreign(module: str) -> bool:
    """The standard library is imported anyway, and full of functions that no file may name."""
    return module != "__main__" and module.partition(".")[0] in sys.stdlib_module_names
