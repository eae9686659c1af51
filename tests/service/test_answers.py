"""Answers: which question they are for, and whether they fit."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import UsageError
from holdfast.ports import Ask, Job, JobStatus
from holdfast.service._answers import choose_ask, fit

FORM = {
    "ok": {"type": "bool"},
    "count": {"type": "number", "min": 1, "max": 3},
    "colour": {"type": "choice", "options": ["red", "blue"], "required": False},
    "note": {"type": "text", "default": "none"},
    "more": {},
}
ASK = Ask("a1", "review", fields=FORM)


def job(*asks: Ask) -> Job:
    return Job("j1", "test", JobStatus.WAITING, 0, asks=asks)


def test_text_from_a_command_line_becomes_what_the_form_wants() -> None:
    given = {"ok": "yes", "count": "2", "colour": "red", "more": "x"}
    assert fit(ASK, given) == {"ok": True, "count": 2, "colour": "red", "more": "x"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ok": "perhaps"}, "ok is true or false"),
        ({"count": "9"}, "at least 1 and at most 3"),
        ({"count": True}, "count is a number"),
        ({"colour": "green"}, "one of red, blue"),
        ({"color": "red"}, "has no field 'color'; it has: ok, count, colour, note, more"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        fit(ASK, {"ok": True, "count": 1, "more": 1} | changes)


def test_every_missing_field_is_named_with_its_flag() -> None:
    with pytest.raises(UsageError, match=r"add --output ok=yes\|no --output count=NUMBER --output more=TEXT$"):
        fit(ASK, {})


def test_an_answer_is_the_same_in_whatever_order_it_is_given() -> None:
    given = {"ok": "yes", "count": "2", "more": "x"}
    assert [*fit(ASK, given)] == [*fit(ASK, dict(reversed(given.items())))]


def test_a_question_without_a_form_takes_anything() -> None:
    assert fit(Ask("a1", "free"), {"x": [1]}) == {"x": [1]}


def test_the_only_question_need_not_be_named_and_others_by_step_or_id() -> None:
    other = Ask("a2", "approve")
    assert choose_ask(job(ASK), "") is ASK
    assert choose_ask(job(ASK, other), "approve") is other
    assert choose_ask(job(ASK, other), "a1") is ASK
    for asks, name, told in (
        ((), "", "waits for no answer"),
        ((ASK, other), "", "several answers; say which with --step: review, approve"),
        ((ASK,), "build", "does not wait at 'build'; it waits at: review"),
    ):
        with pytest.raises(UsageError, match=told):
            choose_ask(job(*asks), name)
