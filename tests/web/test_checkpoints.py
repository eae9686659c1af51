"""Checkpoints: a tree of branches, what differs, forks, and going on from one."""

from __future__ import annotations

import re
from uuid import uuid4

from playwright.async_api import Page, expect
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.serving import Site

pytestmark = IN_BROWSER


async def test_checkpoints_of_a_job_are_looked_at_and_compared(visit: Visit, page: Page, site: Site) -> None:
    job_id = await site.done("steps")
    await visit.go("checkpoints")
    await page.get_by_role("row").filter(has_text=job_id[-8:]).get_by_role("link").click()
    marks = page.get_by_role("list", name="Checkpoints, newest first").get_by_role("button")
    await expect(marks.filter(has_text="two")).not_to_have_count(0)
    await marks.filter(has_text="two").first.click()
    details = page.get_by_role("region", name="Checkpoint", exact=True)
    await expect(details.get_by_role("row").filter(has_text="two")).to_contain_text("completed")
    await visit.photograph("steps")
    await details.get_by_role("tab", name="Compare").click()
    differences = details.get_by_role("group", name="Differences")
    await expect(differences.get_by_role("heading", name="only the later one")).to_be_visible()
    await expect(differences.get_by_role("listitem")).to_contain_text("two")
    await visit.photograph("compare")
    await details.get_by_role("tab", name="Compare").press("ArrowLeft")
    await expect(details.get_by_role("tab", name="Steps")).to_be_focused()


async def test_a_failed_job_is_forked_at_an_earlier_checkpoint_and_goes_on_there(
    visit: Visit, page: Page, site: Site
) -> None:
    gate = uuid4().hex
    job_id = await site.done("fails", inputs={"until": gate})
    await visit.go(f"checkpoints?run={job_id}")
    marks = page.get_by_role("list", name="Checkpoints, newest first").get_by_role("button")
    await marks.filter(has_text="prepare").first.click()
    site.open(gate)
    await page.get_by_role("button", name="Fork").click()
    dialog = page.get_by_role("dialog", name="Fork this checkpoint")
    name = dialog.get_by_role("textbox", name="Name of the branch")
    await name.fill("main")
    await expect(dialog).to_contain_text("There is a branch of this name already.")
    await expect(dialog.get_by_role("button", name="Fork")).to_be_disabled()
    await name.fill("mended")
    await visit.photograph("fork")
    await dialog.get_by_label("Go on with the job").check()
    await dialog.get_by_role("button", name="Fork").click()
    await expect(page).to_have_url(re.compile(f"#/jobs/{job_id}"))
    assert (await site.until(job_id, "completed"))["status"] == "completed"
    await visit.go(f"checkpoints?run={job_id}")
    await expect(marks.filter(has_text="mended · current")).to_have_count(1)
    await visit.photograph("tree")


async def test_a_failed_job_is_resumed_where_it_was(visit: Visit, page: Page, site: Site) -> None:
    gate = uuid4().hex
    job_id = await site.done("fails", inputs={"until": gate})
    site.open(gate)
    await visit.go(f"checkpoints?run={job_id}")
    await page.get_by_role("button", name="Resume").click()
    dialog = page.get_by_role("dialog", name="Resume the job?")
    await dialog.get_by_role("button", name="Resume").click()
    await expect(page).to_have_url(re.compile(f"#/jobs/{job_id}"))
    await site.until(job_id, "completed")


async def test_a_run_without_checkpoints_and_one_that_is_not_there_say_so(visit: Visit, page: Page, site: Site) -> None:
    visit.allow("status of 404")
    await visit.go("checkpoints?run=nobody")
    await expect(page.get_by_role("alert")).to_be_visible()
