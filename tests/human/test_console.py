from __future__ import annotations

import io

import pytest

from holdfast.errors import UsageError
from holdfast.human import ConsoleProvider
from holdfast.ports import HumanRequest

REQUEST = HumanRequest(
    "1",
    "feedback",
    "Good?",
    flow_name="Review",
    method_name="draft:feedback",
    output="whales",
    options=("yes", "no"),
)


def test_whoever_sits_at_the_terminal_reads_the_method_its_result_and_the_answers_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes, please\nno\n"))
    assert ConsoleProvider().request(REQUEST) == "yes, please"
    assert capsys.readouterr() == ("", "\nReview.draft:\nwhales\nGood?\n(yes, no) ")


def test_when_nobody_can_answer_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(UsageError, match=r"draft asks a question, but standard input has ended.*LaterProvider"):
        ConsoleProvider().request(REQUEST)
