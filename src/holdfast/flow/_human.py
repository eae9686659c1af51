"""`@human_feedback`: a method whose result is put before a person, and what comes of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct

from holdfast.errors import FlowDefinitionError, FlowInputError
from holdfast.flow._decorators import NOTE
from holdfast.ports import HumanProvider

M = TypeVar("M", bound=Callable[..., Any])
GATE = "__holdfast_gate__"
SUFFIX = ":feedback"


class Gate(Struct, frozen=True):
    """What `@human_feedback` says of a method."""

    message: str
    emit: tuple[str, ...] = ()
    default_outcome: str | None = None
    provider: HumanProvider | None = None
    timeout: float | None = None
    metadata: Mapping[str, Any] = {}
    collapse: Callable[[str, tuple[str, ...]], str | None] | None = None

    def outcome_of(self, method: str, feedback: str | None) -> str | None:
        """The route that an answer takes. Raises FlowInputError if it takes none."""
        if not self.emit:
            return None
        if feedback and (found := (self.collapse or find_outcome)(feedback, self.emit)) in self.emit:
            return found
        if self.default_outcome is not None:
            return self.default_outcome
        said = f"{feedback!r} is none of" if feedback else "there is no answer; expected one of"
        raise FlowInputError(
            f"{method}: {said} {', '.join(self.emit)}; give @human_feedback a default_outcome= or a collapse="
        )


def human_feedback(
    message: str,
    *,
    emit: Sequence[str] = (),
    default_outcome: str | None = None,
    provider: HumanProvider | None = None,
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    collapse: Callable[[str, tuple[str, ...]], str | None] | None = None,
) -> Callable[[M], M]:
    """Put a method's result before a person before the flow goes on. Write it below `@start`, `@listen` or `@router`.

    Listeners of the method are given a `HumanFeedbackResult`. With `emit` the answer is a route as well: the one it names
    (`collapse(feedback, emit)` may decide instead), else `default_outcome`. The person is asked by `provider`, else by the
    flow's. After `timeout` seconds the feedback is empty. An answer that leads nowhere fails the run with FlowInputError. Raises
    FlowDefinitionError for a decorator above `@start`, `@listen` or `@router`, and a default that is not in `emit`.
    """
    if not isinstance(question := cast(object, message), str):
        raise FlowDefinitionError(f"write @human_feedback(…) with the question that is asked, not with {question!r}")
    if isinstance(emit, str):
        raise FlowDefinitionError(f"emit takes several routes: emit=[{emit!r}, …]")
    if default_outcome is not None and default_outcome not in emit:
        raise FlowDefinitionError(f"default_outcome={default_outcome!r} must be one of emit={list(emit)}")
    if timeout is not None and not 0 <= timeout < math.inf:
        raise FlowDefinitionError(
            f"timeout={timeout!r} is no time to wait; give a number of seconds, or none to wait for ever"
        )
    gate = Gate(message, tuple(emit), default_outcome, provider, timeout, dict(metadata or {}), collapse)

    def decorate(method: M) -> M:
        if hasattr(method, NOTE):
            raise FlowDefinitionError(f"write @human_feedback below @start, @listen or @router of {method.__name__}")
        setattr(method, GATE, gate)
        return method

    return decorate


def find_outcome(feedback: str, options: tuple[str, ...]) -> str | None:
    """The one option that an answer names: as a whole, or as the only one whose words it contains."""
    said = _words(feedback)
    exact = [option for option in options if _words(option) == said]
    named = exact or [option for option in options if f" {_words(option)} " in f" {said} "]
    return named[0] if len(named) == 1 else None


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold().replace("_", " ")))
