from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest
from tests.events.samples import build

from holdfast.events._base import BaseEvent, ScopeKind, tag_from_name
from holdfast.events.families import FAMILIES, WHERE


def defined_in(family: str) -> Iterator[type[BaseEvent]]:
    module = importlib.import_module(f"holdfast.events.families.{family}")
    for value in vars(module).values():
        if inspect.isclass(value) and issubclass(value, BaseEvent) and value.__module__ == module.__name__:
            yield value


EVENTS = [cls for family in FAMILIES for cls in defined_in(family)]
each_event = pytest.mark.parametrize("cls", EVENTS, ids=lambda cls: cls.__name__)


def test_the_table_names_every_event_class_and_its_family() -> None:
    really = {cls.__name__: family for family in FAMILIES for cls in defined_in(family)}
    assert dict(WHERE) == really


def test_the_table_follows_the_order_of_the_families_and_their_classes() -> None:
    assert list(WHERE) == [cls.__name__ for cls in EVENTS]


def test_every_family_says_in_one_sentence_what_it_is_about() -> None:
    for family in FAMILIES:
        doc = importlib.import_module(f"holdfast.events.families.{family}").__doc__
        assert doc, family
        assert is_one_sentence(doc), f"{family}: {doc!r}"


@each_event
def test_s1_7_every_event_class_has_its_own_literal_tag(cls: type[BaseEvent]) -> None:
    # the metaclass would make a tag up, so the body itself is read: a class that is renamed must keep its stored tag
    (body,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(body, ast.ClassDef)
    tags = [
        ast.literal_eval(line.value)
        for line in body.body
        if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) == "type" and line.value is not None
    ]
    assert tags == [cls.type]


@each_event
def test_s1_7_a_tag_is_the_snake_case_of_its_class_name(cls: type[BaseEvent]) -> None:
    assert cls.type == tag_from_name(cls.__name__)


def test_s1_7_no_two_event_classes_share_a_tag() -> None:
    tags = [cls.type for cls in EVENTS]
    assert sorted(tags) == sorted(set(tags))


@each_event
def test_every_event_class_is_named_event_and_says_one_sentence(cls: type[BaseEvent]) -> None:
    assert cls.__name__.endswith("Event")
    assert cls.__doc__
    assert is_one_sentence(cls.__doc__), cls.__doc__


def is_one_sentence(text: str) -> bool:
    return "\n" not in text and text.endswith(".") and not any(end in text for end in (". ", "! ", "? "))


def test_every_scope_kind_is_opened_and_closed_by_some_event() -> None:
    opened = {cls.opens for cls in EVENTS} - {None}
    closed = {cls.closes for cls in EVENTS} - {None}
    assert opened == closed == set(get_args(ScopeKind))


def test_no_event_both_opens_and_closes() -> None:
    assert [cls.__name__ for cls in EVENTS if cls.opens and cls.closes] == []


def test_what_starts_opens_a_scope_and_what_ends_closes_one() -> None:
    odd = []
    for cls in EVENTS:
        last = cls.__name__.removesuffix("Event")
        if last.endswith("Started") and not cls.opens:
            odd.append(cls.__name__)
        if last.endswith(("Completed", "Finished", "Cancelled", "Failed")) and not cls.closes:
            odd.append(cls.__name__)
    # these begin and end inside the scope of something else, or are not the end of anything
    assert odd == [
        "LLMGuardrailStartedEvent",
        "LLMGuardrailCompletedEvent",
        "LLMGuardrailFailedEvent",
        "ExitEvaluationFailedEvent",
        "ForEachItemStartedEvent",
        "ForEachItemCompletedEvent",
        "ForEachItemFailedEvent",
        "ResourceReleaseFailedEvent",
        "HandlerFailedEvent",
    ]


def test_everything_that_is_opened_can_also_be_cancelled() -> None:
    # these are never cut off: a checkpoint is completed or failed, and so is the tick of a schedule
    whole = {"checkpoint", "schedule"}
    cancelled = {cls.closes for cls in EVENTS if cls.__name__.endswith("CancelledEvent")}
    assert cancelled == set(get_args(ScopeKind)) - whole


def test_only_chunks_passing_news_of_agents_and_news_of_the_journal_itself_are_live_and_not_durable() -> None:
    live = {cls.type for cls in EVENTS if not cls.durable}
    about_journals = {f"checkpoint_{what}" for what in ("started", "completed", "failed", "pruned")}
    about_models = {"llm_stream_chunk", "llm_thinking_chunk", "llm_stream_restarted"}
    assert live == {"agent_update_received", "step_output_chunk"} | about_models | about_journals


@each_event
def test_every_event_is_built_from_its_required_fields_and_is_frozen(cls: type[BaseEvent]) -> None:
    event = build(cls)
    assert event.env is None
    for field in msgspec.structs.fields(cls):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(event, field.name, getattr(event, field.name))


@each_event
def test_every_event_reads_back_from_its_own_json_as_declared(cls: type[BaseEvent]) -> None:
    event = build(cls)
    again = msgspec.json.decode(msgspec.json.encode(event), type=cls)
    assert msgspec.structs.asdict(again) == msgspec.structs.asdict(event)


def test_two_events_never_share_an_empty_default() -> None:
    for cls in EVENTS:
        one, other = msgspec.structs.asdict(build(cls)), msgspec.structs.asdict(build(cls))
        for name, value in one.items():
            if isinstance(value, dict) or value == []:
                assert value is not other[name], f"{cls.__name__}.{name}"
