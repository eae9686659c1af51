"""Settings: what the server is, how much runs at once, who may use it."""

from __future__ import annotations

from playwright.async_api import Page, expect
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.conftest import Open
from tests.web.serving import Site

pytestmark = IN_BROWSER


async def test_the_server_says_what_it_is_and_how_much_runs_at_once_is_changed(
    visit: Visit, page: Page, site: Site
) -> None:
    await visit.go("settings")
    await expect(page.get_by_text("Largest request")).to_be_visible()
    await visit.photograph("server")
    await page.get_by_label("Jobs of one worker").fill("7")
    await page.get_by_role("button", name="Add a cap").click()
    await page.get_by_label("Name of the flow").fill("gate")
    await page.get_by_label("Jobs at once").fill("2")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Jobs of one worker")).to_have_value("7")
    await page.get_by_role("button", name="Remove the cap of flow gate").click()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("None: flows, executors and agents have no bound")).to_be_visible()


async def test_a_token_is_made_shown_once_used_and_revoked(
    visit: Visit, page: Page, site: Site, open_page: Open
) -> None:
    await visit.go("settings")
    await page.get_by_role("tab", name="Tokens").click()
    await page.get_by_role("button", name="Make a token").click()
    making = page.get_by_role("dialog", name="Make a token")
    await making.get_by_label("Name").fill("<i>laptop</i>")
    await making.get_by_role("radio", name="operate").check()
    await making.get_by_role("button", name="Make it").click()
    shown = page.get_by_role("dialog", name="Token <i>laptop</i>")
    link = await shown.get_by_label("Link", exact=True).inner_text()
    await shown.get_by_role("button", name="Done").click()
    row = page.get_by_role("row").filter(has_text="<i>laptop</i>")
    await expect(row).to_contain_text("operate")
    await visit.photograph("tokens")

    laptop = await open_page(site, role=None)
    await laptop.page.goto(link)
    await expect(laptop.page.get_by_text("<i>laptop</i> · operate")).to_be_visible()
    await row.get_by_role("button", name="Revoke").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(row).to_have_count(0)
    laptop.allow("status of 401")
    await laptop.page.reload()
    await expect(laptop.page.get_by_label("Token")).to_be_visible()


async def test_who_is_no_admin_sees_no_tokens_and_changes_nothing(open_page: Open, site: Site) -> None:
    page = (await open_page(site, role="operate", at="settings?tab=tokens")).page
    await expect(page.get_by_text("Largest request")).to_be_visible()
    await expect(page.get_by_role("tab", name="Tokens")).to_have_count(0)
    await expect(page.get_by_role("button", name="Save")).to_have_count(0)
