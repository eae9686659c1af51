"""Asking people: what a run asks, and whoever can be asked."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Literal, Protocol

from msgspec import Struct


class HumanRequest(Struct, frozen=True):
    """A question to a person. Its id is the same however often the run is taken up again."""

    id: str
    kind: Literal["feedback", "input", "secret"]
    """of `@human_feedback`, of `ask`, or for a secret that a run needs to go on"""
    message: str
    run_id: str = ""
    flow_name: str = ""
    method_name: str = ""
    """the step that asks; of feedback on a method `draft` that is `draft:feedback`"""
    output: Any = None
    """what feedback is asked on"""
    options: tuple[str, ...] = ()
    """the answers that lead somewhere; empty for any text"""
    metadata: dict[str, Any] = {}
    expires_us: int | None = None
    """when the run goes on without an answer, in microseconds since 1970; None for never"""


class HumanProvider(Protocol):
    """Whoever can be asked: a terminal, a chat, a web page."""

    def request(self, request: HumanRequest) -> str | Awaitable[str]:
        """Ask, and return the answer. Called in a thread, or awaited if it is an async method.

        Raises AnswerPendingError if the answer will come later: the run is then put down, and taken up when it does.
        """
        ...
