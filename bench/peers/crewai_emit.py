"""Measure crewAI's event bus and its import; run in crewAI's own environment, prints one JSON object.

The caller builds each event inside the timed loop, and a run ends only when every handler has been called.
"""

import itertools
import json
import os
import time
from collections.abc import Callable

# Set before the import, so that a run by hand is as quiet as one by the harness.
os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_DISABLE_TRACKING="true",
    CREWAI_DISABLE_VERSION_CHECK="true",
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
)

EVENTS = 20_000
BUDGET_SECONDS = 3
FLUSH_SECONDS = 10
TYPES = 20
HANDLERS_PER_TYPE = 5


def resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


started = time.perf_counter()
import crewai  # noqa: E402

import_seconds = time.perf_counter() - started
import_mb = resident_mb()

from crewai.events.base_events import BaseEvent  # noqa: E402
from crewai.events.event_bus import crewai_event_bus as bus  # noqa: E402


class Tick(BaseEvent):
    type: str = "tick"
    number: int = 0


def make_handler(counter: "itertools.count[int]") -> Callable[[object, BaseEvent], None]:
    """Return a new function each time, because the bus keeps handlers in a set."""

    def handle(source: object, event: BaseEvent) -> None:
        next(counter)

    return handle


def handled_count(counter: "itertools.count[int]") -> int:
    """Read the counter without a lock: `next` on it is one step, and this shows where it stands."""
    return int(counter.__reduce__()[1][0])


def events_per_second(types: list[type[Tick]], handlers_each: int) -> float:
    """Emit over the types in turn until EVENTS or the budget is reached, and wait until all were handled."""
    counter = itertools.count()
    source = object()
    with bus.scoped_handlers():
        for kind in types:
            for _ in range(handlers_each):
                bus.on(kind)(make_handler(counter))
        start = time.perf_counter()
        deadline = start + BUDGET_SECONDS
        emitted = 0
        for emitted in range(1, EVENTS + 1):
            kind = types[emitted % len(types)]
            bus.emit(source, kind(number=emitted))
            if time.perf_counter() > deadline:
                break
        if handlers_each:
            bus.flush(timeout=FLUSH_SECONDS)
            if handled_count(counter) != emitted * handlers_each:
                raise SystemExit("crewAI did not call every handler in time")
        taken = time.perf_counter() - start
    return emitted / taken


def main() -> None:
    kinds = [type(f"Tick{index}", (Tick,), {"__module__": __name__}) for index in range(TYPES)]
    events_per_second([Tick], 0)
    figures = {
        "version": crewai.__version__,
        "import_seconds": import_seconds,
        "import_mb": import_mb,
        "emit_nobody": max(events_per_second([Tick], 0) for _ in range(3)),
        "emit_one_handler": max(events_per_second([Tick], 1) for _ in range(3)),
        "emit_100_handlers_20_types": max(events_per_second(kinds, HANDLERS_PER_TYPE) for _ in range(3)),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
