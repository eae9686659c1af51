"""Tools: what a model may call, how it is called, and how it is stored."""

from __future__ import annotations

from holdfast.tools._base import BaseTool, FunctionTool
from holdfast.tools._calling import Toolbox, ToolHost, call_tool
from holdfast.tools._classes import dump_class, load_class
from holdfast.tools._decorator import tool
from holdfast.tools._references import dump_reference, load_function, load_reference
from holdfast.tools._results import Outcome, ToolResult
from holdfast.tools._stored import dump_tool, dump_value, load_tool, load_value
from holdfast.tools._usage import ToolCache

__all__ = [
    "BaseTool",
    "FunctionTool",
    "Outcome",
    "ToolCache",
    "ToolHost",
    "ToolResult",
    "Toolbox",
    "call_tool",
    "dump_class",
    "dump_reference",
    "dump_tool",
    "dump_value",
    "load_class",
    "load_function",
    "load_reference",
    "load_tool",
    "load_value",
    "tool",
]
