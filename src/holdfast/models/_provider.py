"""`ProviderModel`: a model of a provider, reached through pydantic-ai, which is imported when first needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from msgspec import Struct
from pydantic import SecretStr

from holdfast.errors import ModelKeyMissingError, UsageError
from holdfast.models._calls import ModelSettings, Reply, StreamPart, ToolSpec
from holdfast.models._messages import Message
from holdfast.models._model import Model
from holdfast.models._usage import PriceTable

if TYPE_CHECKING:
    from holdfast.models._backend import Backend


class Target(Struct, frozen=True):
    """Where requests go. Made for a moment, never kept: it holds the key in clear."""

    name: str
    base_url: str | None
    api_key: str | None
    prices: PriceTable

    def __repr__(self) -> str:
        return f"<Target {self.name}>"


class _Line:
    """The connections of one event loop, and how many blocks keep them."""

    def __init__(self) -> None:
        self.users = 0
        self.backend: Backend | None = None
        self.ready = asyncio.Lock()


class ProviderModel(Model):
    """A model by name: `"openai:gpt-4o"`, `"anthropic:claude-opus-5"`, `"google:gemini-2.5-pro"`, and so on.

    `openai:` speaks chat completions, which every compatible endpoint has too (give its `base_url`); `openai-responses:`
    speaks OpenAI's newer protocol. The key comes from `api_key` or from the environment (`OPENAI_API_KEY`, …); it is never
    shown, stored or put into an error. Costs come from `prices`, else from the table that pydantic-ai brings for the
    providers' own endpoints; a price that is in neither is not known.
    """

    tag: ClassVar[str] = "provider"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        prices: PriceTable | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        provider, _, model = name.partition(":")
        if not provider or not model:
            raise UsageError(f"{name!r} names no model; write provider:model, as in 'openai:gpt-4o'")
        _check_url(base_url)
        self._name = name
        self._base_url = base_url
        self._api_key = SecretStr(api_key) if isinstance(api_key, str) else api_key
        self._needs_key = False
        self._is_loaded = False
        self._prices = prices or {}
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._name

    # -- connections -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Keep connections on this loop for the block. Blocks may overlap; the last one to end closes them."""
        async with self._connected():
            yield self

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Backend]:
        line = self._line()
        line.users += 1
        try:
            yield line.backend or await self._connect(line)
        finally:
            line.users -= 1
            if not line.users:
                await asyncio.shield(_hang_up(line))

    def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._lines.setdefault(loop, _Line())

    async def _connect(self, line: _Line) -> Backend:
        async with line.ready:
            if line.backend is None:
                line.backend = await self._make_backend()
            return line.backend

    async def _make_backend(self) -> Backend:
        target = self._target()
        if self._is_loaded:
            return _make_backend(target)
        backend = await asyncio.to_thread(_make_backend, target)  # imports for a second or two: not on the loop
        self._is_loaded = True
        return backend

    def _target(self) -> Target:
        if self._needs_key and self._api_key is None:
            raise ModelKeyMissingError(
                f"{self.name} was stored without its key, as every model is; give it again with with_key()",
                model=self.name,
            )
        key = self._api_key.get_secret_value() if self._api_key else None
        return Target(self._name, self._base_url, key, self._prices)

    # -- calls -----------------------------------------------------------------------------------------------------

    async def request_once(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> Reply:
        async with self._connected() as backend:
            return await backend.request(messages, tools, settings)

    async def stream_once(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[StreamPart, None]:
        async with self._connected() as backend, aclosing(backend.stream(messages, tools, settings)) as parts:
            async for part in parts:
                yield part

    # -- stored form -----------------------------------------------------------------------------------------------

    def to_stored(self) -> dict[str, Any]:
        return {
            "type": self.tag,
            "name": self._name,
            "base_url": self._base_url,
            "needs_key": self._needs_key or self._api_key is not None,
        }

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> ProviderModel:
        model = cls(stored["name"], base_url=stored["base_url"])
        model._needs_key = stored["needs_key"]
        return model

    @property
    def needs_key(self) -> bool:
        """Whether it was restored from a form whose key must be given again."""
        return self._needs_key and self._api_key is None

    def with_key(self, api_key: str | SecretStr) -> Self:
        """Give a restored model its key again; returns the model itself."""
        self._api_key = SecretStr(api_key) if isinstance(api_key, str) else api_key
        return self


def _make_backend(target: Target) -> Backend:
    """Connections to `target`. Raises UsageError when pydantic-ai is not installed, and as `connect` does."""
    try:
        from holdfast.models._backend import Backend
    except ImportError as error:
        raise UsageError(f"models of providers need pydantic-ai: pip install 'holdfast[models]' ({error})") from error
    return Backend(target)


async def _hang_up(line: _Line) -> None:
    async with line.ready:  # whoever is just connecting comes first
        if line.users or line.backend is None:
            return
        backend, line.backend = line.backend, None
    await backend.aclose()


def _check_url(base_url: str | None) -> None:
    if base_url is None:
        return
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"base_url must begin with http:// or https:// and name a host, not {base_url!r}")
    if parts.username or parts.password:
        raise UsageError("base_url must not carry a user or password, which would be shown and stored; use api_key")
