"""Where a variable's value comes from, and what is said when there is none."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flowfiles.support import Folder

from holdfast.errors import FlowFileError, FlowInputError, UsageError
from holdfast.flowfiles import (
    FlowFile,
    Position,
    Variable,
    coerce,
    load_flow,
    local_config_path,
    parse_assignments,
    read_secrets,
    resolve_variables,
    write_local_config,
)

AT = Position("x")


@pytest.fixture
def flow(folder: Folder) -> FlowFile:
    return folder.load("""
        inputs:
          topic: {example: green tea}
          depth: {type: choice, options: [low, high]}
          count: {type: number, min: 1, default: 2}
          fast: {type: bool, required: false}
        config:
          model: {default: small}
          key: {sensitive: true}
        steps: {a: {run: x, inputs: {extra: {from: $job.extra, optional: true}}}}
        """)


def test_values_come_from_the_first_place_that_has_one(folder: Folder, flow: FlowFile) -> None:
    given_ = {"topic": "a", "depth": "low"}
    environment = {"HOLDFAST_VAR_MODEL": "environment", "HOLDFAST_VAR_COUNT": "5", "STEPWISE_VAR_FAST": "yes"}
    assert resolve_variables(flow, given_, environ={}).values == {
        "topic": "a",
        "depth": "low",
        "count": 2,
        "fast": None,
        "extra": None,
        "model": "small",
    }
    assert resolve_variables(flow, given_, environ=environment).values["model"] == "environment"
    assert resolve_variables(flow, given_, environ=environment).values["count"] == 5
    assert resolve_variables(flow, given_, environ=environment).values["fast"] is True
    folder.write("x.config.local.yaml", "model: local\n")
    assert resolve_variables(flow, given_, environ=environment).values["model"] == "local"
    assert resolve_variables(flow, given_, asked={"model": "asked"}, environ=environment).values["model"] == "asked"
    assert resolve_variables(flow, {**given_, "model": "given"}, asked={"model": "asked"}).values["model"] == "given"


def test_a_missing_input_is_told_with_the_exact_flags_to_add(flow: FlowFile) -> None:
    message = "inputs are missing: topic, depth; add --input topic='green tea' --input depth=low|high"
    with pytest.raises(FlowInputError, match=re.escape(message)):
        resolve_variables(flow, environ={})
    with pytest.raises(FlowInputError, match=re.escape("an input is missing: depth; add --input depth=low|high")):
        resolve_variables(flow, {"topic": "x"}, environ={})


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"topc": "x"}, "has no input 'topc'; did you mean topic?"),
        ({"zzz": "x"}, "has no input 'zzz'; it has topic, depth, count"),
        ({"count": "many"}, "count is a number, not 'many'"),
        ({"count": "0"}, "count is at least 1, not 0"),
        ({"depth": "middle"}, "depth is one of low, high, not 'middle'"),
        ({"fast": "maybe"}, "fast is true or false"),
        ({"topic": "a\nb"}, "one line of text"),
        ({"key": "hunter2"}, "set HOLDFAST_VAR_KEY where the job runs instead"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(flow: FlowFile, given_: dict[str, Any], says: str) -> None:
    with pytest.raises(FlowInputError, match=re.escape(says)) as raised:
        resolve_variables(flow, {"topic": "x", "depth": "low", **given_}, environ={})
    assert "hunter2" not in str(raised.value)


def test_a_sensitive_value_is_never_among_what_is_stored(flow: FlowFile) -> None:
    environment = {"HOLDFAST_VAR_KEY": "hunter2"}
    resolved = resolve_variables(flow, {"topic": "x", "depth": "low"}, environ=environment)
    assert resolved.secrets == ("key",)
    assert b"hunter2" not in msgspec.json.encode(resolved)
    assert read_secrets(flow, environment) == ({"key": "hunter2"}, ())
    assert read_secrets(flow, {}) == ({}, ("key",))


def test_a_secret_that_does_not_fit_is_refused_without_being_shown(folder: Folder) -> None:
    flow = folder.load("config: {pin: {type: number, sensitive: true}}\nsteps: {a: {run: x}}")
    with pytest.raises(FlowInputError, match="HOLDFAST_VAR_PIN does not fit the type number") as raised:
        read_secrets(flow, {"HOLDFAST_VAR_PIN": "hunter2"})
    assert raised.value.__cause__ is None
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("modl: x\n", "unknown-key", "1:1"),
        ("topic: x\n", "unknown-key", "1:1"),
        ("key: hunter2\n", "stored-secret", "1:1"),
        ("model: [1]\n", "wrong-value", "1:1"),
        ("- model\n", "wrong-value", "1:1"),
        ("model: a\nmodel: b\n", "duplicate-key", "2:1"),
        ("model: 'x", "yaml", "1:10"),
    ],
)
def test_what_is_wrong_in_the_settings_file_is_told_where_it_is(
    folder: Folder, flow: FlowFile, text: str, code: str, place: str
) -> None:
    folder.write("x.config.local.yaml", text)
    with pytest.raises(FlowFileError) as raised:
        resolve_variables(flow, {"topic": "x", "depth": "low"}, environ={})
    found: list[Any] = list(raised.value.findings)
    assert [(one.code, f"{one.at.line}:{one.at.column}", one.at.file) for one in found] == [
        (code, place, "x.config.local.yaml")
    ]
    assert "hunter2" not in str(raised.value)


def test_the_settings_file_stands_beside_the_flow(folder: Folder) -> None:
    folder.write("d/FLOW.yaml", "config: {a: {}}\nsteps: {x: {run: x}}\n")
    folder.write("d/config.local.yaml", "a: 3\n")
    flow = load_flow("d")
    assert local_config_path(flow).name == "config.local.yaml"
    assert resolve_variables(flow).values == {"a": "3"}
    folder.write("d/config.local.yaml", "\n")
    with pytest.raises(FlowInputError, match="--input a=TEXT"):
        resolve_variables(flow, environ={})


def test_inputs_of_the_command_line_are_texts_or_files(folder: Folder) -> None:
    folder.write("long.txt", "from a file\n")
    assert parse_assignments(["a=b=c", "empty=", "f=@long.txt"]) == {"a": "b=c", "empty": "", "f": "from a file\n"}
    for bad in ("a", "=x", "f=@nope.txt"):
        with pytest.raises(UsageError):
            parse_assignments([bad])


def test_an_implied_input_takes_lists_and_objects_as_json(flow: FlowFile) -> None:
    values = {"topic": "x", "depth": "low"}
    assert resolve_variables(flow, {**values, "extra": '["a", 1]'}).values["extra"] == ["a", 1]
    assert resolve_variables(flow, {**values, "extra": "[not json"}).values["extra"] == "[not json"
    assert resolve_variables(flow, {**values, "extra": "12"}).values["extra"] == "12"


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3)


@given(
    json_values, st.sampled_from(["str", "text", "number", "bool", "choice", "list", "object", "any"]), st.booleans()
)
def test_any_value_fits_or_is_refused_and_what_fits_fits_again(value: Any, kind: Any, required: bool) -> None:
    field = Variable(name="x", at=AT, type=kind, options=("a", "1"), required=required)
    try:
        fitted = coerce(field, value)
    except ValueError as error:
        assert str(error).startswith("x ")  # noqa: PT017
        return
    assert coerce(field, fitted) == fitted or fitted != fitted


def test_settings_are_kept_once_for_all_and_forgotten_again(folder: Folder, flow: FlowFile) -> None:
    path = write_local_config(flow, {"model": "a: b # 'x'"})
    assert path == local_config_path(flow)
    assert resolve_variables(flow, {"topic": "a", "depth": "low"}, environ={}).values["model"] == "a: b # 'x'"
    write_local_config(flow, {"model": "large"})
    assert resolve_variables(flow, {"topic": "a", "depth": "low"}, environ={}).values["model"] == "large"
    write_local_config(flow, {}, ["model"])
    assert resolve_variables(flow, {"topic": "a", "depth": "low"}, environ={}).values["model"] == "small"


@pytest.mark.parametrize(
    ("given_", "said"),
    [({"modle": "x"}, "did you mean model"), ({"topic": "x"}, "no setting 'topic'"), ({"key": "hunter2"}, "sensitive")],
)
def test_what_is_no_setting_or_secret_is_not_kept(flow: FlowFile, given_: dict[str, Any], said: str) -> None:
    with pytest.raises(FlowInputError, match=said):
        write_local_config(flow, given_)
    assert not local_config_path(flow).exists()


def test_a_missing_setting_says_how_to_give_it_once_for_all(folder: Folder) -> None:
    made = folder.load("config: {model: {}}\nsteps: {a: {run: x}}\n")
    with pytest.raises(
        FlowInputError, match=r"--input model=TEXT, or once for all jobs: holdfast config x --set model=TEXT"
    ):
        resolve_variables(made, environ={})
