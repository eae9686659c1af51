"""The project's flows: each file beside its graph, and what is wrong with it."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.serving import Site

pytestmark = IN_BROWSER


async def test_flows_are_found_and_lead_to_their_file_and_their_form(visit: Visit, page: Page) -> None:
    await visit.go("flows")
    table = page.get_by_role("table", name="Flows")
    await expect(table.get_by_role("row").filter(has_text="each")).to_contain_text("3")
    await expect(table.get_by_role("row").filter(has_text="broken")).to_contain_text("cannot be used")
    await expect(table.get_by_role("link", name="Start broken")).to_have_count(0)
    await visit.photograph("flows")
    await page.keyboard.press("/")
    await page.keyboard.type("POLITELY")
    await expect(table.get_by_role("row")).to_have_count(2)
    await table.get_by_role("link", name="Start hello").click()
    await expect(page.get_by_role("form", name="Start hello")).to_be_visible()
    await visit.go("flows?text=nothing+like+it")
    await page.get_by_role("button", name="Show all").click()
    await table.get_by_role("link", name="hello", exact=True).click()
    await expect(page).to_have_url(re.compile(r"#/flows/flows%2Fhello\.flow\.yaml"))


async def test_a_file_is_shown_beside_its_graph_and_each_leads_to_the_other(visit: Visit, page: Page) -> None:
    await visit.go("flows/flows%2Fstory.flow.yaml")
    code = page.get_by_role("group", name="The file")
    await expect(code).to_contain_text("Writes two lines; the second once the file says so.")
    steps = page.get_by_role("group", name="Steps of story")
    await expect(page.get_by_text("The check found nothing to say.")).to_be_visible()
    await visit.photograph("flow")
    await steps.get_by_role("button", name="publish: step").click()
    await expect(page).to_have_url(re.compile(r"line=\d+"))
    await expect(code.locator(".is-chosen")).to_contain_text("publish:")
    await code.get_by_role("button", name="Line 10", exact=True).click()
    await expect(steps.get_by_role("button", name="write: step")).to_have_attribute("aria-pressed", "true")
    await expect(page.get_by_role("table", name="Inputs").get_by_role("row").filter(has_text="mood")).to_contain_text(
        "calm | stormy"
    )
    await page.get_by_role("link", name="Start", exact=True).click()
    await expect(page.get_by_role("form", name="Start story")).to_be_visible()


async def test_what_is_wrong_with_a_file_is_said_at_its_line_and_gone_once_it_is_mended(
    visit: Visit, page: Page, site: Site
) -> None:
    path = site.folder / "flows" / "mended.flow.yaml"
    path.write_text("name: mended\nsteps:\n  one:\n    run: echo '{}'\n    descriptoin: x\n")
    await visit.go("flows/flows%2Fmended.flow.yaml")
    findings = page.get_by_role("list", name="Findings")
    await expect(findings).to_contain_text("descriptoin")
    await expect(page.get_by_role("group", name="The file").locator("[data-line='5']")).to_contain_text("did you mean")
    await visit.photograph("broken")
    await findings.get_by_role("button", name=re.compile("line 5")).first.click()
    await expect(page).to_have_url(re.compile("line=5"))
    path.write_text("name: mended\nsteps:\n  one:\n    run: echo '{}'\n")
    await page.get_by_role("button", name="Check again").click()
    await expect(findings).to_have_count(0)
    await expect(page.get_by_role("button", name="one: step")).to_be_visible()
    path.unlink()


async def test_a_flow_leads_to_a_schedule_and_one_that_is_not_there_says_so(visit: Visit, page: Page) -> None:
    await visit.go("flows/flows%2Fhello.flow.yaml")
    await page.get_by_role("link", name="Schedule", exact=True).click()
    form = page.get_by_role("dialog", name="New schedule")
    await expect(form.get_by_role("combobox", name="Flow")).to_have_value("flows/hello.flow.yaml")
    await form.get_by_role("button", name="Cancel").click()
    visit.allow("status of 404")
    await visit.go("flows/nothing")
    await expect(page.get_by_role("alert")).to_contain_text("nothing")
