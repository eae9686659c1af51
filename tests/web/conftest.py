"""One browser and one server for all tests of a file; a profile of its own for each test.

Not for all files of a worker: Chromium starts helpers when it likes, and the next test that audits its processes would be blamed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.web import browsing
from tests.web.browsing import PATIENCE_MS, NoBrowser, Served, Visit
from tests.web.serving import Site

from holdfast.server import Role

KEPT = Path(__file__).resolve().parent.parent.parent / ".cache" / "screenshots"
FAILED = pytest.StashKey[bool]()
Open: TypeAlias = Callable[..., Awaitable[Visit]]

expect.set_options(timeout=PATIENCE_MS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        item.stash[FAILED] = True
    return report  # type: ignore[return-value]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    try:
        async with browsing.started() as made:
            yield made
    except NoBrowser as error:
        pytest.skip(f"NOT RUN: {error}")


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A served project that all tests of a file share; each has jobs of its own."""
    made = Site(tmp_path_factory.mktemp("site"))
    made.start()
    yield made
    made.close()


@pytest.fixture
def own_site(browser: Browser, tmp_path: Path) -> Iterator[Site]:
    """A served project that one test may kill."""
    made = Site(tmp_path)
    made.start()
    yield made
    made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(browser: Browser, request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens the page for somebody; when the test is over, nothing may have gone wrong in it."""
    kept = KEPT / re.sub(r"\W+", "-", request.node.name).strip("-")
    shutil.rmtree(kept, ignore_errors=True)
    visits: list[Visit] = []

    async def one(site: Served, role: Role | None = "admin", at: str | None = None) -> Visit:
        visits.append(await browsing.visit(browser, site, kept, role))
        if at is not None:
            await visits[-1].go(at)
        return visits[-1]

    yield one
    complaints = [complaint for made in visits for complaint in made.complaints()]
    for made in visits:
        await made.close(keep_trace=request.node.stash.get(FAILED, False) or bool(complaints))
    assert complaints == []


@pytest_asyncio.fixture(loop_scope="session")
async def visit(open_page: Open, site: Site) -> Visit:
    """An admin of the shared site."""
    return await open_page(site)


@pytest.fixture
def page(visit: Visit) -> Page:
    """What the admin of the shared site looks at."""
    return visit.page
