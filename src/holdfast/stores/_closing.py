"""Every store is a context manager, plain and async, and says so when it is left unclosed."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Self


class Closing:
    """What a store has beside the port."""

    def close(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError

    def _holds_something(self) -> bool:
        """True while there is something that only closing gives back."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._holds_something():
            warnings.warn(f"{self!r} was never closed", ResourceWarning, stacklevel=2, source=self)
