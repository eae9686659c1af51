"""Tools, functions and classes as plain data, and back in a process that may not have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from tests.tools import samples
from tests.tools.samples import Point, Search, Typed, add, is_even, move, plain, worth_keeping

from holdfast.clock import SystemClock
from holdfast.errors import NotStorableError, StorageError
from holdfast.serde import decode, encode
from holdfast.threads import ThreadPool
from holdfast.tools import (
    BaseTool,
    FunctionTool,
    ToolCache,
    ToolHost,
    call_tool,
    dump_class,
    dump_reference,
    dump_tool,
    load_class,
    load_function,
    load_reference,
    load_tool,
    tool,
)


def again(tool: BaseTool, **secrets: str) -> Any:
    return load_tool(decode(encode(dump_tool(tool))), secrets)


# -- tools -------------------------------------------------------------------------------------------------------------


def test_s1_9_class_tools_come_back_as_their_own_class_with_their_settings() -> None:
    tools: list[BaseTool] = [Search(site="news", options={"$function": "os:system"}), Typed(timeout=3), add]
    restored = [again(tool) for tool in tools]
    assert [type(tool) for tool in restored] == [Search, Typed, FunctionTool]
    assert (restored[0].site, restored[0].options) == ("news", {"$function": "os:system"})
    assert restored[1].timeout == 3
    assert restored[1].args_schema is Point
    assert restored[2].func is add.func
    assert [tool.spec for tool in restored] == [tool.spec for tool in tools]


async def test_s1_9_the_usage_count_is_kept_and_goes_on_counting() -> None:
    threads = ThreadPool()
    host = ToolHost(threads, SystemClock(), ToolCache())
    used = move.model_copy(deep=True)
    await call_tool(used, {"to": {"x": 1}}, host)
    restored = again(used)
    assert (restored.usage_count, restored.timeout, restored.name) == (1, 5, "Slow Move")
    outcomes = [(await call_tool(restored, {"to": {"x": 1}}, host)).outcome for _ in range(3)]
    assert outcomes == ["finished", "finished", "limit"]
    assert used.usage_count == 1
    threads.stop()


def test_s1_9_a_plain_function_made_a_tool_elsewhere_is_found_and_so_is_its_cache_function() -> None:
    made = tool("Plain", cache=worth_keeping)(plain)
    restored = again(made)
    assert (restored.func, restored.cache, restored.name) == (plain, worth_keeping, "Plain")


def test_s1_10_secrets_are_not_stored_and_are_wanted_again() -> None:
    search = Search(api_key=SecretStr("do-not-store"))
    assert b"do-not-store" not in encode(dump_tool(search))
    restored = again(search)
    assert restored.missing_secrets == {"api_key": "Search.api_key"}
    restored.supply("api_key", "new")
    assert (restored.missing_secrets, restored.api_key) == ({}, SecretStr("new"))
    assert again(search, api_key="new").api_key == SecretStr("new")
    assert load_tool(dump_tool(search), {"Search.api_key": "new"}) == again(search, api_key="new")


class Holder(BaseTool):
    name: str = "holder"
    description: str = "Holds."
    things: dict[str, Any] = Field(default_factory=dict)

    def _run(self) -> None:
        """Holds."""


def local_tool() -> Any:
    @tool
    def inner() -> None:
        """Is local."""

    return inner


def local_class_tool() -> BaseTool:
    class Inner(Search):
        pass

    return Inner()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            lambda: tool("x", description="X.")(lambda: 1),
            r"\$\.tools\[1\]\.func: cannot store a lambda; define it at the top",
        ),
        (local_tool, r"\$\.tools\[1\]\.func: cannot store a local function local_tool"),
        (local_class_tool, r"\$\.tools\[1\]: cannot store a local function local_class_tool"),
        (lambda: Search(cache=lambda a, o: True), r"\$\.tools\[1\]\.cache: cannot store a lambda"),
        (lambda: Holder(things={"a": [object()]}), r"\$\.tools\[1\]\.things\.a\[0\]: cannot store a object"),
        (lambda: tool("x", description="X.")(os.getcwd), r"standard library \(posix\.getcwd\); wrap it"),
        (lambda: tool("x", description="X.")("word".upper), r"\$\.tools\[1\]\.func: cannot store a"),
    ],
    ids=["lambda", "closure", "local class", "cache", "field", "stdlib", "method"],
)
def test_s1_9_what_another_process_could_not_find_is_refused_with_its_path(
    made: Callable[[], BaseTool], words: str
) -> None:
    with pytest.raises(NotStorableError, match=words):
        dump_tool(made(), "$.tools[1]")


# -- references --------------------------------------------------------------------------------------------------------


def test_s1_9_functions_are_found_by_name_and_only_where_they_are() -> None:
    assert load_function(dump_reference(is_even)) is is_even
    assert dump_reference(is_even) == "tests.tools.samples:is_even"


def test_s1_9_a_name_that_leads_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "is_even", plain)
    with pytest.raises(NotStorableError, match="is something else"):
        dump_reference(is_even, "$.guardrail")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("os:system", "standard library"),
        ("subprocess:call", "standard library"),
        ("tests.tools.nowhere:f", r"import tests\.tools\.nowhere before restoring"),
        ("tests.tools.samples:gone", "is not here"),
        ("tests.tools.samples:Point", "is no function"),
    ],
)
def test_s1_9_a_file_cannot_name_what_it_likes(reference: str, words: str) -> None:
    with pytest.raises(StorageError, match=words):
        load_function(reference)


def test_s1_9_a_class_that_is_no_tool_is_not_made() -> None:
    with pytest.raises(StorageError, match="is no tool"):
        load_tool({"class": "tests.tools.samples:Point", "fields": {"x": 1}, "usage_count": 0})
    with pytest.raises(StorageError, match="cannot be made again"):
        load_tool({"class": "tests.tools.samples:Search", "fields": {"nonsense": 1}, "usage_count": 0})
    with pytest.raises(StorageError, match="cannot be made again"):
        load_tool({})


def test_s1_9_restoring_imports_nothing_even_if_it_could(tmp_path: Path) -> None:
    (tmp_path / "boobytrap.py").write_text("raise SystemExit('imported')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from holdfast.tools import load_tool\n"
        "from holdfast.errors import StorageError\n"
        "try: load_tool({'class': 'boobytrap:Tool', 'fields': {}, 'usage_count': 0})\n"
        "except StorageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "import boobytrap before restoring" in done.stdout


# -- classes -----------------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    """Contains itself."""

    name: str
    children: list[Tree] = []


class Everything(BaseModel):
    """One of each."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(ge=1, lt=10, description="how many")
    ratio: float = 0.5
    name: str = Field(min_length=2, max_length=4, pattern="^[a-z]+$")
    flag: bool | None = None
    colour: Colour = Colour.RED
    kind: Literal["a", "b"] = "a"
    when: datetime | None = None
    day: date | None = None
    key: UUID | None = None
    point: Point
    points: list[Point] = Field(default=[], max_length=2)
    pair: tuple[int, str] | None = None
    table: dict[str, list[int]] = {}
    either: int | Point | str = 0
    tree: Tree | None = None
    anything: Any = None


