"""What surrounds every page: the way in, the way around, the keyboard, light and dark."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect
from tests.web.browsing import IN_BROWSER, PHONE, Visit
from tests.web.conftest import Open
from tests.web.serving import Site

pytestmark = IN_BROWSER

PAGES = ["Jobs", "Flows", "Schedules", "Runs", "Checkpoints", "Resources", "Settings"]
REFUSED = r"status of 401"


async def test_the_link_of_the_first_start_lets_in_and_leaves_no_token_behind(open_page: Open, site: Site) -> None:
    page = (await open_page(site, role=None)).page
    await page.goto(site.link)
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert "token" not in page.url
    assert await page.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
    await page.reload()
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await page.go_back()
    assert "token" not in page.url


async def test_a_token_lets_in_a_wrong_one_says_why_not_and_who_signs_out_is_out(open_page: Open, site: Site) -> None:
    visit = await open_page(site, role=None, at="settings")
    visit.allow(REFUSED)
    page, field = visit.page, visit.page.get_by_label("Token")
    await expect(field).to_be_focused()
    await visit.photograph("sign-in")
    await field.fill("hf_00000000_wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("token")
    await field.fill(site.tokens["read"])
    await field.press("Enter")
    await expect(page.get_by_role("heading", name="Settings", level=1)).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(field).to_be_visible()
    await page.reload()
    await expect(field).to_be_visible()


async def test_every_page_is_reached_by_its_name_and_by_its_keys(visit: Visit, page: Page) -> None:
    await visit.go("jobs")
    navigation = page.get_by_role("navigation", name="Pages")
    await expect(navigation.get_by_role("link")).to_have_text(PAGES)
    for name in reversed(PAGES):
        entry = navigation.get_by_role("link", name=name)
        await entry.click()
        await expect(entry).to_have_attribute("aria-current", "page")
        await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
        await expect(page).to_have_title(f"{name} · Holdfast")
    for keys, name in {"g f": "Flows", "g s": "Schedules", "g j": "Jobs"}.items():
        for key in keys.split():
            await page.keyboard.press(key)
        await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


async def test_the_keys_are_explained_and_do_nothing_while_somebody_types(visit: Visit, page: Page) -> None:
    await visit.go("jobs")
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    await expect(dialog).to_contain_text("Go to Schedules")
    await visit.photograph("help")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await page.keyboard.press("/")
    search = page.get_by_role("searchbox", name="Search jobs")
    await expect(search).to_be_focused()
    await page.keyboard.type("g s?")
    await expect(search).to_have_value("g s?")
    await expect(dialog).to_be_hidden()


async def test_who_uses_only_the_keyboard_gets_past_the_navigation_and_sees_where_they_are(
    visit: Visit, page: Page
) -> None:
    await visit.go("jobs")
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    await page.keyboard.press("Tab")
    focused = page.locator(":focus")
    assert await page.get_by_role("main").locator(":focus").count() == 1
    assert (
        await focused.evaluate("(one) => getComputedStyle(one).outlineStyle + getComputedStyle(one).boxShadow")
        != "nonenone"
    )


async def test_dark_is_dark_and_the_choice_stays(visit: Visit, page: Page) -> None:
    async def ground() -> int:
        colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour[4:-1].split(",")[:3])

    await page.emulate_media(color_scheme="dark")
    await visit.go("jobs")
    await expect(page.get_by_role("button", name="Theme: auto")).to_be_visible()
    assert await ground() < 200
    await page.get_by_role("button", name="Theme: auto").click()
    await expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert await ground() > 600
    await page.reload()
    await page.get_by_role("button", name="Theme: light").click()
    await page.emulate_media(color_scheme="light")
    assert await ground() < 200


async def test_on_a_phone_the_menu_opens_and_closes_with_the_choice(visit: Visit, page: Page) -> None:
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    await visit.go("jobs")
    menu, link = page.get_by_role("button", name="Menu"), page.get_by_role("link", name="Settings")
    await expect(link).to_be_hidden()
    await menu.click()
    await expect(menu).to_have_attribute("aria-expanded", "true")
    await link.click()
    await expect(page.get_by_role("heading", name="Settings", level=1)).to_be_visible()
    await expect(link).to_be_hidden()


async def test_an_address_that_leads_nowhere_says_so(visit: Visit, page: Page) -> None:
    await visit.go("nowhere/at/all%")
    await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    await page.get_by_role("link", name="Go to the jobs").click()
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


async def test_who_may_only_read_is_offered_nothing_to_do(open_page: Open, site: Site) -> None:
    """Every page is looked at: a button that changes something has no place on any of them."""
    job_id = await site.done("gate")
    visit = await open_page(site, role="read", at="jobs")
    page = visit.page
    await expect(page.get_by_text("a read · read")).to_be_visible()
    await expect(page.get_by_role("link", name="Start")).to_be_hidden()
    for address in [
        "jobs",
        *(name.lower() for name in PAGES),
        f"jobs/{job_id}",
        "flows/flows%2Fhello.flow.yaml",
        "start",
    ]:
        await visit.go(address)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_role("button", name=DOING)).to_have_count(0)


DOING = re.compile(
    r"^(Start|Cancel|Pause|Resume|Retry|Rerun|Run again|Answer|Approve|Archive|Delete|Fork|Add|New|Save|Make|Remove|Revoke|Fire)",
)
