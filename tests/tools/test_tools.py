"""Tools: what a model is told of them, and what a call comes to."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Any

import pytest
from pydantic import ValidationError
from tests.tools.samples import Point, Search, Typed, add, move

from holdfast.clock import SystemClock
from holdfast.context import Position, at, current_run_id
from holdfast.errors import ToolDefinitionError, UsageError
from holdfast.models import ToolCall
from holdfast.testing import ManualClock
from holdfast.threads import ThreadPool
from holdfast.tools import BaseTool, Toolbox, ToolCache, ToolHost, ToolResult, call_tool, tool


@pytest.fixture
async def host() -> AsyncIterator[ToolHost]:
    threads = ThreadPool("test-tool")
    yield ToolHost(threads, SystemClock(), ToolCache())
    threads.stop()


# -- what a model is told ----------------------------------------------------------------------------------------------


def test_a_functions_arguments_come_from_its_hints_and_docstring() -> None:
    spec = add.spec
    assert (spec.name, spec.description) == ("add", "Adds two numbers.")
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "title": "A", "description": "the first one, which is needed"},
            "b": {"type": "integer", "title": "B", "description": "the second one", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert add(2, 3) == 5


def test_nested_models_lists_and_another_name() -> None:
    spec = move.spec
    assert (spec.name, move.name) == ("Slow_Move", "Slow Move")
    assert spec.parameters["$defs"]["Point"]["properties"]["x"]["type"] == "integer"
    assert spec.parameters["properties"]["to"]["description"] == "where to"
    assert spec.parameters["required"] == ["to"]


def test_a_class_tool_has_the_schema_of_its_run_or_its_own() -> None:
    assert list(Search().spec.parameters["properties"]) == ["question"]
    assert list(Typed().spec.parameters["properties"]) == ["x", "y"]


def test_a_tool_that_cannot_be_called_is_refused_where_it_is_made() -> None:
    with pytest.raises(ToolDefinitionError, match="does not say what it does"):

        @tool
        def silent(a: int) -> int:
            return a

    with pytest.raises(ToolDefinitionError, match=r"\*\*more.* cannot be sent by name"):

        @tool
        def loose(**more: int) -> None:
            """Does."""

    with pytest.raises(ToolDefinitionError, match="tool odd: its arguments have no JSON Schema"):

        @tool
        def odd(thing: threading.Thread) -> None:
            """Takes what no model can send."""

    with pytest.raises(ToolDefinitionError, match="wrap it in a function of your own"):
        tool("make", description="Makes.")(dict)

    class Idle(BaseTool):
        name: str = "idle"
        description: str = "Does nothing."

    with pytest.raises(ToolDefinitionError, match="Idle has no _run"):
        Idle()
    with pytest.raises(ToolDefinitionError, match="needs a name and a description"):
        Search(description=" ")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools are called search"):
        Toolbox([Search(), Search(site="x")])
    shared = Search()
    assert [spec.name for spec in Toolbox([shared, shared, add]).specs] == ["search", "add"]


def test_used_directly_a_tool_checks_and_raises() -> None:
    assert add.run(a="1") == 3
    with pytest.raises(ValidationError):
        add.run(a="x")


# -- calls -------------------------------------------------------------------------------------------------------------


async def test_a_sync_tool_works_in_a_thread_inside_the_callers_context(host: ToolHost) -> None:
    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine")
    mine.set("here")

    @tool
    def where() -> str:
        """Says where it is."""
        return f"{current_run_id()} {mine.get()} {threading.current_thread().name.startswith('test-tool')}"

    with at(Position("run-1")):
        result = await call_tool(where, "{}", host)
    assert result == ToolResult("where", "run-1 here True", output="run-1 here True", use=1)


async def test_an_async_tool_works_on_the_loop_and_data_is_rendered_as_json(host: ToolHost) -> None:
    result = await call_tool(move.model_copy(), '{"to": {"x": 3}, "names": ["a"]}', host)
    assert (result.text, result.outcome) == ('{"x":3,"names":["a"]}', "finished")
    assert result.arguments == {"to": {"x": 3}, "names": ["a"]}
    assert (await call_tool(Typed(), {"x": 2, "y": 5}, host)).output == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"a": ', "not valid JSON"),
        ("[1]", "a JSON list; send one JSON object"),
        ("", "a: Field required"),
        ('{"a": "x"}', "a: Input should be a valid integer"),
        ('{"a": 1, "c": 2}', "c: Extra inputs are not permitted"),
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model_and_not_counted(
    arguments: str, words: str, host: ToolHost
) -> None:
    counted = add.usage_count
    result = await call_tool(add, arguments, host)
    assert (result.outcome, result.is_error) == ("invalid", True)
    assert words in result.text
    assert add.usage_count == counted


async def test_a_tool_that_raises_gives_an_error_result(host: ToolHost) -> None:
    @tool
    def fails() -> None:
        """Fails."""
        raise LookupError("nothing there")

    result = await call_tool(fails, "{}", host)
    assert (result.outcome, result.error_type) == ("error", "LookupError")
    assert result.text == "tool fails failed: LookupError: nothing there"


def leaves() -> None:
    sys.exit(3)


def cancels() -> None:
    raise asyncio.CancelledError


async def leaves_async() -> None:
    sys.exit(3)


async def cancels_async() -> None:
    raise asyncio.CancelledError


def breaks_cache(arguments: dict[str, Any], output: Any) -> bool:
    raise RuntimeError("no cache")


def fine() -> str:
    return "fine"


def mutter() -> object:
    return Unspeakable()


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "bad",
    [
        tool("bad", description="Exits.")(leaves),
        tool("bad", description="Cancels.")(cancels),
        tool("bad", description="Exits.")(leaves_async),
        tool("bad", description="Cancels.")(cancels_async),
        tool("bad", description="Breaks.", cache=breaks_cache)(fine),
        tool("bad", description="Mutters.")(mutter),
    ],
    ids=["exit", "cancel", "async exit", "async cancel", "cache", "words"],
)
async def test_the_worst_a_tool_can_do_is_an_error_result(bad: BaseTool, host: ToolHost) -> None:
    result = await call_tool(bad, "{}", host)
    assert result.outcome == "error"
    assert result.text.startswith("tool bad failed: ")


@pytest.mark.parametrize("arguments", ["[" * 100_000, '{"a": ' * 5_000, "\ud800", "nul", '{"a": 1e999}'])
async def test_the_worst_a_model_can_send_is_an_invalid_call(arguments: str, host: ToolHost) -> None:
    assert (await call_tool(add, arguments, host)).outcome == "invalid"


async def test_an_unknown_tool_is_told_with_those_there_are(host: ToolHost) -> None:
    result = await Toolbox([add, Search()]).call(ToolCall("1", "fly"), host)
    assert (result.outcome, result.text) == ("unknown", "there is no tool 'fly'; there are: add, search")
    assert (await Toolbox([add]).call(ToolCall("1", "add", '{"a":1}'), host)).output == 3


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("as it is", "as it is"),
        (None, "(the tool returned nothing)"),
        (Point(x=1), '{"x":1,"y":0}'),
        ([1, {"a": True}], '[1,{"a":true}]'),
        (complex(1, 2), "(1+2j)"),
    ],
    ids=str,
)
async def test_an_output_is_put_into_words(output: Any, text: str, host: ToolHost) -> None:
    result = await call_tool(tool("give", description="Gives.")(lambda: output), "{}", host)
    assert result.text == text
    assert result.output is output


async def test_a_long_output_is_cut_and_says_so(host: ToolHost) -> None:
    long = tool("long", description="Long.", max_result_chars=10)(lambda: "x" * 1000)
    result = await call_tool(long, "{}", host)
    assert result.text == "x" * 10 + "\n[cut: the first 10 of 1000 characters]"


# -- limits, caches, time ----------------------------------------------------------------------------------------------


async def test_a_limit_holds_when_many_threads_use_a_tool_at_once(host: ToolHost) -> None:
    used: list[int] = []
    limited = tool("limited", description="Is limited.", max_usage_count=7)(lambda: used.append(1))
    results = await asyncio.gather(*[call_tool(limited, "{}", host) for _ in range(50)])
    outcomes = [result.outcome for result in results]
    assert (outcomes.count("finished"), outcomes.count("limit"), len(used)) == (7, 43, 7)
    assert "may be used 7 times" in results[-1].text
    assert limited.usage_count == 7


async def test_a_cache_gives_the_same_output_for_the_same_arguments(host: ToolHost) -> None:
    used: list[int] = []

    @tool(cache=True, max_usage_count=2)
    def look(a: int, b: int = 0) -> int:
        """Looks."""
        used.append(a)
        return a

    first = await call_tool(look, '{"a": 1, "b": 2}', host)
    again = await call_tool(look, '{"b": 2, "a": 1}', host)
    other = await call_tool(look, '{"a": 2}', host)
    assert (first.from_cache, again.from_cache, other.from_cache) == (False, True, False)
    assert (again.output, used, look.usage_count) == (1, [1, 2], 2)


async def test_a_function_decides_what_is_kept_and_errors_never_are(host: ToolHost) -> None:
    answers = iter([0, 5, 6])

    def count() -> int:
        return next(answers)

    def keep_if_any(arguments: dict[str, Any], output: Any) -> bool:
        return bool(output)

    counting = tool("count", description="Counts.", cache=keep_if_any)(count)
    assert [(await call_tool(counting, "{}", host)).output for _ in range(3)] == [0, 5, 5]

    failures = iter([RuntimeError("no")])

    @tool(cache=True)
    def once() -> str:
        """Fails at first."""
        for failure in failures:
            raise failure
        return "ok"

    assert [(await call_tool(once, "{}", host)).outcome for _ in range(2)] == ["error", "finished"]


def test_a_cache_is_bounded() -> None:
    cache = ToolCache(size=2)
    for n in range(3):
        cache.keep("t", {"n": n}, n)
    assert [cache.find("t", {"n": n}) for n in range(3)] == [None, (1,), (2,)]


async def test_a_tool_that_takes_too_long_is_given_up() -> None:
    clock, threads = ManualClock(), ThreadPool()
    left: list[tuple[str, Future[Any]]] = []
    host = ToolHost(threads, clock, ToolCache(), lambda name, thread: left.append((name, thread)))
    go_on = threading.Event()
    stopped: list[bool] = []

    @tool(timeout=10)
    def block() -> str:
        """Blocks."""
        go_on.wait(30)
        return "late"

    @tool(timeout=10)
    async def wait() -> None:
        """Waits."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.append(True)

    calls = [asyncio.create_task(call_tool(slow, "{}", host)) for slow in (block, wait)]
    await clock.until_sleeping(2)
    clock.advance(10)
    results = [await call for call in calls]
    assert [result.outcome for result in results] == ["timeout", "timeout"]
    assert "did not return within 10 s" in results[0].text
    assert [name for name, _ in left] == ["block"]
    assert stopped == [True]
    go_on.set()
    assert left[0][1].result(10) == "late"
    threads.stop()


async def test_a_cancelled_call_leaves_no_task_and_names_its_thread() -> None:
    threads, left = ThreadPool(), list[str]()
    host = ToolHost(threads, SystemClock(), ToolCache(), lambda name, thread: left.append(name))
    started, go_on = threading.Event(), threading.Event()

    @tool(timeout=60)
    def block() -> None:
        """Blocks."""
        started.set()
        go_on.wait(30)

    call = asyncio.create_task(call_tool(block, "{}", host))
    await asyncio.to_thread(started.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert left == ["block"]
    go_on.set()
    threads.stop()


async def test_a_tool_that_raises_a_timeout_of_its_own_is_an_error_not_a_timeout(host: ToolHost) -> None:
    @tool(timeout=60)
    async def fails() -> None:
        """Fails."""
        raise TimeoutError("mine")

    assert (await call_tool(fails, "{}", host)).outcome == "error"