@pytest.mark.parametrize("cls", [Point, Everything, Tree], ids=lambda cls: cls.__name__)
def test_s1_8_a_class_comes_back_through_its_schema(cls: type[BaseModel]) -> None:
    stored = json.loads(json.dumps(dump_class(cls)))
    assert load_class(stored) is cls
    stranger = load_class({**stored, "class": "not.here:Thing"})
    assert stranger is not cls
    assert stranger.__name__ == cls.__name__
    assert stranger.model_json_schema() == cls.model_json_schema()
    twice = load_class({"class": "x:y", "schema": dump_class(stranger)["schema"]})
    assert twice.model_json_schema() == cls.model_json_schema()


GOOD: dict[str, Any] = {"count": 1, "name": "abc", "point": {"x": 1}}
CASES: list[dict[str, Any]] = [
    {},
    {"count": 0},
    {"count": 10},
    {"count": "x"},
    {"name": "a"},
    {"name": "ABC"},
    {"name": "abcde"},
    {"flag": None},
    {"flag": "maybe"},
    {"colour": "blue"},
    {"colour": "green"},
    {"kind": "c"},
    {"when": "2026-01-02T03:04:05Z"},
    {"when": "yesterday"},
    {"day": "2026-01-02"},
    {"key": "12345678-1234-5678-1234-567812345678"},
    {"key": "no"},
    {"point": {"y": 1}},
    {"points": [{"x": 1}, {"x": 2}]},
    {"points": [{"x": 1}] * 3},
    {"pair": [1, "a"]},
    {"pair": [1]},
    {"table": {"a": [1]}},
    {"table": {"a": ["x"]}},
    {"either": {"x": 2}},
    {"either": []},
    {"tree": {"name": "a", "children": [{"name": "b", "children": []}]}},
    {"tree": {"name": "a", "children": [{"children": []}]}},
    {"more": 1},
]


def accepts(cls: type[BaseModel], data: dict[str, Any]) -> bool:
    try:
        cls.model_validate(data)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("change", CASES, ids=json.dumps)
def test_s1_8_a_class_made_from_a_schema_takes_and_refuses_the_same(change: dict[str, Any]) -> None:
    stranger = load_class({**dump_class(Everything), "class": "not.here:Thing"})
    assert accepts(stranger, GOOD | change) == accepts(Everything, GOOD | change)


@given(st.dictionaries(st.sampled_from(list(Everything.model_fields)), st.integers(0, 11) | st.text(max_size=5)))
def test_s1_8_also_for_data_nobody_thought_of(change: dict[str, Any]) -> None:
    assert accepts(STRANGER, GOOD | change) == accepts(Everything, GOOD | change)


STRANGER = load_class({**dump_class(Everything), "class": "not.here:Thing"})


def test_s1_8_a_changed_class_does_not_pass_for_the_stored_one() -> None:
    stored = dump_class(Point)
    stored["schema"]["properties"]["z"] = {"type": "integer", "default": 0}
    assert load_class(stored) is not Point
    assert "z" in load_class(stored).model_fields


def test_s1_8_a_tool_with_a_schema_that_is_not_here_any_more_still_has_it() -> None:
    stored = dump_tool(Search(args_schema=Tree))
    stored["fields"]["args_schema"]["$class"]["class"] = "gone:Tree"
    assert load_tool(stored).parameters() == Search(args_schema=Tree).parameters()


def test_s1_8_what_has_no_schema_or_is_none_is_refused() -> None:
    class Odd(BaseModel):
        call: Callable[[], None]

    with pytest.raises(NotStorableError, match=r"\$\.output: cannot store a class Odd"):
        dump_class(Odd, "$.output")
    with pytest.raises(StorageError, match="not a stored class"):
        load_class({"class": "a:b", "schema": {"type": "string"}})
    with pytest.raises(StorageError, match="not a stored class"):
        load_class({})


def test_a_reference_may_be_any_object_of_the_program() -> None:
    assert load_reference("tests.tools.samples:Point") is Point
