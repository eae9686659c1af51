"""Exit rules: what a rule decided after a step."""

from __future__ import annotations

from typing import ClassVar

from holdfast.events._base import BaseEvent


class ExitRuleMatchedEvent(BaseEvent):
    """A rule of a step's exits applied: the four that follow say what it decided."""

    type: ClassVar[str] = "exit_rule_matched"

    step: str
    rule: str = ""
    attempt: int = 1


class ExitAdvancedEvent(ExitRuleMatchedEvent):
    """A rule let the job go on from a step."""

    type: ClassVar[str] = "exit_advanced"


class ExitLoopedEvent(ExitRuleMatchedEvent):
    """A rule sent the job back to a step for a new attempt."""

    type: ClassVar[str] = "exit_looped"

    target: str
    iteration: int = 1


class ExitEscalatedEvent(ExitRuleMatchedEvent):
    """A rule paused the job for a person."""

    type: ClassVar[str] = "exit_escalated"

    reason: str = ""


class ExitAbandonedEvent(ExitRuleMatchedEvent):
    """A rule gave the job up."""

    type: ClassVar[str] = "exit_abandoned"

    reason: str = "abandoned"


class ExitUnmatchedEvent(BaseEvent):
    """None of a step's rules applied, and this is what happened instead."""

    type: ClassVar[str] = "exit_unmatched"

    step: str
    outcome: str
    attempt: int = 1


class ExitEvaluationFailedEvent(BaseEvent):
    """The expression of a rule could not be evaluated, so its step failed."""

    type: ClassVar[str] = "exit_evaluation_failed"

    step: str
    rule: str = ""
    expression: str
    error: str
    error_type: str = ""
