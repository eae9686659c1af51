"""Identifiers: time-ordered, unique across processes, cheap to make."""

from __future__ import annotations

from collections.abc import Callable

from uuid_utils import uuid7

IdFactory = Callable[[], str]


def new_id() -> str:
    """A uuid7 in its usual text form. Later ids of one process sort after earlier ones."""
    return str(uuid7())
