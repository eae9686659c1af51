"""Kicking something off: what flows, crews and agents have in common between a call and its result.

A `Front` says what is run and how its events are called. `launch` and its three sisters open a journal if there is one, start
the run, drive the graph, and hand back the result, a stream, or a `Pending`.
"""

from __future__ import annotations

from holdfast.kickoff._asking import Asking
from holdfast.kickoff._budget import Budget, check_budgets, count_usage
from holdfast.kickoff._front import Front, Moment, Saver
from holdfast.kickoff._kickoff import Kickoff, Pending
from holdfast.kickoff._launch import alaunch, alaunch_stream, launch, launch_stream
from holdfast.kickoff._opening import Plan
from holdfast.kickoff._recorded import answer_to, find_recorded, questions_of
from holdfast.kickoff._secrets import missing_secrets
from holdfast.kickoff._state import FlowState, with_id

__all__ = [
    "Asking",
    "Budget",
    "FlowState",
    "Front",
    "Kickoff",
    "Moment",
    "Pending",
    "Plan",
    "Saver",
    "alaunch",
    "alaunch_stream",
    "answer_to",
    "check_budgets",
    "count_usage",
    "find_recorded",
    "launch",
    "launch_stream",
    "missing_secrets",
    "questions_of",
    "with_id",
]
