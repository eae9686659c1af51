"""State: writes of parallel steps that cannot be merged."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent


class StateConflictEvent(BaseEvent):
    """Steps that ran side by side wrote to one path, and no reducer decides between them."""

    type: ClassVar[str] = "state_conflict"

    path: str
    steps: list[str]
    fix: str = ""
    execution: str = ""
    """the execution whose changes could not be merged"""
    result: Any = None
    """what it returned"""
    changes: dict[str, Any] = {}
    """what it changed, and what that was based on: once a reducer decides, it need not run again; empty if there is
    a secret in it, so that it has to"""
