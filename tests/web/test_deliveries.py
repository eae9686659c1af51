"""Webhooks on the page: given when a job is started, looked after in the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.hooks.receiver import Receiver
from tests.web.browsing import IN_BROWSER
from tests.web.conftest import Open
from tests.web.serving import Site

pytestmark = IN_BROWSER


@pytest.fixture
def telling_site(browser: Browser, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, '[webhooks]\nallow = ["127.0.0.1"]\n')
    made.start()
    yield made
    made.close()


async def test_a_webhook_is_given_with_the_form_and_what_it_refused_is_delivered_again(
    open_page: Open, telling_site: Site
) -> None:
    visit = await open_page(telling_site, at="start?flow=hello")
    page = visit.page
    async with Receiver(410) as receiver:
        form = page.get_by_role("form", name="Start hello")
        await form.get_by_text("Name, labels, approval").click()
        webhook = form.get_by_role("textbox", name="Webhook")
        await webhook.fill("http://169.254.169.254/latest")
        visit.allow("status of 400")
        await form.get_by_role("button", name="Start").click()
        await expect(form.get_by_role("alert")).to_contain_text("169.254.169.254")
        await webhook.fill(receiver.url)
        await form.get_by_role("button", name="Start").click()
        await receiver.until(1)
        await visit.go("settings?tab=deliveries")
        row = page.get_by_role("table", name="Deliveries").get_by_role("row").filter(has_text="completed")
        await expect(row).to_contain_text("410")
        await visit.photograph("deliveries")
        await row.get_by_role("button", name="again").click()
        await receiver.until(2)
        await expect(row).to_contain_text("delivered")
        assert receiver.got[0].body == receiver.got[1].body
