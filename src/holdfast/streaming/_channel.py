"""A run's channel: hears the events of that run and of the runs inside it, and of no other."""

from __future__ import annotations

import threading

from holdfast.context import position
from holdfast.events._base import BaseEvent
from holdfast.runs import Run
from holdfast.streaming._buffers import Buffer
from holdfast.streaming._frames import FrameMaker


class RunChannel:
    """Makes a frame of each event, once, and puts it into the buffer of everyone who reads the run.

    It is a handler in the run's own table. The bus takes an event to the tables of its run and of the runs around that one,
    so what belongs elsewhere never comes here: there is nothing to filter. The run closes it as the last thing before it
    lets go of its memory.
    """

    def __init__(self, run: Run) -> None:
        self._lock = threading.Lock()
        self._buffers: tuple[Buffer, ...] = ()
        self._frames = FrameMaker(run.host.event_bus.path_of)
        run.attach(self)
        run.on(BaseEvent)(self.take)

    def take(self, source: object, event: BaseEvent) -> None:
        """Tell the readers of an event. What is shown again after a restore is not news, and goes to nobody."""
        if position.get().replaying:
            return
        frame = self._frames.frame(event)
        for buffer in self._buffers:
            buffer.put(frame)
            if buffer.has_left:
                self._part(buffer)

    def join(self, buffer: Buffer) -> None:
        """Let one more read, from here on."""
        with self._lock:
            self._buffers = (*self._buffers, buffer)

    def _part(self, gone: Buffer) -> None:
        with self._lock:
            self._buffers = tuple(buffer for buffer in self._buffers if buffer is not gone)

    async def close(self, status: str) -> None:
        """The run has ended, and its last event was the last frame."""
        for buffer in self._buffers:
            buffer.close()


def channel_of_run(run: Run) -> RunChannel:
    """The channel that a run has, or gets now. Raises RunEndedError if it is ending."""
    found = next((channel for channel in run.holdings.channels if isinstance(channel, RunChannel)), None)
    return found or RunChannel(run)
