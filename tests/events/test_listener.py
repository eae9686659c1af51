from __future__ import annotations

import pytest
from tests.events.samples import EchoEvent, NumberEvent

import holdfast
from holdfast import BaseEventListener, Depends, EventBus, Runtime
from holdfast.errors import UnknownDependencyError
from holdfast.events import BaseEvent
from holdfast.testing import isolated_runtime


class Counter(BaseEventListener):
    def __init__(self, bus: EventBus | None = None) -> None:
        self.numbers = self.echoes = 0
        super().__init__(bus)

    def setup_listeners(self, bus: EventBus) -> None:
        @bus.on(NumberEvent)
        def count_number(source: object, event: BaseEvent) -> None:
            self.numbers += 1

        @bus.on(EchoEvent, NumberEvent, depends_on=Depends(count_number))
        def count_echo(source: object, event: BaseEvent) -> None:
            self.echoes += 1


def test_making_a_listener_registers_it_and_closing_removes_it(runtime: Runtime) -> None:
    bus = runtime.event_bus
    bus.on(NumberEvent)(mine := lambda source, event: None)
    counter = Counter(bus)
    bus.emit(None, NumberEvent())
    bus.emit(None, EchoEvent())
    assert (counter.numbers, counter.echoes) == (1, 2)
    counter.close()
    counter.close()
    bus.emit(None, NumberEvent())
    assert (counter.numbers, counter.echoes) == (1, 2)
    assert bus.registrations() == [(NumberEvent, mine)]


def test_two_listeners_of_one_class_are_apart(runtime: Runtime) -> None:
    bus = runtime.event_bus
    first, second = Counter(bus), Counter(bus)
    first.close()
    bus.emit(None, NumberEvent())
    assert (first.numbers, second.numbers) == (0, 1)


def test_a_listener_listens_to_the_default_bus_unless_told_otherwise() -> None:
    with isolated_runtime() as runtime:
        counter = Counter()
        assert runtime.event_bus is holdfast.event_bus
        runtime.event_bus.emit(None, NumberEvent())
        assert counter.numbers == 1
        counter.close()


def test_a_listener_cannot_be_made_without_setup_listeners() -> None:
    class Empty(BaseEventListener):
        pass

    with pytest.raises(TypeError, match="setup_listeners"):
        Empty()  # type: ignore[abstract]


class Broken(Counter):
    def setup_listeners(self, bus: EventBus) -> None:
        super().setup_listeners(bus)
        bus.on(NumberEvent, depends_on=print)(lambda source, event: None)


class Raising(Counter):
    def setup_listeners(self, bus: EventBus) -> None:
        super().setup_listeners(bus)
        raise LookupError


@pytest.mark.parametrize(("cls", "error"), [(Broken, UnknownDependencyError), (Raising, LookupError)])
def test_a_listener_that_could_not_be_made_leaves_no_handler_behind(
    cls: type[Counter], error: type[Exception], runtime: Runtime
) -> None:
    # there would be no object to close
    with pytest.raises(error):
        cls(runtime.event_bus)
    assert runtime.event_bus.registrations() == []
