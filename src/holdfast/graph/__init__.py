"""One graph for flows, crews and flow files: its model, its pure core, and the scheduler that drives it."""

from __future__ import annotations

from holdfast.graph._core import (
    Cancel,
    Command,
    Complete,
    Execution,
    Fail,
    GraphState,
    Park,
    Start,
    decide,
    evolve,
    failure_key,
    fold,
    results_needed,
)
from holdfast.graph._facts import Began, Cancelled, Completed, Fact, Failed, Started, StepFailure, Waiting
from holdfast.graph._model import (
    AllOf,
    AnyOf,
    Condition,
    Graph,
    Node,
    Source,
    each_label,
    failure_label,
    gathered_label,
    holds,
    labels_of,
    route_label,
)
from holdfast.graph._picture import to_html, to_mermaid, to_svg
from holdfast.graph._program import Program
from holdfast.graph._scheduler import Scheduler, end_with

__all__ = [
    "AllOf",
    "AnyOf",
    "Began",
    "Cancel",
    "Cancelled",
    "Command",
    "Complete",
    "Completed",
    "Condition",
    "Execution",
    "Fact",
    "Fail",
    "Failed",
    "Graph",
    "GraphState",
    "Node",
    "Park",
    "Program",
    "Scheduler",
    "Source",
    "Start",
    "Started",
    "StepFailure",
    "Waiting",
    "decide",
    "each_label",
    "end_with",
    "evolve",
    "failure_key",
    "failure_label",
    "fold",
    "gathered_label",
    "holds",
    "labels_of",
    "results_needed",
    "route_label",
    "to_html",
    "to_mermaid",
    "to_svg",
]
