"""The log of a run that is recorded because its bus records: in memory, and giving up sooner than failing the run."""

from __future__ import annotations

from typing import Any

from holdfast.checkpoints._document import Document
from holdfast.checkpoints._log import RunLog
from holdfast.context import position
from holdfast.errors import NotStorableError, StorageError
from holdfast.events._base import BaseEvent
from holdfast.events._delivery import Encoder
from holdfast.ports import Row

MOST = 20_000


class LooseLog(RunLog):
    """A `RunLog` that nobody asked to be durable: what cannot be stored ends the log, not the run."""

    problem: StorageError | None = None
    """Why there can be no checkpoint of this run."""

    def record(self, event: BaseEvent) -> None:
        try:
            super().record(event)
        except NotStorableError as error:
            self._give_up_telling(error)

    def encoder(self, event_type: type[BaseEvent]) -> Encoder:
        encode = super().encoder(event_type)

        def encode_or_give_up(payload: dict[str, Any]) -> bytes:
            try:
                return encode(payload)
            except NotStorableError as error:
                self._give_up_telling(error)
                return b""  # nothing is written any more

        return encode_or_give_up

    def write(self, *told: Any) -> Row:
        if self.problem is None and self._seq >= MOST:
            self.give_up(
                StorageError(f"the run has more than {MOST} events, too many to keep: give it a CheckpointConfig")
            )
        if self.problem is None:
            return super().write(*told)
        tag, payload, changed, event_id, at_us, run_id, *origin = told
        return Row(self._seq, tag, event_id, at_us, run_id, payload, changed, *origin)

    def _give_up_telling(self, error: NotStorableError) -> None:
        if self.problem is None:
            _trace(error, "told of")
            self.give_up(error)

    def give_up(self, error: StorageError) -> None:
        """Keep no more of this run."""
        if isinstance(error, NotStorableError) and not error.step:
            _trace(error, "left in the state")
        self.problem = error
        self._rows.clear()

    async def document(self) -> Document:
        if self.problem is not None:
            raise self.problem
        return await super().document()


def _trace(error: NotStorableError, deed: str) -> None:
    """Say which step it comes from, if this code stands in one: whoever asks for a checkpoint later cannot know."""
    if step := (position.get().step_id or "").rpartition("#")[0]:
        error.trace_to(step, deed)
