"""`Model`: the port. Whatever answers, this is how it is asked."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any, ClassVar, Self

from holdfast.clock import Clock, SystemClock
from holdfast.errors import ModelError, ModelStreamError, NotStorableError
from holdfast.models._calls import ModelSettings, Reply, StreamPart, ToolSpec
from holdfast.models._limits import RequestLimits
from holdfast.models._messages import Message
from holdfast.models._retries import Retries

log = logging.getLogger("holdfast.models")
DEFAULT_SETTINGS = ModelSettings()
DEFAULT_RETRIES = Retries()


class Model(ABC):
    """Something that answers messages. Ask it with `request` or `stream`; write one with `request_once` and `stream_once`.

    Transient errors are tried again, with backoff, as long as nothing of the answer was given out. `limits` caps how many
    requests its provider gets at once. A model is safe to share between runs, loops and threads.
    """

    tag: ClassVar[str] = ""
    """What its stored form is called; empty for a class that cannot be stored."""
    _stored_classes: ClassVar[dict[str, type[Model]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("tag"):
            Model._stored_classes[cls.tag] = cls

    def __init__(
        self,
        *,
        retries: Retries = DEFAULT_RETRIES,
        limits: RequestLimits | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._retries = retries
        self._limits = limits
        self._clock = clock or SystemClock()
        self._random = random or Random()

    @property
    @abstractmethod
    def name(self) -> str:
        """Which model, as `provider:model`."""

    @property
    def provider(self) -> str:
        """Whose cap its requests count against."""
        return self.name.partition(":")[0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    # -- what a kind of model fills in ------------------------------------------------------------------------------

    @abstractmethod
    async def request_once(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> Reply:
        """Ask one time. Raises a ModelError and nothing else when it goes wrong."""

    @abstractmethod
    def stream_once(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[StreamPart, None]:
        """Ask one time and give pieces as they come, at last the whole Reply. Raises as `request_once` does."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Keep connections for the block, so that calls inside need not make their own. Works without, only slower."""
        yield self

    # -- how it is asked -------------------------------------------------------------------------------------------

    async def request(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        settings: ModelSettings | None = None,
        limits: RequestLimits | None = None,
    ) -> Reply:
        """The answer to `messages`. Raises a ModelError; a transient one only after it was tried again.

        `limits` are whoever's asks: they count if the model has none of its own.
        """
        failures = 0
        while True:
            try:
                async with self._turn(limits):
                    return await self.request_once(messages, tools, settings or DEFAULT_SETTINGS)
            except ModelError as error:
                failures += 1
                await self._wait_or_raise(failures, error)

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        settings: ModelSettings | None = None,
        limits: RequestLimits | None = None,
    ) -> AsyncGenerator[StreamPart, None]:
        """The answer in pieces, and at last as one Reply, which alone counts.

        Raises as `request` does before the first piece; after it, ModelStreamError whatever broke. Read it inside
        `async with aclosing(model.stream(…)) as parts:`, so that leaving early frees the connection at once.
        """
        failures = 0
        while True:
            given: StreamPart | None = None
            try:
                async with (
                    self._turn(limits),
                    aclosing(self.stream_once(messages, tools, settings or DEFAULT_SETTINGS)) as parts,
                ):
                    async for part in parts:
                        given = part
                        yield part
                if isinstance(given, Reply):
                    return
                raise self._broken_off("it ended without saying that it was done")
            except ModelStreamError:
                raise
            except ModelError as error:
                if given is not None:
                    raise self._broken_off(str(error)) from error
                failures += 1
                await self._wait_or_raise(failures, error)

    def _broken_off(self, why: str) -> ModelStreamError:
        return ModelStreamError(
            f"the answer of {self.name} broke off half-way: {why}; nothing of it counts, ask again", model=self.name
        )

    @asynccontextmanager
    async def _turn(self, given: RequestLimits | None) -> AsyncIterator[None]:
        limits = self._limits or given
        if limits is None:
            yield
            return
        async with limits.slot(self.provider):
            yield

    async def _wait_or_raise(self, failures: int, error: ModelError) -> None:
        wait = self._retries.wait_after(failures, error, self._random)
        if wait is None:
            raise error
        log.info("%s: %s; attempt %d in %.1f s", self.name, error, failures + 1, wait)
        await self._clock.sleep(wait)

    def reach(self, requests: int) -> None:  # noqa: B027 - most models count nothing
        """So many requests were made of it in a run that is taken up again. For a kind of model that counts them."""

    # -- stored form -----------------------------------------------------------------------------------------------

    def to_stored(self) -> dict[str, Any]:
        """Plain data, without any secret, that `from_stored` makes the same model from."""
        raise NotStorableError(
            "$",
            type(self).__name__,
            "give the class a `tag`, `to_stored` and `from_stored`, or name a model by text",
        )

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> Model:
        """The model that `to_stored` described."""
        raise NotImplementedError(f"{cls.__name__} has a tag but no from_stored")
