"""Buffers: frames between the run that writes them and one reader, in whatever threads or loops the two live.

Neither side ever waits for the other inside. Who is to be woken is put down first and looks at the frames again afterwards;
who brings frames looks for somebody to wake afterwards: so no wake-up is missed, and the common way needs no lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from holdfast.errors import UsageError
from holdfast.streaming._frames import Frame, dropped

CAPACITY = 1024


class Buffer:
    """Frames on their way to one reader. The run's tree delivers one frame at a time; who reads, and where, is free."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise UsageError("a stream holds at least 1 frame")
        self._capacity = capacity
        self._frames: deque[Frame] = deque()
        self._wakes: list[Callable[[], object]] = []
        self._closed = False
        self.has_left = False
        """Whether the reader is gone. A finaliser may set it: the next frame finds that out."""

    def put(self, frame: Frame) -> None:
        """A frame from the run. Ignored once the run or the reader has ended."""
        if not (self._closed or self.has_left):
            self._frames.append(frame)
            if self._wakes:
                self._wake_all()

    def pop(self) -> Frame | None:
        """The next frame, if there is one."""
        try:
            return self._frames.popleft()
        except IndexError:
            return None

    @property
    def is_over(self) -> bool:
        """Whether nothing is left and nothing will come."""
        return self.has_left or (self._closed and not self._frames)

    def notify(self, wake: Callable[[], object]) -> None:
        """Have `wake` called when there is something to read, or the end: perhaps at once, perhaps from another thread."""
        self._wakes.append(wake)
        if self._frames or self._closed or self.has_left:
            self._wake_all()

    def _wake_all(self) -> None:
        with suppress(IndexError):  # another thread took the last one
            while self._wakes:
                self._wakes.pop()()

    def close(self) -> None:
        """The run has ended: what is in the buffer is still read."""
        self._closed = True
        self._wake_all()

    def leave(self) -> None:
        """The reader wants no more: what is in the buffer is thrown away, and nobody waits for it any more."""
        self.has_left = True
        self._frames.clear()
        self.close()


class OwnerBuffer(Buffer):
    """Keeps every frame. While there are as many as it should hold, those who write are asked to wait."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        self._lock = threading.Lock()
        self._room: Future[None] | None = None

    def crowded(self) -> Future[None] | None:
        """What a writer waits for, while the reader is behind: done when half of the frames are read, or none will be."""
        if len(self._frames) < self._capacity or self._closed:
            return None
        with self._lock:
            room = self._room = self._room or Future()
        if len(self._frames) < self._capacity or self._closed:
            self._make_room()
        return room

    def pop(self) -> Frame | None:
        try:
            frame = self._frames.popleft()
        except IndexError:
            return None
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
        self._lock = threading.Lock()
        self._missed: Frame | None = None
        self._count = 0

    def put(self, frame: Frame) -> None:
        with self._lock:
            if len(self._frames) >= self._capacity:
                self._missed, self._count = frame, self._count + 1
                return
            self._tell()
        super().put(frame)

    def pop(self) -> Frame | None:
        frame = super().pop()
        if frame is None and self._missed is not None:
            with self._lock:
                self._tell()
            frame = super().pop()
        return frame

    def close(self) -> None:
        with self._lock:
            self._tell()
        super().close()

    def _tell(self) -> None:
        if self._missed is not None and not self.has_left:
            self._frames.append(dropped(self._count, self._missed))
        self._missed, self._count = None, 0
