"""What a kickoff is given to begin with: inputs and a state, in words where they do not fit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from holdfast import CheckpointConfig, Flow, FlowState, listen, start
from holdfast.errors import FlowInputError, UsageError
from holdfast.stores import MemoryStore


class Broken(Exception):
    """What the test raises."""


class Inner(Flow[Any]):
    fails = True
    seen: int | None = None

    @start()
    def count(self) -> None:
        self.state["n"] += 5

    @listen(count)
    def look(self) -> int:
        if Inner.fails:
            raise Broken
        return int(self.state["n"])


class Outer(Flow[Any]):
    @start()
    def begin(self) -> Any:
        return Inner().kickoff({"n": 1})


def test_inputs_of_a_flow_inside_another_do_not_overwrite_its_state_when_it_is_taken_up_again() -> None:
    outer = Outer(checkpoint=CheckpointConfig(MemoryStore()))
    Inner.fails = True
    with pytest.raises(Broken):
        outer.kickoff()
    Inner.fails = False
    assert outer.kickoff(from_checkpoint=outer.run_id) == 6


class Order(FlowState):
    topic: str = ""
    count: int = Field(0, validation_alias=AliasChoices("count", "howMany"))


class Open(FlowState):
    model_config = ConfigDict(extra="allow")


class Renamed(FlowState):
    topic: str = ""

    @model_validator(mode="before")
    @classmethod
    def know_the_old_name(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {"topic" if name == "subject" else name: value for name, value in given.items()}


@dataclass
class Plain:
    id: str = ""
    topic: str = ""


class Shows(Flow[Any]):
    @start()
    def show(self) -> Any:
        return self.state


@pytest.mark.parametrize("kind", [Order, Plain])
def test_an_input_that_is_no_field_is_refused_with_the_nearest_one(kind: Any) -> None:
    """A pydantic state passed over it, so that a mistyped name was never heard of."""
    with pytest.raises(FlowInputError, match=f"{kind.__name__} has no field 'topik'; did you mean 'topic'"):
        Shows(initial_state=kind).kickoff({"topik": "whales"})


@pytest.mark.parametrize(
    ("kind", "inputs", "expected"),
    [
        (Order, {"howMany": 3}, {"topic": "", "count": 3}),
        (Order, {"count": 3}, {"topic": "", "count": 3}),
        (Open, {"anything": 3}, {"anything": 3}),
        (Renamed, {"subject": "whales"}, {"topic": "whales"}),
    ],
)
def test_an_input_may_have_every_name_that_the_model_takes(kind: Any, inputs: Any, expected: Any) -> None:
    assert Shows(initial_state=kind).kickoff(inputs).model_dump(exclude={"id"}) == expected


class Needs(BaseModel):
    topic: str


class Nothing:
    """No state."""


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            Needs,
            r"Needs\(\) cannot be made: give every field a default, or the flow an example, initial_state=Needs\(…\)",
        ),
        (list, "pydantic model, a dataclass or a dict, and list is none of them"),
        (Nothing, "pydantic model, a dataclass or a dict, and Nothing is none of them"),
    ],
)
def test_what_cannot_be_a_state_is_refused_in_words(kind: Any, message: str) -> None:
    with pytest.raises(FlowInputError, match=message):
        Shows(initial_state=kind).kickoff()


def test_an_example_stands_for_a_state_that_cannot_be_made_from_nothing() -> None:
    assert Shows(initial_state=Needs(topic="whales")).kickoff().topic == "whales"


def test_inputs_that_are_no_mapping_are_refused_in_words() -> None:
    with pytest.raises(FlowInputError, match=r"inputs are names with values, .* not a str"):
        Shows().kickoff("whales")  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["", 3, CheckpointConfig(MemoryStore())])
def test_what_names_no_checkpoint_is_refused_in_words(where: Any) -> None:
    """An empty text began afresh; a number was an AttributeError."""
    config = CheckpointConfig(MemoryStore())
    with pytest.raises(UsageError, match="from_checkpoint wants the id of a run or a checkpoint, or a file"):
        Shows(checkpoint=config).kickoff(from_checkpoint=where)
    with pytest.raises(UsageError, match="from_checkpoint wants the id of a run or a checkpoint, or a file"):
        asyncio.run(Shows(checkpoint=config).akickoff(from_checkpoint=where))
    for make in (Shows.from_checkpoint, Shows.fork, Shows.from_pending):
        with pytest.raises(UsageError, match="from_checkpoint wants the id of a run or a checkpoint, or a file"):
            make(where, checkpoint=config)


def test_a_run_that_never_was_is_no_place_to_make_a_flow_from() -> None:
    with pytest.raises(UsageError, match="or a file, not None"):
        Shows.from_checkpoint(Shows().run_id, checkpoint=CheckpointConfig(MemoryStore()))  # type: ignore[arg-type]
