"""`PostgresProvider`: checkpoints in the PostgreSQL database that runs are journalled to."""

from __future__ import annotations

from holdfast.checkpoints._provider_journal import JournalProvider
from holdfast.clock import Clock
from holdfast.stores import PostgresStore


class PostgresProvider(JournalProvider[PostgresStore]):
    """Checkpoints as marks in a PostgreSQL database. Needs `holdfast[postgres]`. Closing it closes the connections."""

    def __init__(self, dsn: str, *, schema: str = "holdfast", clock: Clock | None = None) -> None:
        super().__init__(PostgresStore(dsn, schema=schema), clock=clock)
