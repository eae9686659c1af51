"""Kicking something off: what flows, crews and agents have in common between a call and its result.

A `Front` says what is run and how its events are called; a `Starter` starts its kickoffs: opens a journal if there is one,
starts the run, drives the graph, and hands back the result, a stream, or a `Pending`.
"""

from __future__ import annotations

from holdfast.kickoff._asking import Asking
from holdfast.kickoff._budget import Budget, Meter, check_budgets, checked_budget, count_usage
from holdfast.kickoff._front import Front, Moment, Saver
from holdfast.kickoff._kickoff import Kickoff, Pending
from holdfast.kickoff._opening import Plan, check_inputs
from holdfast.kickoff._secrets import Secrets, from_environment, request_id_of, variable_of
from holdfast.kickoff._starter import Starter, checkpoint_config, human_provider, named_inputs
from holdfast.kickoff._state import FlowState, exchanged

__all__ = [
    "Asking",
    "Budget",
    "FlowState",
    "Front",
    "Kickoff",
    "Meter",
    "Moment",
    "Pending",
    "Plan",
    "Saver",
    "Secrets",
    "Starter",
    "check_budgets",
    "check_inputs",
    "checked_budget",
    "checkpoint_config",
    "count_usage",
    "exchanged",
    "from_environment",
    "human_provider",
    "named_inputs",
    "request_id_of",
    "variable_of",
]
