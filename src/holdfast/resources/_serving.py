"""What a runtime does for a manager that is registered with it."""

from __future__ import annotations

from holdfast.clock import Clock
from holdfast.events._bus import EventBus
from holdfast.events.families.resource import ResourceSweptEvent
from holdfast.logs import get_logger
from holdfast.ports import ResourceManager

log = get_logger("resources")

SWEEP_SECONDS = 300.0


async def sweep_regularly(manager: ResourceManager, clock: Clock, seconds: float, bus: EventBus) -> None:
    """Sweep now and then, for ever, and tell of what was ended."""
    while True:
        await sweep_once(manager, bus)
        await clock.sleep(seconds)


async def sweep_once(manager: ResourceManager, bus: EventBus) -> None:
    try:
        report = await manager.sweep()
    except Exception:  # a user's manager may raise anything; the next sweep comes all the same
        log.exception("sweeping %s resources failed", manager.kind)
        return
    for row in report.ended:
        bus.emit(manager, ResourceSweptEvent(kind=row.kind, resource=row.name, owner=row.owner.id))


async def release_everything(managers: list[ResourceManager]) -> None:
    """Release all that any manager holds; what cannot be is logged, and in its ledger."""
    for manager in managers:
        try:
            await manager.release_all()
        except Exception:
            log.exception("not everything of kind %s could be released", manager.kind)
