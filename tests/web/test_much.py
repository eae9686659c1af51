"""Much of everything: a thousand items, long words and outputs, many questions; and for a while no server."""

from __future__ import annotations

import asyncio
import re
import signal

from playwright.async_api import Page, Route, expect
from tests.web.browsing import IN_BROWSER, PHONE, Visit
from tests.web.conftest import Open
from tests.web.serving import Site

pytestmark = IN_BROWSER

LIST = """
  list:
    outputs: [items]
    run: |
      i=1; printf '{"items":["first"'; while [ $i -lt COUNT ]; do printf ',"item %s"' $i; i=$((i+1)); done; printf ']}'
"""
MANY = f"""
name: many
steps:{LIST.replace("COUNT", "1000")}
  work:
    for_each: list.items
    as: item
    max_parallel: 8
    flow: {{steps: {{one: {{run: 'true', inputs: {{item: $job.item}}}}}}}}
"""
ASKS = f"""
name: asks
steps:{LIST.replace("COUNT", "40")}
  work:
    for_each: list.items
    as: item
    max_parallel: 40
    flow:
      steps:
        ask: {{executor: external, prompt: 'well, $item?', inputs: {{item: $job.item}}, outputs: {{good: {{type: bool}}}}}}
"""
STEP, FIELD, WORD = "a_step_with_a_long_name_" * 4, "a_field_with_a_long_name_" * 3, "w" * 300
LONG = f"""
name: {"a-flow-with-a-long-name-" * 4}
description: {WORD}
inputs:
  {FIELD}: {{type: str, description: {WORD}, default: {WORD}}}
steps:
  {STEP}:
    description: {WORD}
    outputs: [text, deep]
    run: |
      i=0; while [ $i -lt 1000 ]; do echo "line $i" >&2; i=$((i+1)); done
      head -c 20000 /dev/zero | tr '\\0' x >&2; echo >&2; echo "the last line" >&2
      printf '{{"text": "%s", "deep": {{"a": {{"b": {{"c": "{WORD}"}}}}}}}}' "$(head -c 300000 /dev/zero | tr '\\0' y)"
  ask:
    executor: external
    after: [{STEP}]
    prompt: {WORD} or {"is this all right? " * 50}
    outputs:
      {FIELD}: {{type: text, description: {WORD}}}
      choice: {{type: choice, options: [{WORD}, other]}}
"""


def write(site: Site, name: str, text: str) -> None:
    (site.folder / "flows" / f"{name}.flow.yaml").write_text(text)


async def test_a_job_of_a_thousand_items_is_shown_with_few_of_them_and_all_are_in_reach(
    visit: Visit, page: Page, site: Site
) -> None:
    write(site, "many", MANY)
    job_id = await site.submit("many")
    await visit.go(f"jobs/{job_id}")
    work = page.get_by_role("button", name=re.compile("^work: completed, 1000 of 1000 items done"))
    async with asyncio.timeout(150):
        while (await site.call("GET", f"jobs/{job_id}"))["status"] != "completed":  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    await expect(work).to_be_visible()
    await page.reload()
    await expect(work).to_be_visible()
    assert await page.evaluate("document.querySelectorAll('*').length") < 1000
    await visit.photograph("many")
    await visit.go(f"jobs/{job_id}?tab=timeline")
    await expect(page.get_by_text("1,002 steps")).to_be_visible()
    await visit.go(f"jobs/{job_id}?step=work/999/one")
    await expect(page.get_by_role("complementary", name="Step work/999/one")).to_contain_text("item 999")


SLOW_ITEMS = """
name: slow-items
steps:
  list: {run: "echo '{\\"items\\": [1, 2]}'", outputs: [items]}
  work:
    for_each: list.items
    as: item
    flow: {steps: {one: {run: 'until [ -e "$HOLDFAST_PROJECT_DIR/items" ]; do sleep 0.02; done'}}}
"""


