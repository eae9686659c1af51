"""What an event costs, beside crewAI's bus measured in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench._harness import PeerError, Row, compare, peer, say
from holdfast import BaseEvent, Run, Runtime

EVENTS = 100_000
ROUNDS = 5


class TickEvent(BaseEvent):
    """A tick."""

    number: int
    text: str = "tick"


TYPES = [type(f"Tick{n}Event", (BaseEvent,), {"__annotations__": {"number": int}}) for n in range(20)]


def _rate(prepare: Callable[[Run], None], work: Callable[[Run, int], None], events: int = EVENTS) -> float:
    """Events per second, the best of some rounds, inside one run of a runtime of its own."""
    best = 0.0
    for _ in range(ROUNDS):
        with Runtime() as runtime:

            def body(run: Run, runtime: Runtime = runtime) -> float:
                prepare(run)
                started = time.perf_counter()
                work(run, events)
                runtime.event_bus.flush()
                return time.perf_counter() - started

            best = max(best, events / runtime.run(body))
    return best


def _nobody(run: Run) -> None:
    pass


def _own_sites(run: Run, events: int) -> None:
    for n in range(events):
        run.tell(TickEvent, number=n)


def _built(run: Run, events: int) -> None:
    emit = run.host.event_bus.emit
    for n in range(events):
        emit(run, TickEvent(number=n))


def _one_handler(run: Run) -> None:
    last = -1

    @run.host.event_bus.on(TickEvent)
    def check(source: object, event: TickEvent) -> None:
        nonlocal last
        if event.number != last + 1:
            raise AssertionError("out of order")
        last = event.number


def _hundred_handlers(run: Run) -> None:
    for event_type in TYPES:
        for _ in range(5):
            run.host.event_bus.register_handler(event_type, lambda source, event: None)


def _twenty_types(run: Run, events: int) -> None:
    emit = run.host.event_bus.emit
    for n in range(events):
        emit(run, TYPES[n % 20](number=n))


def measure_emit() -> list[Row]:
    """Four ways of emitting."""
    try:
        crewai = peer("crewai", "crewai_emit.py")
    except PeerError as error:
        say(f"no figures for crewai: {error}")
        crewai = {}
    rows = [
        ("emit, nobody listening, our own sites", _rate(_nobody, _own_sites), "emit_nobody", 20),
        ("emit, nobody listening, event built by the caller", _rate(_nobody, _built), "emit_nobody", 5),
        ("emit, one sync handler, order kept", _rate(_one_handler, _built), "emit_one_handler", 15),
        ("emit, 100 handlers over 20 types", _rate(_hundred_handlers, _twenty_types), "emit_100_handlers_20_types", 0),
    ]
    return [_row(name, rate, crewai.get(key), times) for name, rate, key, times in rows]


def _row(name: str, rate: float, theirs: float | None, times: int) -> Row:
    return compare(
        name,
        "events/s",
        rate,
        better="higher",
        peers={"crewai": theirs} if theirs else {},
        target=f"≥ {times} x crewai" if times else "",
        ok=rate >= times * theirs if theirs and times else None,
    )


ROWS = {"emit": measure_emit}
