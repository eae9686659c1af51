"""Listeners as objects: a class that registers several handlers at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

from holdfast.events._base import BaseEvent
from holdfast.events._bus import EventBus
from holdfast.events._handlers import HandlerFunction
from holdfast.ports import DefaultRuntime


class BaseEventListener(ABC):
    """Subclass it and register handlers in `setup_listeners`; making an instance registers them, `close()` removes them."""

    def __init__(self, bus: EventBus | None = None) -> None:
        self._bus = bus or cast(EventBus, DefaultRuntime.get().event_bus)
        self._mine: list[tuple[type[BaseEvent], HandlerFunction]] = []
        before = self._bus.registrations()
        try:
            self.setup_listeners(self._bus)
            self._bus.validate_dependencies()
        except BaseException:
            self._mine = [pair for pair in self._bus.registrations() if pair not in before]
            self.close()
            raise
        self._mine = [pair for pair in self._bus.registrations() if pair not in before]

    @abstractmethod
    def setup_listeners(self, bus: EventBus) -> None:
        """Register handlers: `@bus.on(TaskCompletedEvent)`."""

    def close(self) -> None:
        """Remove what this listener registered. Twice is fine."""
        while self._mine:
            self._bus.off(*self._mine.pop())
