"""Runs as OpenTelemetry traces: run, step, model and tool calls as spans inside one another. Only the API is needed here.

What is in a span is what is safe to send away: names, models, token counts, kinds of errors. No prompt, no result, no message.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError
from holdfast.events._base import BaseEvent
from holdfast.events._bus import EventBus
from holdfast.events._codec import event_classes

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

MAX_OPEN = 20_000
"""Spans that are open at once. A run whose process lets go of it never closes its own: the oldest make room."""
APART = "checkpoint"
"""Told outside of the run that is written down: it would be a trace of its own."""
_NAMES = (
    "model", "tool_name", "server_name", "name", "method_name", "flow_name", "crew_name", "task_name", "agent_role", "job_id",
)  # fmt: skip
"""The first that an event has is its span's name: a method is inside a flow and knows both."""
_OWN_NAMES = {"agent": "agent_role"}
"""By scope, what goes before: an agent works on a task, whose name it has too."""
_USAGE = {"input_tokens": "gen_ai.usage.input_tokens", "output_tokens": "gen_ai.usage.output_tokens"}


class Tracing:
    """Makes spans of the scopes of a bus's events. `close()` ends it."""

    def __init__(self, bus: EventBus, tracer: Tracer | None) -> None:
        self._trace = importlib.import_module("opentelemetry.trace")
        self._tracer: Tracer = tracer or self._trace.get_tracer("holdfast")
        self._bus = bus
        self._open: OrderedDict[str, Span] = OrderedDict()
        self._kinds = [kind for kind in event_classes().values() if (kind.opens or kind.closes) not in (None, APART)]
        bus.on(*self._kinds, live_only=True)(self._take)

    def _take(self, source: object, event: BaseEvent) -> None:
        if event.opens:
            self._start(event)
        if event.closes:
            self._end(event)

    def _start(self, event: BaseEvent) -> None:
        around = self._open.get(event.parent_event_id or "")
        context = self._trace.set_span_in_context(around) if around is not None else None
        attributes = {"holdfast.run_id": event.run_id or "", "holdfast.event_id": event.event_id, **_about(event)}
        self._open[event.event_id] = self._tracer.start_span(
            " ".join(filter(None, (event.opens, _name(event)))),
            context,
            attributes=attributes,
            start_time=event.at_us * 1000,
        )
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)[1].end()

    def _end(self, event: BaseEvent) -> None:
        span = self._open.pop(event.started_event_id or "", None)
        if span is None:
            return
        for name, value in _about(event).items():
            span.set_attribute(name, value)
        if event.type.endswith("_failed"):
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, getattr(event, "error_type", "")))
        span.set_attribute("holdfast.outcome", event.type.rpartition("_")[2])
        span.end(event.at_us * 1000)

    def close(self) -> None:
        """Make no more spans, and end those that are open."""
        for kind in self._kinds:
            self._bus.off(kind, self._take)
        while self._open:
            self._open.popitem()[1].end()


def trace_runs(bus: EventBus, tracer: Tracer | None = None) -> Tracing:
    """Have what happens on a bus traced: with this tracer, else with the provider that the program has set up.

    Raises ConfigurationError if OpenTelemetry is not installed.
    """
    try:
        return Tracing(bus, tracer)
    except ImportError as error:
        raise ConfigurationError("OpenTelemetry is not installed: pip install 'holdfast[traces]'") from error


def _name(event: BaseEvent) -> str:
    names = (_OWN_NAMES.get(event.opens or "", ""), *_NAMES)
    return next((value for name in names if isinstance(value := getattr(event, name, None), str) and value), "")


def _about(event: BaseEvent) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if isinstance(model := getattr(event, "model", None), str) and model:
        about["gen_ai.request.model"] = model
    if isinstance(attempt := getattr(event, "attempt", None), int):
        about["holdfast.attempt"] = attempt
    usage = getattr(event, "usage", None)
    if isinstance(usage, dict):
        about |= {name: usage[key] for key, name in _USAGE.items() if isinstance(usage.get(key), int)}
    return about
