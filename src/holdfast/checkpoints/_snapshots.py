"""Snapshots bound what a restore reads. They are made by restoring, so they cannot disagree with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from holdfast.checkpoints._blobs import BlobWriter
from holdfast.checkpoints._fold import Fold
from holdfast.errors import ClosedError, FencedError, HoldfastError
from holdfast.logs import get_logger
from holdfast.ports import Batch, JournalStore, Session, Snapshot
from holdfast.threads import LoopThread

log = get_logger("checkpoints")
LEAST = 1_000_000
"""Bytes of journal below which a snapshot would save next to nothing."""


class Snapshots:
    """Writes a snapshot when the journal since the last one is as large as that: bytes stay linear, restores bounded."""

    def __init__(
        self,
        store: JournalStore,
        session: Session,
        loop_thread: LoopThread,
        fold_upto: Callable[[int], Awaitable[Fold]],
        least: int | None = None,
    ) -> None:
        self._store = store
        self._session = session
        self._loop_thread = loop_thread
        self._fold_upto = fold_upto
        self._least = LEAST if least is None else least
        self.due_at = self._least
        """How many bytes the run comes to when the next one is due."""
        self._last = 0
        """How many there were at the last one."""
        self._writing: Future[None] | None = None

    def note(self, batch: Batch, taken: int) -> None:
        """A batch was stored, of a run that has come to so many bytes. Starts a snapshot beside the run when one is due; it never
        holds a step up."""
        if taken < self.due_at or batch.status is not None or (self._writing and not self._writing.done()):
            return
        self._last, self.due_at = taken, taken + self._least
        self._writing = self._loop_thread.submit(self._write(batch.rows[-1].seq))

    async def _write(self, seq: int) -> None:
        try:
            data = (await self._fold_upto(seq)).encode()
            self.due_at = self._last + max(self._least, len(data))
            blobs = BlobWriter()
            small = blobs.extract(data)
            await self._store.append(Batch(self._session, blobs=blobs.take_all(), snapshot=Snapshot(seq, small)))
        except (FencedError, ClosedError) as error:  # the run was over first: that is no news to anybody
            log.debug("no snapshot of run %s at %d: %s", self._session.root_run_id, seq, error)
        except HoldfastError as error:  # the rows are all there: only a restore will take longer
            log.warning("no snapshot of run %s at %d: %s", self._session.root_run_id, seq, error)
