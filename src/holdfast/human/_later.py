"""Answers that come another day."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import AnswerPendingError
from holdfast.ports import HumanRequest


class LaterProvider:
    """Puts every question down: the run waits, and `resume()` brings the answer. `notify` tells somebody of the question.

    It is told again when a run that still waits is taken up again; the request's id says that it is the same question.
    """

    def __init__(self, notify: Callable[[HumanRequest], None] = lambda request: None) -> None:
        self._notify = notify

    def request(self, request: HumanRequest) -> str:
        self._notify(request)
        raise AnswerPendingError
