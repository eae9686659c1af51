"""The list of jobs: live, filtered by the address, several at once."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from playwright.async_api import Page, expect
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.conftest import Open
from tests.web.serving import Site

pytestmark = IN_BROWSER


@pytest.fixture
def mark() -> str:
    """A label of the test's own: the jobs of others are there too."""
    return uuid4().hex[:8]


async def test_jobs_appear_and_change_by_themselves(visit: Visit, page: Page, site: Site, mark: str) -> None:
    await visit.go(f"jobs?label=of%3D{mark}")
    await expect(page.get_by_text("No job fits these filters")).to_be_visible()
    job_id = await site.submit("gate", "a gate", labels={"of": mark})
    row = page.get_by_role("row").filter(has_text=job_id[-8:])
    await expect(row.get_by_role("link", name="a gate")).to_be_visible()
    await expect(row).to_contain_text("waiting")
    await site.call("POST", f"jobs/{job_id}/answer", {"values": {"good": True}})
    await expect(row).to_contain_text("completed")
    await row.get_by_role("link", name="a gate").click()
    await expect(page).to_have_url(re.compile(f"#/jobs/{job_id}"))


async def test_filters_are_in_the_address_and_survive_a_reload(visit: Visit, page: Page, site: Site, mark: str) -> None:
    await site.done("gate", f"waits {mark}", labels={"of": mark})
    await site.done("hello", f"greets {mark}", labels={"of": mark})
    await site.done("fails", f"breaks {mark}", labels={"of": mark})
    names = page.get_by_role("table", name="Jobs").get_by_role("link")

    await visit.go("jobs")
    await page.get_by_role("searchbox", name="Search jobs").fill(mark)
    await expect(names).to_have_text([f"breaks {mark}", f"greets {mark}", f"waits {mark}"])
    await visit.photograph("jobs")
    await page.get_by_role("group", name="Filter by status").get_by_role("button", name="failed").click()
    await expect(names).to_have_text([f"breaks {mark}"])
    await page.reload()
    await expect(names).to_have_text([f"breaks {mark}"])
    await page.get_by_role("button", name="All", exact=True).click()
    await page.get_by_role("combobox", name="Flow").fill("hello")
    await expect(names).to_have_text([f"greets {mark}"])
    await page.get_by_role("combobox", name="Flow").fill("")
    await page.get_by_role("searchbox", name="Search jobs").fill("")
    await page.get_by_role("searchbox", name="Label").fill(f"of={mark}")
    await expect(names).to_have_count(3)
    await page.get_by_role("searchbox", name="Search jobs").fill("nothing of the kind")
    await expect(page.get_by_text("No job fits these filters")).to_be_visible()
    await visit.photograph("no-jobs")


async def test_what_is_typed_while_a_filter_is_told_stays(visit: Visit, page: Page) -> None:
    await visit.go("jobs")
    field = page.get_by_role("searchbox", name="Search jobs")
    await field.evaluate("""(field) => addEventListener("hashchange", () => {
        field.value = "first and more";
        field.dispatchEvent(new Event("input", {bubbles: true}));
    }, {once: true})""")

    await field.fill("first")
    await expect(page).to_have_url(re.compile(r"text=first\+and\+more"))
    await expect(field).to_have_value("first and more")
    await page.evaluate("location.hash = '#/jobs?text=of+somebody+else'")
    await expect(field).to_have_value("of somebody else")


async def test_several_jobs_are_cancelled_and_archived_at_once(visit: Visit, page: Page, site: Site, mark: str) -> None:
    ids = [await site.done("gate", f"gate {number}", labels={"of": mark}) for number in range(3)]
    await visit.go(f"jobs?label=of%3D{mark}")
    boxes = page.get_by_role("checkbox", name=re.compile("Choose gate"))
    await expect(boxes).to_have_count(3)
    for index in (0, 1):
        await boxes.nth(index).check()
    chosen = page.get_by_role("group", name="Chosen jobs")
    await expect(chosen).to_contain_text("2 jobs chosen")
    await chosen.get_by_role("button", name="Cancel 2").click()
    dialog = page.get_by_role("dialog", name="Cancel 2 jobs?")
    await dialog.get_by_label("Reason").fill("not needed")
    await dialog.get_by_role("button", name="Cancel 2").click()
    await expect(page.get_by_role("row").filter(has_text="cancelled")).to_have_count(2)
    assert [(await site.call("GET", f"jobs/{one}"))["status"] for one in ids] == ["waiting", "cancelled", "cancelled"]
    assert "not needed" in (await site.call("GET", f"jobs/{ids[2]}"))["reason"]
    for index in (0, 1):
        await boxes.nth(index).check()
    await chosen.get_by_role("button", name="Archive 2").click()
    await expect(boxes).to_have_count(1)
    await page.get_by_role("combobox", name="Archived").select_option("Archived")
    await expect(boxes).to_have_count(2)


async def test_more_jobs_than_fit_on_a_page_come_when_asked_for(open_page: Open, own_site: Site) -> None:
    for number in range(55):
        await own_site.submit("gate", f"gate {number:02}", needs_approval=True)
    visit = await open_page(own_site, at="jobs")
    names = visit.page.get_by_role("table", name="Jobs").get_by_role("link")
    await expect(names).to_have_count(50)
    await visit.page.get_by_role("button", name="Show more").click()
    await expect(names).to_have_count(55)
    await expect(names.last).to_have_text("gate 00")
    await expect(visit.page.get_by_role("button", name="awaiting approval")).to_contain_text("55")


async def test_a_new_project_says_what_to_do_first(open_page: Open, own_site: Site) -> None:
    visit = await open_page(own_site, at="jobs")
    await expect(visit.page.get_by_text("No jobs yet")).to_be_visible()
    await visit.photograph("first")
    await visit.page.get_by_role("link", name="Start one").click()
    await expect(visit.page).to_have_url(re.compile("#/start"))
