"""`@tool`: a function becomes a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

from pydantic import BaseModel

from holdfast.errors import ToolDefinitionError
from holdfast.tools._base import CacheRule, FunctionTool
from holdfast.tools._signatures import read_docstring


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    name: str = "",
    /,
    *,
    description: str = "",
    args_schema: type[BaseModel] | None = None,
    cache: CacheRule = False,
    max_usage_count: int | None = None,
    timeout: float | None = None,
    max_result_chars: int = 50_000,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | str = "", /, *, description: str = "", **options: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function: `@tool`, `@tool("search")`, `@tool(timeout=10)`.

    Its name is the function's, its description the docstring's, its arguments those of the signature. Raises
    ToolDefinitionError when it says nowhere what it does.
    """
    if callable(function):
        return _make(function, "", description, options)
    name = function
    return lambda decorated: _make(decorated, name, description, options)


def _make(function: Callable[..., Any], name: str, description: str, options: dict[str, Any]) -> FunctionTool:
    called = name or getattr(function, "__name__", "")
    said = description or read_docstring(inspect.getdoc(function) or "")[0]
    if not said:
        raise ToolDefinitionError(f"tool {called} does not say what it does; give it a docstring or a description")
    made = FunctionTool(name=called, description=said, func=function, **options)
    made.__doc__ = function.__doc__
    return made
