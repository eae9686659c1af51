"""Whether the bus records, and what it has recorded."""

from __future__ import annotations

from holdfast.events._base import BaseEvent
from holdfast.events._delivery import Outlet
from holdfast.events._state import RuntimeState


class Recording:
    """Bus-scope recording, off until armed. Runs that record for themselves bring a state of their own in their outlet."""

    def __init__(self) -> None:
        self.armed = False
        self.state: RuntimeState | None = None

    def keep(self, outlet: Outlet, event: BaseEvent) -> RuntimeState:
        """Record an event of any run. Returns the state that handlers are shown: the run's own first."""
        if self.state is None:  # nothing was recorded yet, or it was dropped
            self.state = RuntimeState()
        if outlet.entity is not None:
            self.state.register(outlet.entity, outlet.tree.root_run_id or "")
        if event.durable:
            self.state.record(event)
        return outlet.state or self.state
