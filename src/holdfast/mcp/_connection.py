"""One connection to an MCP server, kept by a task of its own.

The SDK's client ends the task it was opened in when its connection breaks. So it lives in a task that does nothing else,
and a caller is told of the break instead of being cancelled by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from holdfast.errors import McpConnectionError
from holdfast.mcp._places import Enter, Place

T = TypeVar("T")


class Connection:
    """Open from `open()` to `aclose()`, or until it breaks. Belongs to the loop it was opened on."""

    def __init__(self, place: Place, seconds: float) -> None:
        self._place = place
        self._seconds = seconds
        self._stop = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._client: Any = None
        self._why = ""

    @property
    def is_open(self) -> bool:
        return self._client is not None and self._keeper is not None and not self._keeper.done()

    @property
    def is_here(self) -> bool:
        """Whether it belongs to the running loop."""
        return self._keeper is not None and self._keeper.get_loop() is asyncio.get_running_loop()

    async def open(self) -> None:
        """Connect and shake hands. Raises McpConnectionError; nothing is left open then."""
        enter = await asyncio.to_thread(self._place.load)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep(enter, ready), name=f"holdfast-mcp-{self._place.name}")
        try:
            await asyncio.wait({ready, self._keeper}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            if not self.is_open:
                raise self._unreachable()
        except BaseException:
            await self.aclose()
            raise

    async def _keep(self, enter: Enter, ready: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                self._client = await enter(stack)
                ready.set_result(None)
                await self._stop.wait()
        except asyncio.CancelledError:
            self._why = self._why or "the connection was given up"
        except Exception as error:
            self._why = _reason(error)
        finally:
            ready.cancel()

    def _unreachable(self) -> McpConnectionError:
        why = self._why or f"it did not answer within {self._seconds:g} s"
        return McpConnectionError(self._place.unreachable(why), server=self._place.name)

    async def use(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """What `call(client)` gives. Raises McpConnectionError when the connection breaks meanwhile."""
        if not self.is_open or self._keeper is None:
            raise self.lost()
        working = asyncio.ensure_future(call(self._client))
        try:
            await asyncio.wait({working, self._keeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        if working.cancelled():
            raise self.lost()
        if (error := working.exception()) is not None and self._keeper.done():
            raise self.lost() from error
        return working.result()

    def lost(self) -> McpConnectionError:
        """What a caller is told whose answer cannot come any more."""
        return McpConnectionError(self._place.lost(self._why), server=self._place.name)

    async def aclose(self) -> None:
        """Say goodbye and end. Closing twice is fine."""
        self._stop.set()
        if self._keeper is None or self._keeper.done():
            return
        if self._client is None:  # still shaking hands: nothing to say goodbye to
            self._keeper.cancel()
        _, pending = await asyncio.wait({self._keeper}, timeout=self._seconds)
        if pending:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})


def _reason(error: BaseException) -> str:
    cause = innermost(error)
    return str(cause) or type(cause).__name__


def innermost(error: BaseException) -> BaseException:
    """What went wrong, out of the groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error
