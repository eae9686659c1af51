"""What can happen to a graph while it runs. A run's state is the fold of its facts, and of nothing else."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Began(Struct, frozen=True, tag="began"):
    """The run began, or began again with what was recorded: steps in flight then are to be run again."""


class Started(Struct, frozen=True, tag="started"):
    """A step began its nth execution."""

    step: str
    number: int


class Completed(Struct, frozen=True, tag="completed"):
    """An execution gave a result; a router's result names the route it took."""

    step: str
    number: int
    route: str | None = None
    items: int | None = None
    """how many items the result has, if something is to run for each of them"""


class Failed(Struct, frozen=True, tag="failed"):
    """An execution raised."""

    step: str
    number: int
    error: str


class StepFailure(Struct, frozen=True):
    """How a step failed: what a step is given that listens to that."""

    step: str
    error: str
    error_type: str = ""


class Cancelled(Struct, frozen=True, tag="cancelled"):
    """An execution was told to stop, and did."""

    step: str
    number: int


class Waiting(Struct, frozen=True, tag="waiting"):
    """An execution cannot go on until something arrives from outside."""

    step: str
    number: int


Fact: TypeAlias = Began | Started | Completed | Failed | Cancelled | Waiting
