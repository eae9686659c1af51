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

    def keep(self, outlet: Outlet, event: BaseEvent) -> RuntimeState | None:
        """Record an event wherever that is armed. Returns the state that handlers are shown: the run's own first."""
        states = (*outlet.states, self._begun()) if self.armed else outlet.states
        for state in states:
            if outlet.entity is not None:
                state.register(outlet.entity, outlet.tree.root_run_id or "")
            if event.durable:
                state.record(event)
        return states[0] if states else None

    def _begun(self) -> RuntimeState:
        if self.state is None:
            self.state = RuntimeState()
        return self.state
