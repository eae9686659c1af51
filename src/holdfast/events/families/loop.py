"""Loops: the rounds between the first turn back to a step and the way out."""

from __future__ import annotations

from typing import ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class LoopStartedEvent(BaseEvent):
    """A rule turned back to a step for the first time."""

    type: ClassVar[str] = "loop_started"
    opens: ClassVar[ScopeKind | None] = "loop"

    target: str
    max_iterations: int | None = None


class LoopIterationEvent(BaseEvent):
    """A loop began another round."""

    type: ClassVar[str] = "loop_iteration"

    target: str
    iteration: int


class LoopFinishedEvent(BaseEvent):
    """A loop was left because its rule no longer turned back."""

    type: ClassVar[str] = "loop_finished"
    closes: ClassVar[ScopeKind | None] = "loop"

    target: str
    iterations: int = 0


class LoopExhaustedEvent(BaseEvent):
    """A loop was stopped because it made as many rounds as it may."""

    type: ClassVar[str] = "loop_exhausted"
    closes: ClassVar[ScopeKind | None] = "loop"

    target: str
    iterations: int = 0
    max_iterations: int | None = None


class LoopCancelledEvent(BaseEvent):
    """A loop was cut off because its run ended."""

    type: ClassVar[str] = "loop_cancelled"
    closes: ClassVar[ScopeKind | None] = "loop"

    target: str
    iterations: int = 0
    reason: str = ""
