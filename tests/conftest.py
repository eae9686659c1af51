"""A fresh runtime for each test that asks, and a check that the test left nothing alive."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from holdfast import Runtime


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "leaves_something: what the test leaves behind is what it is about")
    # `make test &` in a script, `nohup make test`: programs under test would inherit that; what is caught, they do not
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


settings.register_profile("home", deadline=None)  # how long an example takes is the machine's affair
settings.register_profile(
    "ci", deadline=None, derandomize=True
)  # what CI says must not depend on luck; at home luck finds more
settings.load_profile("ci" if os.environ.get("CI") else "home")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last, in red, what could not be tried on this machine, and what to do about it: a skip is easily overlooked."""
    yield
    missing: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", ()):
        _, mark, why = report.longrepr[2].partition("NOT RUN: ")
        if mark:
            missing.setdefault(why, []).append(report.nodeid)
    for why, tests in missing.items():
        terminalreporter.section(f"NOT RUN: {len(tests)} tests", red=True, bold=True)
        terminalreporter.line(why, red=True)
        for test in tests:
            terminalreporter.line(f"  {test}", red=True)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A runtime of the test's own, with two seconds of grace; closed afterwards."""
    runtime = Runtime(grace=2.0)
    yield runtime
    runtime.close()


@pytest.fixture
async def no_task_is_left() -> AsyncIterator[None]:
    yield
    for _ in range(5):  # who was just woken, or told to stop, needs a turn of the loop to leave
        await asyncio.sleep(0)
    assert asyncio.all_tasks() - {asyncio.current_task()} == set()


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a task in its loop, or anything in the inventory of the `runtime` it used."""
    checked = request.node.get_closest_marker("leaves_something") is None
    runtime: Runtime | None = request.getfixturevalue("runtime") if "runtime" in request.fixturenames else None
    if checked and inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("no_task_is_left")
    yield
    assert not checked or runtime is None or runtime.inventory() == []
