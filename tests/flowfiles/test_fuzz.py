"""Whatever a flow file holds, it gets located findings and no traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.flowfiles import test_check, test_parse, test_stepwise

from holdfast.errors import FlowFileError
from holdfast.flowfiles import FlowFile, check_flow, load_flow, to_graph
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._format import FLOW
from holdfast.flowfiles._kinds import KINDS
from holdfast.flowfiles._nodes import plain, read_nodes

VALID = [test_parse.EVERYTHING, test_stepwise.OLD, *(row[1] for row in test_check.GOOD)]
KEYS = sorted({*FLOW.keys, *(key for kind in KINDS.values() for key in kind.keys)})
JUNK = [
    "",
    " ",
    "  ",
    "\n",
    "\t",
    ":",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    "|",
    ">",
    "&a",
    "*a",
    "<<",
    "!!str",
    "!x",
    "#",
    "%",
    "@",
    "\0",
    "null",
    "~",
    "yes",
    "-1",
    "1e99",
    "0",
    "a.b.c",
    "$job.x",
    "plan.parts",
    "plan",
    "build",
    "é",
    "\u2028",
    "\ud7ff",
    "\U0001f600",
    "x" * 300,
]


def fuzz(examples: int) -> settings:
    return settings(deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.flow.yaml"


def check(file: Path, data: bytes) -> FlowFile | None:
    """Check a file, and that what is found makes sense."""
    file.write_bytes(data)
    flow, findings = check_flow(file)
    lines = data.count(b"\n") + data.count(b"\r") + data.decode("utf-8", "replace").count("\u2028") + 3
    for one in findings:
        assert one.message
        assert one.at.file.endswith((".flow.yaml", ".md"))
        assert 1 <= one.at.line <= lines
        assert one.at.column >= 1
    assert (flow is None) == any(one.severity == "error" for one in findings)
    if flow is None:
        with pytest.raises(FlowFileError):
            load_flow(file)
    else:
        to_graph(flow)
    return flow


@fuzz(80)
@given(st.binary(max_size=200))
def test_bytes(file: Path, data: bytes) -> None:
    check(file, data)


@fuzz(120)
@given(st.data())
def test_a_valid_file_with_damage(file: Path, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(VALID))
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(text)))
        end = place + data.draw(st.sampled_from([0, 0, 1, 2, 8, 30]))
        text = text[:place] + data.draw(st.sampled_from(KEYS + JUNK)) + text[end:]
    check(file, text.encode())


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 100)
    | st.floats()
    | st.sampled_from([*KEYS, *JUNK])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
bodies = st.dictionaries(st.sampled_from(KEYS), values, max_size=6)
doing = st.sampled_from([{"run": "x"}, {"flow": "x"}, *({"executor": name, "prompt": "x"} for name in [*KINDS, "x"])])
steps = st.builds(lambda body, does: {**body, **does}, bodies, doing)


@fuzz(120)
@given(
    st.builds(
        lambda steps, rest: {**rest, "steps": steps},
        st.dictionaries(st.sampled_from("abcd"), steps | values, max_size=4),
        st.dictionaries(st.sampled_from(sorted(FLOW.keys)), values, max_size=3),
    )
    | values
)
def test_data_of_the_wrong_shape(file: Path, data: Any) -> None:
    try:
        text = yaml.safe_dump(data, allow_unicode=True)
    except UnicodeEncodeError:
        return
    check(file, text.encode("utf-8", "replace"))


@fuzz(80)
@given(st.data())
def test_a_valid_flow_with_one_value_replaced(file: Path, data: st.DataObject) -> None:
    """Reaches every key: one value somewhere in a flow that has them all becomes something else."""
    node = read_nodes(data.draw(st.sampled_from(VALID)).encode(), "x", Report())
    assert node is not None
    tree = plain(node)
    here: Any = tree
    while True:
        keys: list[Any] = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(here[key], dict | list) or not here[key] or data.draw(st.integers(0, 4)) == 0:
            break
        here = here[key]
    here[key] = data.draw(values)
    check(file, yaml.safe_dump(tree).encode("utf-8", "replace"))
