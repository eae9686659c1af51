"""How much runs at once, changed while the queue is served."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from holdfast.ports import Caps
from holdfast.service._settings import read_settings, write_settings
from holdfast.service._worker import Worker, WorkerOptions


class Tuning:
    """Places and caps of a project. With a worker a change counts for it at once; for others when they start."""

    def __init__(self, home: Path, worker: Worker | None = None) -> None:
        self._home, self._worker = home, worker

    @property
    def counts_at_once(self) -> bool:
        return self._worker is not None

    def now(self) -> WorkerOptions:
        """What counts: for the worker of this process, else for the next one. Raises ConfigurationError if that cannot be read."""
        return read_settings(self._home) if self._worker is None else self._worker.options

    def change(self, places: int, caps: Caps) -> WorkerOptions:
        """Keep it, then let it count. Raises UsageError for a cap that is none, and ConfigurationError if it cannot be kept."""
        options = replace(self.now(), places=places, caps=caps)
        write_settings(self._home, options)
        if self._worker is not None:
            self._worker.change(options)
        return self.now()
