"""The watch that every test of the page keeps: what it would overlook, no test would find."""

from __future__ import annotations

from playwright.async_api import Page, expect
from tests.web.browsing import IN_BROWSER, PHONE, Visit

pytestmark = IN_BROWSER

ADD = "(html) => document.querySelector('main').insertAdjacentHTML('beforeend', html)"


async def test_errors_refused_calls_and_breaches_of_the_policy_are_heard(visit: Visit, page: Page) -> None:
    await visit.go("jobs")
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert visit.complaints() == []
    await page.evaluate("setTimeout(() => { throw new Error('a slip') })")
    await page.evaluate("fetch('api/v1/nowhere').then(() => {})")
    await page.evaluate("document.head.append(Object.assign(document.createElement('script'), {textContent: '1'}))")
    await page.evaluate("console.error('the last')")
    heard = "\n".join(visit.complaints())
    visit.allow("")
    for part in ("a slip", "404", "security policy: script-src-elem", "the last"):
        assert part in heard, heard


async def test_bare_controls_torn_words_and_what_sticks_out_are_seen(visit: Visit, page: Page) -> None:
    await visit.go("jobs")
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert (await visit.unnamed(), await visit.torn(), await visit.sticks_out()) == ([], [], [])
    await page.evaluate(ADD, "<button></button><input type=checkbox>")
    assert await visit.unnamed() == ["button", "checkbox"]
    await page.evaluate(ADD, "<p id=narrow>harbour</p>")
    await page.evaluate(
        "Object.assign(document.getElementById('narrow').style, {width: '20px', wordBreak: 'break-all'})"
    )
    assert await visit.torn() == ["harbour"]
    await page.evaluate(ADD, "<p id=wide>wide</p>")
    await page.evaluate("document.getElementById('wide').style.width = '900px'")
    assert await visit.sticks_out() != []
