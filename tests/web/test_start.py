"""The form that starts a job: made from the flow's typed inputs."""

from __future__ import annotations

import re

from playwright.async_api import Locator, Page, expect
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.serving import Site

pytestmark = IN_BROWSER


async def started_job(page: Page) -> str:
    await expect(page).to_have_url(re.compile(r"#/jobs/[0-9a-f-]{36}"))
    return page.url.rpartition("/")[2]


async def test_a_job_is_started_with_inputs_of_every_kind(visit: Visit, page: Page, site: Site) -> None:
    await visit.go("start")
    await page.get_by_role("combobox", name="Flow").select_option(label="inputs (flows/inputs.flow.yaml)")
    form = page.get_by_role("form", name="Start inputs")
    await expect(form).to_contain_text("Takes an input of every kind.")
    await visit.photograph("start")
    await form.get_by_role("textbox", name="line").fill("a <b>line</b>")
    await form.get_by_role("textbox", name="words").fill("many\nlines")
    await form.get_by_role("textbox", name="amount").fill("7")
    await form.get_by_role("combobox", name="sure").select_option("no")
    await form.get_by_role("combobox", name="colour").select_option("red")
    await expect(form.get_by_label("password")).to_be_disabled()
    await form.get_by_text("Name, labels, approval").click()
    await form.get_by_role("textbox", name="Name", exact=True).fill("by hand")
    await form.get_by_role("button", name="Add a label").click()
    await form.get_by_label("Name of label 1").fill("team")
    await form.get_by_label("Value of label 1").fill("web")
    await form.get_by_label("Priority").fill("5")
    await form.get_by_role("button", name="Start").click()
    job = await site.until(await started_job(page))
    assert (job["name"], job["labels"], job["priority"], job["status"]) == ("by hand", {"team": "web"}, 5, "completed")
    outputs = await site.call("GET", f"jobs/{job['id']}/outputs")
    assert outputs["outputs"]["got"] == ["a <b>line</b>", "many\nlines", "7", "false", "red"]


async def test_what_is_missing_or_does_not_fit_is_said_at_its_field(visit: Visit, page: Page) -> None:
    await visit.go("start?flow=inputs")
    form = page.get_by_role("form", name="Start inputs")
    line, amount = form.get_by_role("textbox", name="line"), form.get_by_role("textbox", name="amount")
    start = form.get_by_role("button", name="Start")
    await amount.fill("12")
    await start.click()
    await expect(line).to_be_focused()
    await expect(line).to_have_attribute("aria-invalid", "true")
    await expect(described(line)).to_have_text("This is needed.")
    await expect(described(amount)).to_contain_text("9 at most")
    await visit.photograph("wrong")
    await page.keyboard.type("there")
    await expect(line).to_have_value("there")
    await expect(line).to_have_attribute("aria-invalid", "false")
    await start.click()
    await expect(amount).to_be_focused()
    await amount.fill("9")
    await expect(amount).to_have_attribute("aria-invalid", "false")


def described(field: Locator) -> Locator:
    """What a screen reader adds to a field that is wrong."""
    return field.locator("xpath=..").locator(".wrong")


async def test_a_job_that_must_be_approved_waits_for_that(visit: Visit, page: Page, site: Site) -> None:
    await visit.go("start?flow=hello")
    form = page.get_by_role("form", name="Start hello")
    await form.get_by_text("Name, labels, approval").click()
    await form.get_by_label("Somebody must approve it").check()
    await form.get_by_role("button", name="Start").click()
    job = await site.call("GET", f"jobs/{await started_job(page)}")
    assert job["status"] == "awaiting_approval"


async def test_a_flow_that_cannot_be_used_is_not_offered(visit: Visit, page: Page) -> None:
    await visit.go("start")
    flows = page.get_by_role("combobox", name="Flow").get_by_role("option")
    await expect(flows.filter(has_text="hello")).to_have_count(1)
    await expect(flows.filter(has_text="broken")).to_have_count(0)


async def test_a_job_is_started_like_another(visit: Visit, page: Page, site: Site) -> None:
    first = await site.done("hello", "the first", inputs={"who": "you"})
    await visit.go(f"jobs/{first}")
    await page.get_by_role("link", name="Start again").click()
    form = page.get_by_role("form", name="Start hello")
    await expect(form.get_by_role("textbox", name="who")).to_have_value("you")
    await form.get_by_role("button", name="Start").click()
    second = await site.until(await started_job(page))
    assert (second["id"] != first, second["inputs"]) == (True, {"who": "you"})
