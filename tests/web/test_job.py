"""The page of a job: its graph, its steps, its log, its timeline, and what may be done to it."""

from __future__ import annotations

import re
from uuid import uuid4

from playwright.async_api import Locator, Page, expect
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.conftest import Open
from tests.web.serving import Site

pytestmark = IN_BROWSER


def step(page: Page, name: str) -> Locator:
    """A step of the graph."""
    return page.get_by_role("button", name=re.compile(rf"^{name}: "))


async def test_every_item_and_every_flow_inside_a_step_is_in_the_graph(visit: Visit, page: Page, site: Site) -> None:
    job_id = await site.done("each")
    await visit.go(f"jobs/{job_id}")
    await expect(step(page, "study")).to_have_accessible_name(re.compile("completed, 3 of 3 items done"))
    await expect(step(page, "print")).to_have_accessible_name("print: completed")
    await visit.photograph("graph")
    await expect(step(page, "search")).to_have_count(3)
    await step(page, "search").first.click()
    panel = page.get_by_role("complementary", name=re.compile("Step study.*search"))
    await expect(panel.get_by_role("group", name="outputs")).to_contain_text("notes on tides")
    await expect(panel.get_by_role("group", name="inputs")).to_contain_text("tides")
    await visit.photograph("inside")
    await page.get_by_role("button", name="Close study").click()
    await expect(step(page, "search")).to_have_count(0)
    await page.get_by_role("button", name="Open study").click()
    await expect(step(page, "search")).to_have_count(3)


async def test_a_loop_shows_how_often_it_was_taken(visit: Visit, page: Page, site: Site) -> None:
    job_id = await site.done("loop")
    await visit.go(f"jobs/{job_id}")
    await expect(step(page, "try")).to_have_accessible_name("try: completed, attempt 3")
    await expect(page.get_by_role("group", name="Steps of loop")).to_contain_text("once more")
    await step(page, "judge").click()
    panel = page.get_by_role("complementary", name="Step judge")
    await panel.get_by_role("tab", name="Attempts 3").click()
    await expect(panel.get_by_role("listitem")).to_have_count(3)
    await expect(panel.get_by_role("listitem").last).to_contain_text("by the rule once more")
    await visit.photograph("loop")


async def test_a_failed_job_says_why_and_is_taken_up_again(visit: Visit, page: Page, site: Site) -> None:
    gate = uuid4().hex
    job_id = await site.done("fails", inputs={"until": gate})
    await visit.go(f"jobs/{job_id}")
    await step(page, "work").click()
    panel = page.get_by_role("complementary", name="Step work")
    await expect(panel.get_by_role("alert")).to_contain_text("exit code 7")
    await visit.photograph("failed")
    site.open(gate)
    await page.get_by_role("button", name="Retry").click()
    await expect(step(page, "work")).to_have_accessible_name("work: completed, attempt 2")
    await expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    await page.get_by_role("tab", name="History").click()
    rows = page.get_by_role("table", name="History").get_by_role("row")
    await expect(rows.filter(has_text="failed")).to_have_count(1)
    await expect(rows.nth(1)).to_contain_text("completed")
    await visit.photograph("history")


async def test_what_an_agent_says_streams_in_and_the_job_is_cancelled_with_a_reason(
    visit: Visit, page: Page, site: Site
) -> None:
    job_id = await site.submit("speaks")
    await visit.go(f"jobs/{job_id}?step=talk")
    speech = page.get_by_role("region", name="What it says")
    await expect(speech).to_contain_text("The tide comes in, and goes out again.")
    await expect(step(page, "talk")).to_have_accessible_name("talk: running")
    await visit.photograph("speaks")
    await page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel this job?")
    await dialog.get_by_role("button", name="Keep it").click()
    await page.get_by_role("button", name="Cancel").click()
    await dialog.get_by_label("Reason").fill("heard enough")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("heard enough").first).to_be_visible()
    assert (await site.until(job_id))["status"] == "cancelled"


async def test_a_job_is_approved_paused_resumed_archived_and_deleted(visit: Visit, page: Page, site: Site) -> None:
    job_id = await site.submit("gate", "steered", needs_approval=True)
    await visit.go(f"jobs/{job_id}")
    actions = page.get_by_role("group", name="Actions")

    async def press(name: str) -> None:
        await actions.get_by_role("button", name=name, exact=True).click()

    await press("Approve")
    await expect(page.get_by_role("form", name="Answer review")).to_be_visible()
    await press("Pause")
    await press("Resume")
    await page.get_by_role("group", name="good").get_by_label("No").check()
    await page.get_by_role("button", name="Answer").click()
    await press("Archive")
    await press("Unarchive")
    await press("Delete")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page).to_have_url(re.compile("#/jobs$"))
    visit.allow("status of 404")
    await visit.go(f"jobs/{job_id}")
    await expect(page.get_by_text("There is no such job")).to_be_visible()


async def test_the_log_is_searched_and_the_timeline_leads_to_steps(visit: Visit, page: Page, site: Site) -> None:
    job_id = await site.done("each")
    await visit.go(f"jobs/{job_id}?tab=log")
    log = page.get_by_role("log", name="Log of the job")
    await expect(log).to_contain_text("searching for knots")
    await page.get_by_role("searchbox", name="Search the log").fill("SEARCHING FOR K")
    await expect(log).not_to_contain_text("tides")
    await expect(log.locator("mark")).to_have_text("searching for k")
    await visit.photograph("log")
    await page.get_by_role("tab", name="Timeline").click()
    timeline = page.get_by_role("region", name="Timeline")
    await expect(timeline.get_by_role("img", name=re.compile(r"^list: completed"))).to_be_visible()
    await visit.photograph("timeline")
    await timeline.get_by_role("button", name="list", exact=True).click()
    await expect(page.get_by_role("complementary", name="Step list")).to_be_visible()


async def test_who_may_only_read_sees_what_is_asked_and_cannot_answer(open_page: Open, site: Site) -> None:
    job_id = await site.done("gate")
    page = (await open_page(site, role="read", at=f"jobs/{job_id}")).page
    await expect(page.get_by_role("form", name="Answer review")).to_contain_text("Is it good?")
    await expect(page.get_by_role("form", name="Answer review").get_by_role("button")).to_have_count(0)
    await expect(page.get_by_role("group", name="Actions")).to_have_count(0)


async def test_with_the_keyboard_alone_a_job_is_started_walked_through_and_answered(
    visit: Visit, page: Page, site: Site
) -> None:
    await visit.go("jobs")
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await page.keyboard.press("n")
    await tab_to(page, page.get_by_role("combobox", name="Flow"))
    await page.keyboard.type("steps")
    form = page.get_by_role("form", name="Start steps")
    await expect(form).to_be_visible()
    await tab_to(page, form.get_by_role("button", name="Start"))
    await page.keyboard.press("Enter")
    await expect(step(page, "three")).to_have_accessible_name("three: waiting")
    await tab_to(page, step(page, "one"))
    await page.keyboard.press("ArrowDown")
    await expect(step(page, "two")).to_be_focused()
    await page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Step two")
    await expect(panel).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    await page.keyboard.press("3")
    await expect(page.get_by_role("tab", name="Log")).to_have_attribute("aria-selected", "true")
    await tab_to(page, page.get_by_role("form", name="Answer three").get_by_role("textbox", name="said"))
    await page.keyboard.type("done")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("3 of 3")).to_be_visible()


async def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until that has the focus, as somebody without a mouse would."""
    await expect(wanted).to_be_visible()
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await wanted.evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"{wanted} cannot be reached with Tab")
