"""A tool call, from a model's words to a result it can read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from holdfast.clock import Clock
from holdfast.errors import AnswerPendingError, UsageError
from holdfast.models import ToolCall, ToolSpec
from holdfast.threads import ThreadPool, done_here
from holdfast.tools._base import BaseTool
from holdfast.tools._results import Outcome, ToolResult, cut, render
from holdfast.tools._usage import ToolCache


def _nobody(name: str, thread: Future[Any]) -> None:
    """Nobody wants to know of a thread that was left behind."""


class ToolHost(Struct, frozen=True):
    """What calls need of whoever makes them: usually a run."""

    threads: ThreadPool
    """Where sync tools work, inside the caller's context."""
    clock: Clock
    cache: ToolCache
    disown: Callable[[str, Future[Any]], None] = _nobody
    """Told of a sync tool that was given up, by time-out or cancel, and whose thread works on."""


class Toolbox:
    """The tools an agent has. Raises UsageError when two have one name."""

    def __init__(self, tools: Iterable[BaseTool] = ()) -> None:
        self._tools: dict[str, BaseTool] = {}
        for tool in tools:
            if self._tools.setdefault(tool.call_name, tool) is not tool:
                raise UsageError(f"two tools are called {tool.call_name}; give one of them another name")

    @property
    def specs(self) -> list[ToolSpec]:
        return [tool.spec for tool in self._tools.values()]

    def get(self, name: str) -> BaseTool | None:
        return self._tools.get(name)

    async def call(self, call: ToolCall, host: ToolHost) -> ToolResult:
        """Make the call a model asked for. Every mistake is a result for the model.

        Raises only what is none: cancellation, and AnswerPendingError if a run inside the tool has to wait.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none at all"
            return _failed(call.name, "unknown", f"there is no tool {call.name!r}; there are: {known}", "")
        return await call_tool(tool, call.arguments, host)


async def call_tool(tool: BaseTool, arguments: str | dict[str, Any], host: ToolHost) -> ToolResult:
    """Check the arguments, look into the cache, count the use, do the work in time, put the output into words."""
    sent: dict[str, Any] = {}
    try:
        sent = read_arguments(arguments)
        checked = tool.validate_arguments(sent)
    except Exception as error:  # a validator of the user's may raise anything
        return _failed(tool.name, "invalid", _why_invalid(error), type(error).__name__, sent)
    if tool.cache and (kept := host.cache.find(tool.name, sent)) is not None:
        return _finished(tool, sent, kept[0], from_cache=True)
    if not (use := tool._usage.take(tool.max_usage_count)):
        told = f"tool {tool.name} may be used {tool.max_usage_count} times and has been; go on without it"
        return _failed(tool.name, "limit", told, "", sent)
    return replace(await _work(tool, sent, checked, host), use=use)


def read_arguments(arguments: str | dict[str, Any]) -> dict[str, Any]:
    """A model's arguments as a dict. Raises ValueError that says what is wrong with them."""
    if isinstance(arguments, dict):
        return arguments
    try:
        read = msgspec.json.decode(arguments.strip() or "{}")
    except msgspec.DecodeError as error:
        raise ValueError(f"the arguments are not valid JSON ({error}); send one JSON object") from error
    if not isinstance(read, dict):
        raise ValueError(f"the arguments are a JSON {type(read).__name__}; send one JSON object")
    return read


async def _work(tool: BaseTool, sent: dict[str, Any], checked: dict[str, Any], host: ToolHost) -> ToolResult:
    try:
        output = await _in_time(tool, checked, host)
        if tool.cache is True or (callable(tool.cache) and tool.cache(sent, output)):
            host.cache.keep(tool.name, sent, output)
        return _finished(tool, sent, output)
    except AnswerPendingError:
        tool._usage.give_back()  # the call is made again when the answer is there
        raise
    except _TooLateError:
        told = f"tool {tool.name} did not return within {tool.timeout:g} s and was given up"
        return _failed(tool.name, "timeout", told, "TimeoutError", sent)
    except Exception as error:
        told = cut(f"tool {tool.name} failed: {type(error).__name__}: {error}", tool.max_result_chars)
        return _failed(tool.name, "error", told, type(error).__name__, sent)


class _TooLateError(Exception):
    """The time was up before the tool was done."""


class _LeftError(Exception):
    """The tool tried to end the program, or its own task; that ends the call alone."""


async def _in_time(tool: BaseTool, checked: dict[str, Any], host: ToolHost) -> Any:
    if not tool.is_async:
        return await _in_thread(tool, checked, host)
    working = asyncio.ensure_future(_awaited(tool, checked))
    try:
        await _first_of(working, tool.timeout, host.clock)
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
    if working.cancelled():
        raise _LeftError("it cancelled itself")
    return working.result()


async def _awaited(tool: BaseTool, checked: dict[str, Any]) -> Any:
    try:
        return await tool.work(**checked)
    except SystemExit as error:
        raise _LeftError(f"it tried to exit the program with {error.code}") from error


def _called(tool: BaseTool, checked: dict[str, Any]) -> Any:
    try:
        return tool.work(**checked)
    except (SystemExit, asyncio.CancelledError) as error:
        raise _LeftError(f"it raised {type(error).__name__}") from error


async def _in_thread(tool: BaseTool, checked: dict[str, Any], host: ToolHost) -> Any:
    thread = host.threads.submit(copy_context(), _called, tool, checked)
    try:
        await _first_of(done_here(thread), tool.timeout, host.clock)
    except BaseException:
        if not thread.done():
            host.disown(tool.name, thread)  # a thread cannot be stopped; its result is refused
        raise
    return thread.result()


async def _first_of(working: asyncio.Future[Any], seconds: float | None, clock: Clock) -> None:
    """Wait for the work, but not longer than that. Raises _TooLateError; leaves the work as it is."""
    if seconds is None:
        await asyncio.wait({working})
        return
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({working, sleeping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()
        await asyncio.wait({sleeping})
    if not working.done():
        raise _TooLateError


def _finished(tool: BaseTool, sent: dict[str, Any], output: Any, *, from_cache: bool = False) -> ToolResult:
    text = render(output, tool.max_result_chars)
    return ToolResult(tool.name, text, "finished", output, sent, from_cache)


def _failed(name: str, outcome: Outcome, told: str, error_type: str, sent: dict[str, Any] | None = None) -> ToolResult:
    return ToolResult(name, told, outcome, None, sent or {}, error=told, error_type=error_type)


def _why_invalid(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    places = [f"{'.'.join(map(str, line['loc'])) or 'arguments'}: {line['msg']}" for line in error.errors()]
    return f"the arguments do not fit: {'; '.join(places)}; call the tool again with arguments that do"
