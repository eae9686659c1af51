"""Flows in Python: a class whose methods trigger one another."""

from __future__ import annotations

from holdfast.flow._conditions import and_, each, failed, gathered, or_
from holdfast.flow._decorators import listen, router, start
from holdfast.flow._flow import Flow
from holdfast.flow._human import human_feedback
from holdfast.flow._persist import persist
from holdfast.human import HumanFeedbackResult
from holdfast.kickoff import FlowState, Pending

__all__ = [
    "Flow",
    "FlowState",
    "HumanFeedbackResult",
    "Pending",
    "and_",
    "each",
    "failed",
    "gathered",
    "human_feedback",
    "listen",
    "or_",
    "persist",
    "router",
    "start",
]
