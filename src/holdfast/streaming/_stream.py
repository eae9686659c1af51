"""`RunStream`, which owns the run it shows, and `Observer`, which only looks on."""

from __future__ import annotations

import warnings
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from holdfast.errors import RunFailedError
from holdfast.runs import Run
from holdfast.streaming._buffers import CAPACITY, Buffer, ObserverBuffer
from holdfast.streaming._channel import channel_of_run
from holdfast.streaming._reader import FrameReader
from holdfast.threads import done_here


class RunStream(FrameReader):
    """The frames of a run and of the runs inside it, while it goes on.

    `for frame in stream`, or `async for`, ends when the run has ended; if it failed or was cancelled by somebody else, the
    iteration raises that after the last frame, once. `result` reads what is left and gives what the run ended with. Use it
    as a context manager, or `close()` it: leaving early cancels the run and waits until nothing of it is left. A
    stream that is thrown away while its run goes on cancels the run too, with a ResourceWarning.
    """

    _settled = True
    """Whether nobody has to be told that the run goes on: the end was seen, or it was closed."""

    def __init__(self, buffer: Buffer, run: Run | None, recalled: Any = None) -> None:
        super().__init__(buffer, run.loop if run is not None else None)
        self._run = run
        self._recalled = recalled
        self._settled = False
        if run is not None:
            run.is_watched = True

    @classmethod
    def over(cls, result: Any) -> Self:
        """The stream of a run that was over before: no frames, and the result that it had then."""
        buffer = Buffer()
        buffer.close()
        return cls(buffer, None, result)

    @property
    def run_id(self) -> str:
        """The id of the run it shows."""
        return self._run.id if self._run is not None else ""

    def observe(self, capacity: int = CAPACITY) -> Observer:
        """Another stream of the same frames, from here on. Raises RunEndedError if the run is ending."""
        return observe(self._run, capacity) if self._run is not None else Observer(self._buffer, None)

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def result(self) -> Any:
        """What the run ended with, after reading all that is left; raises what it failed with, or RunCancelledError.

        Raises SyncInAsyncError in the loop that the run lives on, while it goes on: `await aresult()` there.
        """
        for _ in self:
            pass
        return self._outcome()

    async def aresult(self) -> Any:
        """`result` for coroutines."""
        async for _ in self:
            pass
        return self._outcome()

    def _outcome(self) -> Any:
        """What the run has ended with, as a plain kickoff returns or raises it. Waits for the end, in a thread."""
        if self._run is None:
            return self._recalled
        try:
            return self._run.result()
        except RunFailedError as error:
            if (cause := error.__cause__) is None:
                raise
            raise cause from cause.__cause__

    def _end(self) -> None:
        if not self._settled:
            if self._is_live:
                self._refuse_to_block("iterating with `for`", "`async for`")
            self._settle()
            self._outcome()

    async def _aend(self) -> None:
        if not self._settled:
            if self._run is not None:
                await done_here(self._run.ending.done)
            self._settle()
            self._outcome()

    def _settle(self) -> None:
        self._settled = True

    # -- leaving ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel the run if it goes on, and wait until nothing of it is left. Twice is fine.

        Raises SyncInAsyncError in the loop that the run lives on: `await aclose()` there.
        """
        if self._is_live:
            self._refuse_to_block("close()", "`await aclose()`")
        if (run := self._leave()) is not None:
            run.ending.done.result()

    async def aclose(self) -> None:
        """`close` for coroutines."""
        if (run := self._leave()) is not None:
            await done_here(run.ending.done)

    @property
    def _is_live(self) -> bool:
        return self._run is not None and not self._run.ending.done.done()

    def _leave(self) -> Run | None:
        """Read no more. Returns the run if its end must be waited for."""
        live = self._run if self._is_live else None
        if live is not None:
            live.cancel(CLOSED)
        self._settle()
        self._buffer.leave()
        return live

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._settled or not self._is_live:
            return
        run, loop = self._run, self._loop
        if run is not None and loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and the run ended with it
                loop.call_soon_threadsafe(run.cancel, ABANDONED)  # not from here: a finaliser may hold any lock
        warnings.warn(
            f"the stream of {run!r} was thrown away before its end, so its run is cancelled; read it to the end, or close it",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )


CLOSED = "its stream was closed"
ABANDONED = "its stream was thrown away unread"


class Observer(FrameReader):
    """The frames of a run for somebody who only looks on: never waited for, so a slow one misses some.

    Where frames are missing there is one of type `dropped`, whose `data["count"]` says how many. It ends with the run,
    however that ends; closing it, or throwing it away, leaves the run alone.
    """

    def close(self) -> None:
        """Look on no more."""
        self._buffer.leave()

    async def aclose(self) -> None:
        """`close`, for code that closes streams of either kind."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._buffer.has_left = True  # the next frame finds that out


def observe(run: Run, capacity: int = CAPACITY) -> Observer:
    """Look on at a run from here on, without owning it. Raises RunEndedError if it is ending."""
    buffer = ObserverBuffer(capacity)
    channel_of_run(run).join(buffer)
    return Observer(buffer, run.loop)
