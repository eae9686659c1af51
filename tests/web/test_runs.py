"""Runs, and what runs hold."""

from __future__ import annotations

from uuid import uuid4

from playwright.async_api import Page, expect
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.serving import Site

pytestmark = IN_BROWSER


async def test_runs_are_listed_and_filtered(visit: Visit, page: Page, site: Site) -> None:
    waits, over = await site.done("gate"), await site.done("hello")
    await visit.go("runs")
    await expect(page.get_by_role("row").filter(has_text=waits[-8:])).to_contain_text("waiting")
    await expect(page.get_by_role("row").filter(has_text=over[-8:])).to_contain_text("completed")
    await visit.photograph("runs")
    await page.get_by_role("combobox", name="Status").select_option("waiting")
    await expect(page.get_by_role("row").filter(has_text=over[-8:])).to_have_count(0)
    await expect(page.get_by_role("row").filter(has_text=waits[-8:])).to_have_count(1)
    await page.reload()
    await expect(page.get_by_role("row").filter(has_text=over[-8:])).to_have_count(0)
    await page.get_by_role("combobox", name="Kind").select_option("crew")
    await page.get_by_role("button", name="Show all").click()
    await expect(page.get_by_role("row").filter(has_text=over[-8:])).to_have_count(1)


async def test_what_a_run_holds_is_shown_while_it_holds_it(visit: Visit, page: Page, site: Site) -> None:
    gate = uuid4().hex
    job_id = await site.submit("holds", inputs={"until": gate})
    await visit.go("resources")
    rows = page.get_by_role("table", name="Held now").get_by_role("row").filter(has_text=job_id[-8:])
    process = rows.filter(has_text="process")
    await expect(process).to_contain_text("held")
    await expect(page.get_by_role("table", name="Workers")).to_contain_text("serves the queue")
    await expect(page.get_by_role("table", name="Agents")).to_contain_text("demo")
    await visit.photograph("resources")
    site.open(gate)
    await site.until(job_id, "completed")
    await expect(rows).to_have_count(0)
