from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.events.samples import BigNumberEvent, EchoEvent, NumberEvent, thread

from holdfast import Depends, Run, Runtime
from holdfast.errors import (
    CircularDependencyError,
    DependencyError,
    HandlerSignatureError,
    UnknownDependencyError,
    UsageError,
)
from holdfast.events import BaseEvent, HandlerFailedEvent, RuntimeState

Call = tuple[Any, ...]


class Clerk:
    """Handlers in every shape a callable may have; each notes the arguments it was called with."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def two(self, source: object, event: BaseEvent) -> None:
        self.calls.append((source, event))

    def three(self, source: object, event: BaseEvent, state: RuntimeState | None) -> None:
        self.calls.append((source, event, state))

    async def async_two(self, source: object, event: BaseEvent) -> None:
        self.calls.append((source, event))

    async def async_three(self, source: object, event: BaseEvent, state: RuntimeState | None) -> None:
        self.calls.append((source, event, state))

    def with_default_state(self, source: object, event: BaseEvent, state: object = "unset") -> None:
        self.calls.append((source, event, state))

    def with_other_default(self, source: object, event: BaseEvent, times: int = 5) -> None:
        self.calls.append((source, event, times))

    def third_by_another_name(self, source: object, event: BaseEvent, runtime_state: object) -> None:
        self.calls.append((source, event, runtime_state))

    def anything(self, *args: object) -> None:
        self.calls.append(args)

    def prefixed(self, prefix: str, source: object, event: BaseEvent) -> None:
        self.calls.append((prefix, source, event))

    async def async_prefixed(self, prefix: str, source: object, event: BaseEvent) -> None:
        self.calls.append((prefix, source, event))

    def with_keyword(self, source: object, event: BaseEvent, *, loud: bool = True) -> None:
        self.calls.append((source, event, loud))

    def positional_only(self, source: object, event: BaseEvent, /) -> None:
        self.calls.append((source, event))


class CallableObject(Clerk):
    def __call__(self, source: object, event: BaseEvent) -> None:
        self.calls.append((source, event))


class AsyncCallableObject(Clerk):
    async def __call__(self, source: object, event: BaseEvent, state: object) -> None:
        self.calls.append((source, event, state))


class Wrapper(Clerk):
    """A callable object that happens to have an attribute `func`, as decorators written as classes do."""

    func = staticmethod(print)

    async def __call__(self, source: object, event: BaseEvent) -> None:
        self.calls.append((source, event))


SHAPES: dict[str, tuple[Callable[[], Clerk], Callable[[Any], Any], Callable[[object, object], Call]]] = {
    "two": (Clerk, lambda c: c.two, lambda s, e: (s, e)),
    "three": (Clerk, lambda c: c.three, lambda s, e: (s, e, None)),
    "async two": (Clerk, lambda c: c.async_two, lambda s, e: (s, e)),
    "async three": (Clerk, lambda c: c.async_three, lambda s, e: (s, e, None)),
    "state with a default": (Clerk, lambda c: c.with_default_state, lambda s, e: (s, e, None)),
    "another default": (Clerk, lambda c: c.with_other_default, lambda s, e: (s, e, 5)),
    "third by any name": (Clerk, lambda c: c.third_by_another_name, lambda s, e: (s, e, None)),
    "star args": (Clerk, lambda c: c.anything, lambda s, e: (s, e)),
    "partial": (Clerk, lambda c: functools.partial(c.prefixed, "p"), lambda s, e: ("p", s, e)),
    "async partial": (Clerk, lambda c: functools.partial(c.async_prefixed, "p"), lambda s, e: ("p", s, e)),
    "keyword": (Clerk, lambda c: c.with_keyword, lambda s, e: (s, e, True)),
    "positional only": (Clerk, lambda c: c.positional_only, lambda s, e: (s, e)),
    "object": (CallableObject, lambda c: c, lambda s, e: (s, e)),
    "async object": (AsyncCallableObject, lambda c: c, lambda s, e: (s, e, None)),
    "partial of an async object": (AsyncCallableObject, functools.partial, lambda s, e: (s, e, None)),
    "object with func": (Wrapper, lambda c: c, lambda s, e: (s, e)),
    "lambda": (Clerk, lambda c: lambda s, e, then=None: c.two(s, e), lambda s, e: (s, e)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("background", [False, True], ids=["", "background"])
def test_s1_1_a_handler_of_any_shape_gets_its_arguments(shape: str, background: bool, runtime: Runtime) -> None:
    make, take, expected = SHAPES[shape]
    clerk, source, event = make(), object(), NumberEvent()
    runtime.event_bus.on(NumberEvent, background=background)(take(clerk))
    runtime.run(lambda run: runtime.event_bus.emit(source, event))
    runtime.event_bus.flush()
    assert clerk.calls == [expected(source, event)]


def _none() -> None: ...
def _one(source: object) -> None: ...
def _four(source: object, event: object, state: object, more: object) -> None: ...
def _keyword_only(source: object, *, event: object) -> None: ...
def _needs_keyword(source: object, event: object, *, loud: bool) -> None: ...
async def _async_one(source: object) -> None: ...


@pytest.mark.parametrize(
    "function", [_none, _one, _four, _keyword_only, _needs_keyword, _async_one, functools.partial(_one, 1), 7, dict]
)
def test_a_function_that_cannot_take_an_event_is_refused_and_told_how(function: Any, runtime: Runtime) -> None:
    with pytest.raises(HandlerSignatureError, match=r"cannot be a handler"):
        runtime.event_bus.on(NumberEvent)(function)
    assert runtime.event_bus.registrations() == []


def test_a_wrong_signature_names_the_function_and_the_right_form(runtime: Runtime) -> None:
    with pytest.raises(HandlerSignatureError, match=r"_one\(source: 'object'\).*\(source, event, state\)"):
        runtime.event_bus.on(NumberEvent)(_one)


@pytest.mark.parametrize("what", [(), (int,), (NumberEvent(),), (NumberEvent, str), ("sample_number",)])
def test_only_event_classes_can_be_listened_to(what: tuple[Any, ...], runtime: Runtime) -> None:
    with pytest.raises(HandlerSignatureError, match="event classes"):
        runtime.event_bus.on(*what)(lambda source, event: None)


def test_a_callable_that_cannot_be_hashed_gets_an_error_of_ours(runtime: Runtime) -> None:
    @dataclass
    class Greeter:
        name: str = ""

        def __call__(self, source: object, event: BaseEvent) -> None: ...

    with pytest.raises(HandlerSignatureError):
        runtime.event_bus.on(NumberEvent)(Greeter())


def test_a_base_class_hears_its_subclasses_and_not_the_other_way_round(runtime: Runtime) -> None:
    bus, heard = runtime.event_bus, []
    for cls in (BaseEvent, NumberEvent, BigNumberEvent, EchoEvent):
        bus.on(cls)(lambda source, event, cls=cls: heard.append((cls, type(event))))
    bus.emit(None, BigNumberEvent())
    assert heard == [(BaseEvent, BigNumberEvent), (NumberEvent, BigNumberEvent), (BigNumberEvent, BigNumberEvent)]
    heard.clear()
    bus.emit(None, NumberEvent())
    assert heard == [(BaseEvent, NumberEvent), (NumberEvent, NumberEvent)]


def test_handlers_are_called_in_the_order_they_were_registered(runtime: Runtime) -> None:
    bus, called = runtime.event_bus, []
    for n in range(10):
        bus.on(NumberEvent if n % 2 else BaseEvent)(lambda source, event, n=n: called.append(n))
    bus.emit(None, NumberEvent())
    assert called == list(range(10))


def test_a_handler_registered_twice_and_for_a_base_class_too_is_called_once(runtime: Runtime) -> None:
    bus, clerk = runtime.event_bus, Clerk()
    bus.on(NumberEvent)(clerk.two)
    bus.on(NumberEvent, BaseEvent)(clerk.two)
    bus.register_handler(BigNumberEvent, clerk.two)
    bus.emit(None, BigNumberEvent())
    assert len(clerk.calls) == 1


def test_off_stops_one_type_only_and_says_whether_it_was_registered(runtime: Runtime) -> None:
    bus, clerk = runtime.event_bus, Clerk()
    bus.on(NumberEvent, EchoEvent)(clerk.two)
    assert bus.off(NumberEvent, clerk.two)
    assert not bus.off(NumberEvent, clerk.two)
    assert not bus.off(BaseEvent, clerk.two)
    bus.emit(None, NumberEvent())
    assert clerk.calls == []
    bus.emit(None, EchoEvent())
    assert len(clerk.calls) == 1
    assert bus.registrations() == [(EchoEvent, clerk.two)]
    assert bus.off(EchoEvent, clerk.two)
    assert bus.registrations() == []


def test_a_handler_removed_and_registered_again_goes_to_the_end(runtime: Runtime) -> None:
    bus, called = runtime.event_bus, []

    def first(source: object, event: object) -> None:
        called.append("first")

    bus.on(NumberEvent)(first)
    bus.on(NumberEvent)(lambda source, event: called.append("second"))
    bus.off(NumberEvent, first)
    bus.on(NumberEvent)(first)
    bus.emit(None, NumberEvent())
    assert called == ["second", "first"]


def test_on_gives_the_function_back(runtime: Runtime) -> None:
    clerk = Clerk()
    assert runtime.event_bus.on(NumberEvent)(_two := clerk.two) is _two


def test_a_handler_registered_by_a_handler_hears_the_next_event_only(runtime: Runtime) -> None:
    bus, clerk = runtime.event_bus, Clerk()
    bus.on(NumberEvent)(lambda source, event: bus.register_handler(NumberEvent, clerk.two))
    first, second = NumberEvent(), NumberEvent()
    bus.emit(None, first)
    assert clerk.calls == []
    bus.emit(None, second)
    assert clerk.calls == [(None, second)]


def test_a_circle_is_refused_when_it_is_registered_and_its_members_are_named(runtime: Runtime) -> None:
    bus = runtime.event_bus

    def a(source: object, event: object) -> None: ...
    def b(source: object, event: object) -> None: ...
    def c(source: object, event: object) -> None: ...

    bus.on(NumberEvent, depends_on=Depends(b))(a)
    bus.on(NumberEvent, depends_on=[Depends(c)])(b)
    with pytest.raises(CircularDependencyError, match=r"a -> .*b -> .*c.*remove one") as caught:
        bus.on(NumberEvent, depends_on=a)(c)
    names = [name.rpartition(".")[2] for name in caught.value.circle]
    assert names[0] == names[-1]
    assert set(names) == {"a", "b", "c"}
    assert [function for _, function in bus.registrations()] == [a, b]
    bus.on(NumberEvent)(c)
    bus.validate_dependencies()


def test_a_handler_cannot_depend_on_itself(runtime: Runtime) -> None:
    clerk = Clerk()
    with pytest.raises(CircularDependencyError):
        runtime.event_bus.on(NumberEvent, depends_on=clerk.two)(clerk.two)


def test_a_dependency_on_a_background_handler_is_refused_in_either_order(runtime: Runtime) -> None:
    bus = runtime.event_bus

    def slow(source: object, event: object) -> None: ...
    def fast(source: object, event: object) -> None: ...

    bus.on(NumberEvent, background=True)(slow)
    with pytest.raises(DependencyError, match=r"fast depends on .*slow.*without background"):
        bus.on(NumberEvent, depends_on=slow)(fast)
    bus.off(NumberEvent, slow)
    bus.on(NumberEvent, depends_on=slow)(fast)
    with pytest.raises(DependencyError, match="background"):
        bus.on(NumberEvent, background=True)(slow)


def test_validate_dependencies_finds_one_that_hears_none_of_the_same_events(runtime: Runtime) -> None:
    bus, clerk = runtime.event_bus, Clerk()
    bus.on(BigNumberEvent, depends_on=Depends(clerk.three))(clerk.two)
    with pytest.raises(UnknownDependencyError, match=r"Clerk\.two depends on Clerk\.three"):
        bus.validate_dependencies()
    bus.on(EchoEvent)(clerk.three)
    with pytest.raises(UnknownDependencyError):
        bus.validate_dependencies()
    bus.on(NumberEvent)(clerk.three)
    bus.validate_dependencies()


def test_a_handler_whose_dependency_is_missing_is_called_all_the_same_and_the_log_says_so(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    bus, clerk = runtime.event_bus, Clerk()
    bus.on(NumberEvent, depends_on=clerk.three)(clerk.two)
    bus.emit(None, NumberEvent())
    assert len(clerk.calls) == 1
    assert "Clerk.two depends on Clerk.three, which is not registered" in caplog.text


def test_a_mailbox_must_hold_something_and_overflow_in_a_known_way(runtime: Runtime) -> None:
    bus, clerk = runtime.event_bus, Clerk()
    with pytest.raises(UsageError, match="at least 1"):
        bus.on(NumberEvent, background=True, capacity=0)(clerk.two)
    with pytest.raises(UsageError, match="'block' or 'drop'"):
        bus.on(NumberEvent, background=True, overflow="explode")(clerk.two)  # type: ignore[arg-type]
    assert bus.registrations() == []


def test_a_sync_function_that_returns_a_coroutine_is_not_passed_over_in_silence(runtime: Runtime) -> None:
    # what a plain wrapper around an async handler does: it looks sync, and nobody would await what it returns
    bus, clerk, failures = runtime.event_bus, Clerk(), []
    bus.on(HandlerFailedEvent)(lambda source, event: failures.append(event))
    bus.on(NumberEvent)(lambda source, event, late=True: clerk.async_two(source, event))
    bus.emit(None, NumberEvent())
    bus.flush()
    assert clerk.calls or failures


def test_asking_who_listens_is_safe_while_another_thread_registers(runtime: Runtime) -> None:
    bus, stop, interval = runtime.event_bus, threading.Event(), sys.getswitchinterval()

    def another() -> Callable[[object, BaseEvent], Any]:
        async def awaited(source: object, event: BaseEvent) -> None: ...

        return awaited

    for _ in range(200):
        bus.on(NumberEvent)(another())

    def ask(run: Run) -> None:
        while not stop.is_set():
            bus.wants(EchoEvent)

    sys.setswitchinterval(1e-6)
    try:
        with thread(lambda: runtime.run(ask)):
            try:
                for _ in range(1500):
                    bus.on(EchoEvent)(handler := another())
                    bus.off(EchoEvent, handler)
            finally:
                stop.set()
    finally:
        sys.setswitchinterval(interval)
