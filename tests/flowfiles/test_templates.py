from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.flowfiles import compile_template

NAMES: dict[str, Any] = {
    "name": "Ann",
    "none": None,
    "n": 3,
    "yes": True,
    "data": {"list": [{"x": "deep"}], "k-y": 1},
    "list": [1, "a"],
}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("Hi $name!", "Hi Ann!"),
        ("${name}s, {{name}} and {{ name }}", "Anns, Ann and Ann"),
        ("[$none] [${none.x}] [{{none}}]", "[] [] []"),
        ("${data.list.0.x} ${data.k-y} ${data.nope}", "deep 1 "),
        ("$n $yes $list $data", '3 true [1,"a"] {"list":[{"x":"deep"}],"k-y":1}'),
        ("$5, $ {}, {{ 1 + 1 }}, ${, $unknown, ${unknown.x}", "$5, $ {}, {{ 1 + 1 }}, ${, $unknown, ${unknown.x}"),
        ("$$name costs $$5", "$name costs $5"),
        ("$name.x", "Ann.x"),
        ("$(rm -rf /) `id`", "$(rm -rf /) `id`"),
        ("", ""),
    ],
)
def test_a_template_renders(text: str, rendered: str) -> None:
    assert compile_template(text).render(NAMES) == rendered


def test_a_value_that_looks_like_a_hole_is_not_filled_again() -> None:
    assert compile_template("$a $b").render({"a": "$b {{b}}", "b": "secret"}) == "$b {{b}} secret"


def test_names_are_listed_once_in_order() -> None:
    assert compile_template("$b ${a.x} {{b.y}} $$c").names == ("b", "a")


@given(st.text(max_size=60), st.dictionaries(st.text("abn", min_size=1, max_size=2), st.text(max_size=5), max_size=3))
def test_every_text_is_a_template(text: str, names: dict[str, str]) -> None:
    rendered = compile_template(text).render(names)
    assert names or rendered == text.replace("$$", "$")
