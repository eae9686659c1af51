"""Where journals are kept: in memory, in one SQLite file, in PostgreSQL. All pass `JournalStoreConformance`.

Where jobs and their queue are kept: `…Jobs`. These pass `JobStoreConformance`.

Where schedules are kept, beside the jobs that they fire: `…Schedules`. These pass `ScheduleStoreConformance`.

What is to be told of jobs: `…Outbox`. These pass `OutboxConformance`.

Where live resources are written down: `…Ledger`. These pass `LedgerConformance`.

And where `@persist` flows keep their states: `…Persistence`. These pass `FlowPersistenceConformance`.

Imported on first use, so that a program pays only for the store it has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.stores._memory import MemoryStore as MemoryStore
    from holdfast.stores._memory_jobs import MemoryJobs as MemoryJobs
    from holdfast.stores._memory_ledger import MemoryLedger as MemoryLedger
    from holdfast.stores._memory_outbox import MemoryOutbox as MemoryOutbox
    from holdfast.stores._memory_schedules import MemorySchedules as MemorySchedules
    from holdfast.stores._memory_states import MemoryPersistence as MemoryPersistence
    from holdfast.stores._postgres import PostgresStore as PostgresStore
    from holdfast.stores._postgres_ledger import PostgresLedger as PostgresLedger
    from holdfast.stores._sqlite import SqliteStore as SqliteStore
    from holdfast.stores._sqlite_jobs import SqliteJobs as SqliteJobs
    from holdfast.stores._sqlite_ledger import SqliteLedger as SqliteLedger
    from holdfast.stores._sqlite_outbox import SqliteOutbox as SqliteOutbox
    from holdfast.stores._sqlite_schedules import SqliteSchedules as SqliteSchedules
    from holdfast.stores._sqlite_states import SqlitePersistence as SqlitePersistence

_WHERE = {
    "MemoryJobs": "_memory_jobs",
    "MemoryLedger": "_memory_ledger",
    "MemoryOutbox": "_memory_outbox",
    "MemoryPersistence": "_memory_states",
    "MemorySchedules": "_memory_schedules",
    "MemoryStore": "_memory",
    "PostgresLedger": "_postgres_ledger",
    "PostgresStore": "_postgres",
    "SqliteJobs": "_sqlite_jobs",
    "SqliteLedger": "_sqlite_ledger",
    "SqliteOutbox": "_sqlite_outbox",
    "SqlitePersistence": "_sqlite_states",
    "SqliteSchedules": "_sqlite_schedules",
    "SqliteStore": "_sqlite",
}

__all__ = [
    "MemoryJobs",
    "MemoryLedger",
    "MemoryOutbox",
    "MemoryPersistence",
    "MemorySchedules",
    "MemoryStore",
    "PostgresLedger",
    "PostgresStore",
    "SqliteJobs",
    "SqliteLedger",
    "SqliteOutbox",
    "SqlitePersistence",
    "SqliteSchedules",
    "SqliteStore",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.stores' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.stores.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
