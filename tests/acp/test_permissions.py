"""`Permissions`: which rule decides, and which of the offered options says so."""

from __future__ import annotations

import pytest

from holdfast.acp import Permissions
from holdfast.acp._permissions import Question

ONCE = {"optionId": "1", "name": "Once", "kind": "allow_once"}
ALWAYS = {"optionId": "2", "name": "Always", "kind": "allow_always"}
NEVER = {"optionId": "3", "name": "Never", "kind": "reject_always"}


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        (Permissions(), "deny"),
        (Permissions(otherwise="allow"), "allow"),
        (Permissions(allow=("execute",)), "allow"),
        (Permissions(allow=("execute:git *",)), "allow"),
        (Permissions(allow=("execute:git",)), "deny"),
        (Permissions(allow=("edit",), otherwise="ask"), "ask"),
        (Permissions(allow=("*",), deny=("execute:*push*",)), "deny"),
        (Permissions(allow=("execute:git push",), deny=("execute",)), "deny"),
    ],
)
def test_a_denial_beats_an_allowance_and_the_rest_is_as_it_says(rules: Permissions, verdict: str) -> None:
    assert rules.verdict("execute", "git push") == verdict


@pytest.mark.parametrize(
    ("options", "verdict", "chosen"),
    [
        ([ALWAYS, ONCE, NEVER], "allow", "1"),
        ([ALWAYS, NEVER], "allow", "2"),
        ([ALWAYS, ONCE, NEVER], "deny", "3"),
        ([ALWAYS, ONCE], "deny", None),
        ([], "allow", None),
    ],
)
def test_an_allowance_for_once_is_preferred_and_none_is_made_up(
    options: list[dict[str, str]], verdict: str, chosen: str | None
) -> None:
    assert Question("q", "s", {}, options).option(verdict) == chosen
