"""What people and programs write is shown as it was written, and is never a part of the page."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.serving import Site

pytestmark = IN_BROWSER

NAME = "<script>document.title='owned'</script>"
LABEL = {"<b>": "<img src=x onerror=alert(7)>"}


async def test_names_texts_and_labels_that_look_like_markup_are_shown_as_they_are(
    visit: Visit, page: Page, site: Site
) -> None:
    """Whatever such a text would do is refused by the policy, which the test's own watch would hear of."""
    job_id = await site.done("evil", NAME, labels=LABEL)
    page.on("dialog", lambda dialog: pytest.fail(f"an alert: {dialog.message}"))

    await visit.go("jobs")
    row = page.get_by_role("row").filter(has_text=job_id[-8:])
    await expect(row).to_contain_text(NAME)
    await expect(row).to_contain_text("<b>=<img src=x onerror=alert(7)>")
    await visit.go(f"jobs/{job_id}")
    await expect(page.get_by_role("heading", name=NAME)).to_be_visible()
    await expect(page.get_by_role("form", name="Answer ask")).to_contain_text("<script>alert(5)</script> is it safe?")
    await expect(page.get_by_role("form", name="Answer ask")).to_contain_text("<script>alert(6)</script>")
    await visit.photograph("evil")
    await visit.go(f"jobs/{job_id}?step=say")
    panel = page.get_by_role("complementary", name="Step say")
    await expect(panel).to_contain_text("<script>alert(3)</script>")
    await expect(panel.get_by_role("group", name="outputs")).to_contain_text("<img src=x onerror=alert(4)>")
    await visit.go(f"jobs/{job_id}?tab=log")
    await expect(page.get_by_role("log", name="Log of the job")).to_contain_text(NAME)
    await visit.go("start?flow=evil")
    await expect(page.get_by_role("form", name="Start evil")).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(page.get_by_role("form", name="Start evil")).to_contain_text("<script>alert(2)</script>")
    await visit.go(f"checkpoints?run={job_id}")
    await expect(page.get_by_role("region", name="Checkpoint", exact=True)).to_contain_text("<img src=x")
    assert await page.evaluate("document.querySelectorAll('#app script, #app img').length") == 0
    assert "owned" not in await page.title()
