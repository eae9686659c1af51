"""Schedules: made with a look at the next times, fired, paused, changed, removed."""

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
def name() -> str:
    return f"nightly {uuid4().hex[:6]}"


async def test_a_schedule_is_made_fired_paused_resumed_changed_and_removed(
    visit: Visit, page: Page, site: Site, name: str
) -> None:
    await visit.go("schedules")
    await page.get_by_role("button", name="New schedule").click()
    form = page.get_by_role("dialog", name="New schedule")
    await form.get_by_role("textbox", name="Name").fill(name)
    await form.get_by_role("combobox", name="Flow").select_option(label="hello (flows/hello.flow.yaml)")
    await form.get_by_role("textbox", name="Cron expression").fill("61 * * * *")
    await expect(form.get_by_role("status")).to_contain_text("61")
    visit.allow("status of 400")  # that is how the form learns that an expression is none
    await form.get_by_role("textbox", name="Cron expression").fill("30 2 * * *")
    await form.get_by_role("combobox", name="Time zone").fill("Europe/Berlin")
    await expect(form.get_by_role("list", name="Due next").get_by_role("listitem")).to_have_count(5)
    await expect(form.get_by_role("list", name="Due next")).to_contain_text("02:30")
    await form.get_by_role("textbox", name="who").fill("<b>night</b>")
    await visit.photograph("form")
    await form.get_by_role("button", name="Schedule it").click()

    row = page.get_by_role("row").filter(has_text=name)
    await expect(row).to_contain_text("active")
    await row.get_by_role("button", name=f"Fire {name} now").click()
    await expect(row).to_contain_text("fired")
    await row.get_by_role("button", name=f"Pause {name}").click()
    await expect(row).to_contain_text("paused")
    await visit.photograph("schedules")
    await row.get_by_role("button", name=f"Resume {name}").click()
    await expect(row).to_contain_text("active")

    await row.get_by_role("link", name=name).click()
    ticks = page.get_by_role("table", name="Ticks").get_by_role("row")
    await expect(ticks).to_have_count(2)
    await visit.photograph("schedule")
    await page.get_by_role("button", name="Change").click()
    changing = page.get_by_role("dialog", name=f"Change {name}")
    await expect(changing.get_by_role("textbox", name="who")).to_have_value("<b>night</b>")
    await expect(changing.get_by_role("combobox", name="Flow")).to_have_value("flows/hello.flow.yaml")
    await changing.get_by_role("textbox", name="Cron expression").fill("@hourly")
    await changing.get_by_role("button", name="Save").click()
    await expect(changing).to_be_hidden()
    await expect(page.get_by_text("@hourly")).to_be_visible()
    await ticks.nth(1).get_by_role("link").click()
    await expect(page).to_have_url(re.compile("#/jobs/"))
    job = await site.until(page.url.rpartition("/")[2])
    assert (job["status"], job["inputs"]) == ("completed", {"who": "<b>night</b>"})

    await page.go_back()
    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.get_by_role("heading", name="Schedules")).to_be_visible()
    await expect(row).to_have_count(0)


async def test_a_schedule_that_is_due_fires_by_itself_and_the_page_shows_it(
    visit: Visit, page: Page, site: Site, name: str
) -> None:
    poll = {"every_seconds": 1, "command": """printf '{"fire": true}'"""}
    made = await site.call("POST", "schedules", {"name": name, "flow": "hello", "overlap": "allow", **poll})
    await visit.go(f"schedules?id={made['id']}")
    await expect(
        page.get_by_role("table", name="Ticks").get_by_role("row").filter(has_text="fired").first
    ).to_be_visible()
    await page.get_by_role("button", name=f"Pause {name}").click()
    await expect(page.get_by_role("button", name=f"Resume {name}")).to_be_visible()
    await site.call("DELETE", f"schedules/{made['id']}")


async def test_who_is_no_admin_makes_no_schedules_and_who_reads_fires_none(
    open_page: Open, site: Site, name: str
) -> None:
    made = await site.call("POST", "schedules", {"name": name, "flow": "hello", "cron": "@daily"})
    for role, fires in (("operate", 1), ("read", 0)):
        page = (await open_page(site, role=role, at="schedules")).page
        row = page.get_by_role("row").filter(has_text=name)
        await expect(row).to_be_visible()
        await expect(row.get_by_role("button", name=f"Fire {name} now")).to_have_count(fires)
        await expect(page.get_by_role("button", name="New schedule")).to_have_count(0)
    await site.call("DELETE", f"schedules/{made['id']}")
