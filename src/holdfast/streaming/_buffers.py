"""Buffers: frames between the run that writes them and one reader, in whatever threads or loops the two live."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from holdfast.errors import UsageError
from holdfast.streaming._frames import Frame, dropped

CAPACITY = 1024


class Buffer:
    """Frames on their way to one reader. Safe for threads; neither side ever waits inside."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise UsageError("a stream holds at least 1 frame")
        self._capacity = capacity
        self._lock = threading.RLock()  # a finaliser may come in while this very thread is inside
        self._frames: deque[Frame] = deque()
        self._arrival: Future[None] | None = None
        self._closed = False
        self.has_left = False
        """Whether the reader is gone. Set without the lock: by finalisers too."""

    def put(self, frame: Frame) -> None:
        """A frame from the run. Ignored once the run or the reader has ended."""
        with self._lock:
            if self._closed or self.has_left:
                return
            self._keep(frame)
            arrival, self._arrival = self._arrival, None
        if arrival is not None:
            arrival.set_result(None)

    def _keep(self, frame: Frame) -> None:
        self._frames.append(frame)

    def pop(self) -> Frame | None:
        """The next frame, if there is one."""
        with self._lock:
            return self._frames.popleft() if self._frames else None

    @property
    def is_over(self) -> bool:
        """Whether nothing is left and nothing will come."""
        with self._lock:
            return self.has_left or (self._closed and not self._frames)

    def arrival(self) -> Future[None] | None:
        """What a reader waits for; None if there is something to read, or the end, already."""
        with self._lock:
            if self._frames or self._closed or self.has_left:
                return None
            if self._arrival is None:
                self._arrival = Future()
            return self._arrival

    def close(self) -> None:
        """The run has ended: what is in the buffer is still read."""
        with self._lock:
            self._closed = True
            arrival, self._arrival = self._arrival, None
        if arrival is not None:
            arrival.set_result(None)

    def leave(self) -> None:
        """The reader wants no more: what is in the buffer is thrown away, and nothing waits for it any more."""
        self.has_left = True
        with self._lock:
            self._frames.clear()
        self.close()


class OwnerBuffer(Buffer):
    """Keeps every frame. While there are more than it should hold, those who write are asked to wait."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        self._room: Future[None] | None = None

    def crowded(self) -> Future[None] | None:
        """What a writer waits for, while the reader is behind: done when half of the frames are read, or none will be."""
        if len(self._frames) < self._capacity:
            return None
        with self._lock:
            if len(self._frames) < self._capacity or self._closed or self.has_left:
                return None
            if self._room is None:
                self._room = Future()
            return self._room

    def pop(self) -> Frame | None:
        frame = super().pop()
        if self._room is not None and len(self._frames) <= self._capacity // 2:
            self._make_room()
        return frame

    def close(self) -> None:
        super().close()
        self._make_room()

    def _make_room(self) -> None:
        with self._lock:
            room, self._room = self._room, None
        if room is not None:
            room.set_result(None)


class ObserverBuffer(Buffer):
    """Holds so many frames and no more: what comes while it is full is counted, and told in one `dropped` frame."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        self._missed: Frame | None = None
        self._count = 0

    def _keep(self, frame: Frame) -> None:
        if len(self._frames) >= self._capacity:
            self._missed, self._count = frame, self._count + 1
            return
        if self._missed is not None:
            self._tell()
        self._frames.append(frame)

    def pop(self) -> Frame | None:
        with self._lock:
            if not self._frames and self._missed is not None:
                self._tell()
            return super().pop()

    def close(self) -> None:
        with self._lock:
            if self._missed is not None and not self.has_left:
                self._tell()
            super().close()

    def _tell(self) -> None:
        assert self._missed is not None
        self._frames.append(dropped(self._count, self._missed))
        self._missed, self._count = None, 0
