"""How a run ends: asked for by anyone, carried out by `finish()` alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn

from msgspec import Struct

from holdfast.errors import AlreadyFinishedError, RunCancelledError, RunFailedError
from holdfast.runs._status import RunStatus


class End(Struct, frozen=True):
    """How a run ends, or is to end."""

    status: RunStatus
    reason: str = ""
    result: Any = None
    error: BaseException | None = None
    departed: bool = False
    """nobody decided that it should end: whoever ran it left. In its journal it stays as it was, to be taken up again"""

    @property
    def stored_status(self) -> RunStatus:
        return RunStatus.RUNNING if self.departed else self.status


class Ending:
    """The way from the first request to the end. The first request wins; the door is passed once."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lock = threading.Lock()
        self._entered = False
        self.is_requested = False
        """Whether there was a request: every step looks."""
        self.on_request: Callable[[], None] | None = None
        """What is called when somebody asks who does not finish it himself."""
        self._requested: Future[End] | None = None
        self.asked: End | None = None
        """What the first request asked for."""
        self._done: Future[End] | None = None
        self._waking: list[Callable[[], None]] = []
        self.end: End | None = None
        """How it ended, when nothing of the run is left."""
        self.problem: BaseException | None = None
        """Why the end could not be stored, if it could not."""

    @property
    def requested(self) -> Future[End]:
        """Set by the first request."""
        with self._lock:
            if self._requested is None:  # a run that goes well does without
                self._requested = Future()
                if self.asked is not None:
                    self._requested.set_result(self.asked)
            return self._requested

    @property
    def done(self) -> Future[End]:
        """Set when nothing of the run is left."""
        with self._lock:
            if self._done is None:
                self._done = Future()
                if self.end is not None:
                    self._done.set_result(self.end)
            return self._done

    def wake_when_done(self, wake: Callable[[], None]) -> None:
        """Call `wake`, in whatever thread, when nothing of the run is left."""
        with self._lock:
            if self.end is None:
                self._waking.append(wake)
                return
        wake()

    def close(self, end: End) -> None:
        """Nothing of the run is left."""
        with self._lock:
            self.end = end
            waking, self._waking = self._waking, []
            waiting = self._done
        if waiting is not None:  # first: whoever is woken may look at it
            waiting.set_result(end)
        for wake in waking:
            wake()

    def request(self, end: End) -> bool:
        """Ask for the end. Says whether this was the first request."""
        if not self._ask(end):
            return False
        if (tell := self.on_request) is not None:
            tell()
        return True

    def claim(self, end: End) -> bool:
        """Ask for the end and begin to finish in the same breath. Says whether nobody had asked before."""
        return self._ask(end, entered=True)

    def _ask(self, end: End, entered: bool = False) -> bool:
        with self._lock:
            if self.asked is not None:
                return False
            self.asked, self.is_requested, self._entered = end, True, entered
            waiting = self._requested
        if waiting is not None:
            waiting.set_result(end)
        return True

    @property
    def reason(self) -> str:
        return self.asked.reason if self.asked is not None else ""

    def enter_door(self) -> End:
        """Begin to finish. Raises AlreadyFinishedError for whoever comes second."""
        self.request(End(RunStatus.CANCELLED, "finish() was called without a request"))
        with self._lock:
            if self._entered:
                raise AlreadyFinishedError(
                    f"run {self._run_id} went through finish() before; to end a run call request_end() or cancel()"
                )
            self._entered = True
            assert self.asked is not None
            return self.asked

    @property
    def entered(self) -> bool:
        return self._entered


class RunRef(Struct, frozen=True):
    """What must be remembered of a run to go on with it."""

    run_id: str
    status: RunStatus
    incarnation: int = 1
    sequence: int = 0


def raise_end(run_id: str, name: str, end: End) -> NoReturn:
    """Raise what a caller who wanted a result gets instead."""
    called = f"run {run_id}" + (f" ({name})" if name else "")
    if end.status is RunStatus.CANCELLED:
        raise RunCancelledError(f"{called} was cancelled: {end.reason or 'no reason given'}", reason=end.reason)
    raise RunFailedError(f"{called} failed: {end.reason}") from end.error