async def test_items_that_began_before_the_page_did_are_seen_to_end(visit: Visit, page: Page, site: Site) -> None:
    """What a stream tells of runs inside steps means nothing before the attempts are read: the graph stayed as it was."""
    write(site, "slow-items", SLOW_ITEMS)
    job_id = await site.submit("slow-items")
    await site.until(job_id, "running")
    goes_on = asyncio.Event()

    async def late(route: Route) -> None:
        await goes_on.wait()
        await route.continue_()

    await page.route("**/attempts", late)
    async with asyncio.timeout(30):
        while sum(one["status"] == "running" for one in await site.call("GET", f"jobs/{job_id}/steps")) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await visit.go(f"jobs/{job_id}")
    await expect(page.locator("main").get_by_text("running", exact=True).first).to_be_visible()
    site.open("items")
    await site.until(job_id, "completed")
    await expect(page.locator("main").get_by_text("completed", exact=True).first).to_be_visible()
    goes_on.set()
    work = page.get_by_role("button", name=re.compile("^work: "))
    await expect(work).to_have_accessible_name(re.compile("^work: completed, 2 of 2 items done"))


async def test_long_names_texts_and_outputs_stay_in_their_places(visit: Visit, page: Page, site: Site) -> None:
    write(site, "long", LONG)
    job_id = await site.done("long", "n" * 200, labels={"k" * 190: "v" * 190})
    for at in (f"jobs/{job_id}", f"jobs/{job_id}?step={STEP}", f"jobs/{job_id}?tab=timeline", f"jobs/{job_id}?tab=log",
               f"jobs/{job_id}?tab=data", "jobs", "flows", "flows/flows/long.flow.yaml", "start?flow=flows/long.flow.yaml",
               f"runs/{job_id}", f"checkpoints?run={job_id}"):  # fmt: skip
        await visit.go(at)
        await expect(page.locator("main h1")).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        if at.startswith("start"):
            await expect(page.get_by_role("form")).to_contain_text(FIELD)
        assert await visit.sticks_out() == [], at
        await visit.photograph(re.sub(r"\W+", "-", at.replace(job_id, "JOB")))


async def test_the_end_of_a_long_log_is_in_sight_on_a_phone_too(visit: Visit, page: Page, site: Site) -> None:
    """Lines that come into sight take another place than was reckoned: the end had moved, and a blank was shown."""
    write(site, "long", LONG)
    job_id = await site.done("long")
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    await visit.go(f"jobs/{job_id}?tab=log")
    log = page.get_by_role("log", name="Log of the job")
    await log.scroll_into_view_if_needed()
    await expect(log.get_by_text("waiting: waits for an answer")).to_be_in_viewport()
    await log.press("Home")
    await expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()
    await expect(log.get_by_text("line 0", exact=True)).to_be_in_viewport()
    await page.get_by_role("button", name="Follow", exact=True).click()
    await expect(log.get_by_text("waiting: waits for an answer")).to_be_in_viewport()


async def test_of_many_questions_a_few_are_shown_and_that_of_the_chosen_step_is_the_first(
    visit: Visit, page: Page, site: Site
) -> None:
    """Two hundred forms stood above the tabs: the graph was forty screens below."""
    write(site, "asks", ASKS)
    job_id = await site.submit("asks")
    async with asyncio.timeout(60):
        while len((await site.call("GET", f"jobs/{job_id}"))["asks"]) < 40:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await visit.go(f"jobs/{job_id}")
    forms = page.get_by_role("form", name=re.compile("^Answer work"))
    await expect(forms).to_have_count(5)
    await visit.go(f"jobs/{job_id}?step=work/39/ask")
    await expect(forms.first).to_have_accessible_name("Answer work/39/ask")
    await forms.first.get_by_role("radio", name="Yes").check()
    await forms.first.get_by_role("button", name="Answer").click()
    more = page.get_by_role("button", name="Show 34 more questions")
    await expect(more).to_be_visible()
    await visit.photograph("asks")
    await more.click()
    await expect(forms).to_have_count(39)


async def test_a_page_that_found_no_server_fills_itself_once_there_is_one(open_page: Open, own_site: Site) -> None:
    visit = await open_page(own_site, at="jobs")
    visit.allow("ERR_", "Failed to load")
    page = visit.page
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    own_site.end(signal.SIGKILL)
    for at, title, shown in (
        ("flows", "Flows", "One child run for each item"),
        ("settings", "Settings", "Version"),
        ("resources", "Resources", "Workers"),
        ("schedules", "Schedules", "Nothing is scheduled"),
    ):
        await visit.go(at)
        await expect(page.get_by_role("heading", name=title, exact=True).first).to_be_visible()
        await expect(page.get_by_text("The server cannot be reached.").first).to_be_visible()
        own_site.start()
        await expect(page.get_by_text(shown).first).to_be_visible()
        await expect(page.get_by_text("The server cannot be reached.")).to_have_count(0)
        own_site.end(signal.SIGKILL)
