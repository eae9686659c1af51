"""The schema is generated from the tables the parser reads with; these tests hold the two together from outside."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flowfiles import test_check, test_parse
from tests.flowfiles.support import Folder

from holdfast.flowfiles import flow_schema
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._format import CACHE, EXIT_RULE, FLOW, INPUT, KIT, LIMITS, OUTPUT, RETRY, TOOL, VARIABLE, WHEN
from holdfast.flowfiles._kinds import KINDS
from holdfast.flowfiles._nodes import plain, read_nodes
from holdfast.flowfiles._shapes import ByForm, Record

jsonschema: Any = pytest.importorskip("jsonschema")  # comes with the MCP library
SCHEMA = flow_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with its reference followed."""
    while "$ref" in schema:
        target: Any = SCHEMA
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema


def data(text: str) -> Any:
    node = read_nodes(text.encode(), "x", Report())
    assert node is not None
    return plain(node)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_parser_and_schema_have_the_same_keys() -> None:
    assert set(resolved(SCHEMA)["properties"]) == set(FLOW.keys)
    assert {ref["$ref"] for ref in SCHEMA["$defs"]["step"]["anyOf"]} == {f"#/$defs/{name}_step" for name in KINDS}
    for name, kind in KINDS.items():
        step = SCHEMA["$defs"][f"{name}_step"]
        assert set(step["properties"]) == set(kind.keys)
        assert set(step.get("required", ())) == {key for key, one in kind.keys.items() if one.is_required}
        assert set(SCHEMA["$defs"][f"{name}_fallback"]["properties"]) == set(kind.options)
        assert step["additionalProperties"] is False


@pytest.mark.parametrize(
    "shape",
    [VARIABLE, OUTPUT, TOOL, LIMITS, INPUT, WHEN, EXIT_RULE, RETRY, CACHE, KIT],
    ids=lambda shape: shape.label[:20],
)
def test_records_inside_have_the_same_keys_too(shape: Record | ByForm) -> None:
    record = shape.mapping if isinstance(shape, ByForm) else shape
    assert isinstance(record, Record)
    assert set(record.schema()["properties"]) == set(record.keys)
    assert all("description" in value for value in record.schema()["properties"].values())


@pytest.mark.parametrize("text", [test_parse.EVERYTHING, *(row[1] for row in test_check.GOOD)])
def test_what_the_parser_takes_the_schema_takes(text: str, folder: Folder) -> None:
    folder.load(text)
    VALIDATOR.validate(data(text))


def _by_schema(row: tuple[str, str, str, str, str]) -> bool:
    return row[3] in (
        "unknown-key",
        "misplaced-key",
        "missing-key",
        "wrong-value",
        "unknown-executor",
        "no-executor",
        "two-executors",
    )


BEYOND = {
    "unknown input tested",
    "options without choice",
    "bounds of text",
    "no prompt",
    "two prompts",
    "emit_flow",
    "on_timeout of the wrong type",
}
"""What is about several keys at once, and left to the parser."""


@pytest.mark.parametrize(
    "row", [row for row in test_parse.BAD if _by_schema(row) and row[0] not in BEYOND], ids=lambda row: str(row[0])
)
def test_what_the_parser_refuses_for_its_keys_the_schema_refuses(row: tuple[str, str, str, str, str]) -> None:
    name, text, *_ = row
    if name in ("on_timeout alone", "output_path alone", "target without loop"):
        pytest.skip("depends on another key")
    assert not VALIDATOR.is_valid(data(text))
