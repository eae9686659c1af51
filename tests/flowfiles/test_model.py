from __future__ import annotations

import msgspec

from holdfast.flowfiles._model import (
    ExitRule,
    FlowFile,
    ForEach,
    Input,
    JobSource,
    Script,
    StepSource,
    StepSpec,
    kind_of,
)
from holdfast.flowfiles._parts import Expression, OutputField, Position, Variable

AT = Position("x.flow.yaml", 3, 5)


def _flow(*steps: StepSpec) -> FlowFile:
    return FlowFile(name="x", at=AT, directory="/flows", steps=steps, digest="d")


def test_a_flow_goes_into_a_store_and_comes_back_equal() -> None:
    inner = _flow(StepSpec(name="one", at=AT, executor=Script(text="true")))
    step = StepSpec(
        name="each",
        at=AT,
        executor=ForEach(source=StepSource("list", ("items",)), flow=inner, item_name="file"),
        inputs=(Input(name="x", at=AT, sources=(JobSource("x"), StepSource("a", ("b", "0")))),),
        outputs=(OutputField(name="results", at=AT, default=None),),
        exits=(ExitRule(action="loop", at=AT, when=Expression("attempt < 3", AT), target="each"),),
    )
    flow = msgspec.structs.replace(_flow(step), inputs=(Variable(name="x", at=AT, type="choice", options=("a", 1)),))
    stored = msgspec.json.encode(flow)
    assert msgspec.json.decode(stored, type=FlowFile) == flow


def test_a_default_of_null_is_not_a_missing_default() -> None:
    given, missing = (
        msgspec.json.decode(msgspec.json.encode(field), type=Variable)
        for field in (Variable(name="x", at=AT, default=None), Variable(name="x", at=AT))
    )
    assert given.default is None
    assert missing.default is msgspec.UNSET


def test_a_step_says_what_kind_of_executor_it_has() -> None:
    assert kind_of(Script(text="true")) == "script"
    assert StepSpec(name="x", at=AT, executor=Script(text="true")).kind == "script"


def test_a_position_prints_as_editors_read_it() -> None:
    assert str(AT) == "x.flow.yaml:3:5"
