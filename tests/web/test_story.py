"""One story from end to end: a flow is started, watched and answered, and its server is killed twice, all in one look."""

from __future__ import annotations

import signal

from playwright.async_api import expect
from tests.web.browsing import IN_BROWSER
from tests.web.conftest import Open
from tests.web.serving import Site

pytestmark = IN_BROWSER

AWAY = "ERR_CONNECTION|ERR_SOCKET|ERR_INCOMPLETE|ERR_EMPTY|ERR_NETWORK"
"""What a browser says of a server that is not there."""


async def test_a_job_is_started_watched_and_answered_and_goes_on_over_two_deaths_of_its_server(
    open_page: Open, own_site: Site
) -> None:
    visit = await open_page(own_site, role=None)
    visit.allow(AWAY)
    page = visit.page
    await page.goto(own_site.link)
    await page.get_by_role("link", name="Start a job").click()
    await page.get_by_role("combobox", name="Flow").select_option(label="story (flows/story.flow.yaml)")
    form = page.get_by_role("form", name="Start story")
    await form.get_by_role("textbox", name="title").fill("The <i>ship</i>")
    await form.get_by_role("combobox", name="mood").select_option("stormy")
    await form.get_by_role("button", name="Start").click()

    # it is watched: what a step writes is there while the step still runs
    await expect(page.get_by_role("button", name="write: running")).to_be_visible()
    await page.evaluate("window.neverReloaded = true")
    await page.get_by_role("tab", name="Log").click()
    log = page.get_by_role("log", name="Log of the job")
    await expect(log).to_contain_text("once upon a time: The <i>ship</i>")
    await expect(log).not_to_contain_text("the sea was stormy")
    own_site.open("second-line")
    await expect(log).to_contain_text("the sea was stormy")

    # the first death, while somebody types an answer
    answer = page.get_by_role("form", name="Answer review")
    await expect(answer).to_contain_text("Shall it be published?")
    await answer.get_by_role("textbox", name="note").fill("well told")
    own_site.end(signal.SIGKILL)
    lost = page.get_by_role("status").filter(has_text="Connection lost")
    await expect(lost).to_be_visible()
    await visit.photograph("lost")
    own_site.start()
    await expect(lost).to_be_hidden()
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(answer.get_by_role("textbox", name="note")).to_have_value("well told")
    await answer.get_by_role("button", name="Answer").click()
    await expect(answer).to_contain_text("This is needed.")
    await answer.get_by_role("group", name="good").get_by_label("Yes").check()
    await answer.get_by_role("group", name="stars").get_by_label("three").check()
    await visit.photograph("answer")
    await answer.get_by_role("button", name="Answer").click()
    await expect(answer).to_be_hidden()

    # the second one, in the middle of a step: the next server runs that step again, and no other
    await expect(log).to_contain_text("publishing")
    own_site.end(signal.SIGKILL)
    await expect(lost).to_be_visible()
    own_site.open("publish")
    own_site.start()
    await page.get_by_role("tab", name="Graph").click()
    await expect(page.get_by_role("button", name="publish: completed")).to_be_visible()
    await expect(page.get_by_role("button", name="write: completed")).to_be_visible()
    await expect(page.get_by_text("3 of 3")).to_be_visible()
    await expect(lost).to_be_hidden()
    await page.get_by_role("tab", name="Data").click()
    outputs = page.get_by_role("group", name="the job's outputs")
    await expect(outputs).to_contain_text("The <i>ship</i>, stormy (well told)")
    assert await page.evaluate("window.neverReloaded") is True
    job_id = page.url.rpartition("/")[2].partition("?")[0]
    attempts = await own_site.call("GET", f"jobs/{job_id}/attempts")
    assert [one["step"] for one in attempts].count("write") == 1
