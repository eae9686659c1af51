"""`SqliteProvider`: checkpoints in the SQLite file that runs are journalled to."""

from __future__ import annotations

import os

from holdfast.checkpoints._provider_journal import JournalProvider
from holdfast.clock import Clock
from holdfast.stores import SqliteStore


class SqliteProvider(JournalProvider[SqliteStore]):
    """Checkpoints as marks in one SQLite file. It costs what changed since the last one. Closing it closes the file."""

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        super().__init__(SqliteStore(path), clock=clock)
