"""One test, one clean runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.context import OUTSIDE, at
from holdfast.runtime import Runtime, default_runtime


@contextmanager
def isolated_runtime() -> Iterator[Runtime]:
    """The default runtime, as new, for the length of the block: no handlers, no recording, counts at zero, no current run.

    Afterwards everything is as it was before, whatever the block did. Raises AssertionError if the block left a run, or
    anything a run held, behind: that is a leak in the code under test.
    """
    runtime = default_runtime()
    before = runtime.inventory()
    with at(OUTSIDE), runtime.isolated():
        yield runtime
        runtime.event_bus.flush()
    left = [holding for holding in runtime.inventory() if holding not in before]
    if left:
        raise AssertionError(f"left behind: {', '.join(f'{h.kind} {h.name}' for h in left)}")
