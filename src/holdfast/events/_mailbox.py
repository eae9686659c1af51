"""Background handlers: each has an ordered, bounded mailbox and one thread that empties it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal

from holdfast.context import Forks
from holdfast.errors import UsageError

Overflow = Literal["block", "drop"]
in_handler: ContextVar[bool] = ContextVar("holdfast_in_handler", default=False)
"""True in the threads and tasks that deliver to handlers on behalf of others."""


class Mailbox:
    """Letters for one handler, delivered one at a time by a thread that starts with the first letter.

    A full box makes `post` wait for room (`overflow="block"`) or drops the letter and counts it (`"drop"`). Whoever delivers to
    handlers never waits, because two of them could wait for each other: its letters go in regardless.
    """

    def __init__(
        self,
        name: str,
        capacity: int,
        overflow: Overflow,
        deliver: Callable[[Any], None],
        overflowed: Callable[[str, int], None],
    ) -> None:
        if capacity < 1 or overflow not in ("block", "drop"):
            raise UsageError(f"{name}: a mailbox holds at least 1 event, and overflow is 'block' or 'drop'")
        self._name = name
        self._capacity = capacity
        self._overflow = overflow
        self._deliver = deliver
        self._overflowed = overflowed
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._letters: deque[tuple[Any, bool]] = deque()
        self._thread: threading.Thread | None = None
        self._delivering = False
        self._closing = False
        self._dropped = 0
        self._told = False
        self._generation = Forks.generation

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in the box, nor being delivered from it."""
        return self._generation != Forks.generation or not (self._letters or self._delivering)

    def post(self, letter: Any, *, always: bool = False) -> None:
        """Put a letter in. `always` is for what must arrive and is no event: a barrier."""
        if self._generation != Forks.generation:
            self._reset()
        tell = False
        with self._changed:
            if self._overflow == "block" and not always and not in_handler.get():
                self._changed.wait_for(lambda: len(self._letters) < self._capacity or self._closing)
            elif self._overflow == "drop" and not always and len(self._letters) >= self._capacity:
                self._dropped += 1
                tell = not self._told
                self._told = True  # until the box is empty: its own report must not make it report for ever
                letter = None
            if letter is not None:
                self._letters.append((letter, always))
                self._changed.notify_all()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name=f"holdfast-{self._name}", daemon=True)
                    self._thread.start()
        if tell:
            self._report()

    def _work(self) -> None:
        in_handler.set(True)
        while self._take_one():
            pass

    def _take_one(self) -> bool:
        """Deliver the next letter; False once the box is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._letters or self._closing)
            if not self._letters:
                self._thread = None
                return False
            self._delivering = True  # first: in between the box must not look idle
            letter, is_barrier = self._letters.popleft()
            self._changed.notify_all()
        try:
            if is_barrier:  # whoever waits behind it, a flush, waits for the report too
                self._report()
            self._deliver(letter)
            if not self._letters:
                self._report()
                self._told = False
        finally:
            self._delivering = False
        return True

    def _report(self) -> None:
        """Say how many letters were dropped since the last time: at the first one, and again when the box is empty."""
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            self._overflowed(self._name, dropped)

    def close(self, timeout: float | None) -> bool:
        """Deliver what is in the box, then end the thread. Says whether that was done within `timeout` seconds."""
        if self._generation != Forks.generation:
            return True
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()
