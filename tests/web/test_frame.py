"""What surrounds every page: the way in, the way around, the keyboard, light and dark."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect
from tests.web.browsing import Visit
from tests.web.conftest import Open
from tests.web.serving import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_link_of_the_first_start_lets_in_and_leaves_no_token_behind(open_page: Open, site: Site) -> None:
    visit = await open_page(site, role=None)
    await visit.page.goto(site.link)
    await expect(visit.page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert "token" not in visit.page.url
    assert await visit.page.evaluate("document.cookie + JSON.stringify(localStorage)") == "{}"
    await visit.page.reload()
    await expect(visit.page.get_by_role("heading", name="Jobs")).to_be_visible()
