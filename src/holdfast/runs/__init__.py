"""Runs: what executes, what it owns, and the one way it ends."""

from __future__ import annotations

from holdfast.runs._end import End, RunRef
from holdfast.runs._holdings import Holding
from holdfast.runs._run import Run, RunEntity
from holdfast.runs._status import MEANINGS, TRANSITIONS, RunStatus, Transition
from holdfast.runs._steps import Step

__all__ = ["MEANINGS", "TRANSITIONS", "End", "Holding", "Run", "RunEntity", "RunRef", "RunStatus", "Step", "Transition"]
