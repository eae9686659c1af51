"""Where journals are kept: in memory, in one SQLite file, in PostgreSQL. All pass `JournalStoreConformance`.

Imported on first use, so that a program pays only for the store it has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.stores._memory import MemoryStore as MemoryStore
    from holdfast.stores._postgres import PostgresStore as PostgresStore
    from holdfast.stores._sqlite import SqliteStore as SqliteStore

_WHERE = {"MemoryStore": "_memory", "PostgresStore": "_postgres", "SqliteStore": "_sqlite"}

__all__ = ["MemoryStore", "PostgresStore", "SqliteStore"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.stores' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.stores.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
