"""A real browser for tests: found, started, watched. Whatever it complains of fails the test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Playwright, async_playwright
from playwright.async_api import Error as BrowserError

from holdfast.server import Role

IN_BROWSER = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]
"""Marks of every test here: they share the browser's loop, and a loaded machine is slow."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESK = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
PATIENCE_MS = 15_000
"""How long anything may take to appear; a loaded machine is slow."""
COOKIE = "holdfast_token"
NAMED_ROLES = {
    "button", "checkbox", "combobox", "link", "menuitem", "radio", "searchbox", "slider", "spinbutton", "switch", "tab",
    "textbox",
}  # fmt: skip
TELL_OF_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`security policy: ${event.violatedDirective} by ${event.blockedURI} ${event.sample}`));
"""


class Served(Protocol):
    """Where the page is, and what lets one in."""

    url: str
    tokens: dict[Role, str]


class NoBrowser(Exception):
    """There is none, or it does not start; says what to do."""


def find_chromium() -> str:
    """The browser's program. Raises NoBrowser."""
    asked = os.environ.get("HOLDFAST_CHROMIUM")
    found = next(filter(None, map(shutil.which, [asked] if asked else NAMES)), None)
    if found is None:
        raise NoBrowser(
            "these need Chromium. On Debian, as root: apt-get install chromium; or name one: HOLDFAST_CHROMIUM=/path/to/it"
        )
    return found


@asynccontextmanager
async def started() -> AsyncIterator[Browser]:
    """A browser without a window. Raises NoBrowser."""
    program = find_chromium()
    async with async_playwright() as playwright:
        browser = await _launch(playwright, program)
        yield browser
        await browser.close()


async def _launch(playwright: Playwright, program: str) -> Browser:
    try:  # root has no sandbox to give
        return await playwright.chromium.launch(executable_path=program, chromium_sandbox=os.geteuid() != 0)
    except BrowserError as error:
        reason = error.message.strip().splitlines()[0]
        raise NoBrowser(f"{program} does not start here ({reason}); another: HOLDFAST_CHROMIUM=/path/to/it") from error


class Visit:
    """One person's look at the page, in a browser profile of their own."""

    def __init__(self, context: BrowserContext, page: Page, site: Served, kept: Path) -> None:
        self.page, self.site = page, site
        self._context, self._kept = context, kept
        self._wrong: list[str] = []
        self._allowed: list[str] = []
        page.on("pageerror", lambda error: self._wrong.append(f"error: {error}"))
        page.on("console", lambda said: self._note(said.type, said.text))
        page.on("requestfailed", lambda request: self._note_failed(request.url, request.failure or ""))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self._wrong.append(f"console: {text}")

    def _note_failed(self, url: str, why: str) -> None:
        if "ERR_ABORTED" not in why:  # a stream that the page itself has left
            self._wrong.append(f"request: {url} {why}")

    def allow(self, *patterns: str) -> None:
        """What is part of this test, and no fault of the page."""
        self._allowed += patterns

    def complaints(self) -> list[str]:
        """Errors of the page's code, of the browser about it, and of its requests."""
        return [one for one in self._wrong if not any(re.search(pattern, one) for pattern in self._allowed)]

    async def go(self, address: str) -> None:
        """Go to a place of the page, as `jobs/ID`."""
        await self.page.goto(f"{self.site.url}/#/{address}")

    async def photograph(self, name: str) -> None:
        """Keep pictures: light, dark, and on a phone. Fails on what everybody would see there, and on controls without a name."""
        for scheme in ("dark", "light"):
            await self._paint(scheme)
            await self._keep(f"{name}-{scheme}")
        assert (torn := await self.torn()) == [], f"words torn apart: {torn}"
        await self.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        await self._keep(f"{name}-phone")
        assert (out := await self.sticks_out()) == [], f"sticks out on a phone: {out}"
        assert (torn := await self.torn()) == [], f"words torn apart on a phone: {torn}"
        await self.page.set_viewport_size(DESK)  # type: ignore[arg-type]
        assert (unnamed := await self.unnamed()) == [], f"controls without a name: {unnamed}"

    async def _paint(self, scheme: Literal["light", "dark"]) -> None:
        await self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")

    async def _keep(self, name: str) -> None:
        await self.page.screenshot(path=self._kept / f"{name}.png", full_page=True, animations="disabled")

    async def sticks_out(self) -> list[str]:
        """What makes the whole page wider than its window."""
        found: list[str] = await self.page.evaluate(STICKS_OUT)
        return found

    async def torn(self) -> list[str]:
        """Short words that do not fit on a line, because what they are in is too narrow."""
        found: list[str] = await self.page.evaluate(TORN)
        return found

    async def unnamed(self) -> list[str]:
        """Controls that a screen reader would have nothing to say about."""
        session = await self._context.new_cdp_session(self.page)
        nodes = (await session.send("Accessibility.getFullAXTree"))["nodes"]
        await session.detach()
        bare = [node for node in nodes if not node.get("ignored") and not node.get("name", {}).get("value", "").strip()]
        return [role for node in bare if (role := node.get("role", {}).get("value")) in NAMED_ROLES]

    async def close(self, *, keep_trace: bool) -> None:
        if keep_trace:
            await self._keep("at-the-end")
            await self._context.tracing.stop(path=self._kept / "trace.zip")
        await self._context.close()


STICKS_OUT = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > width + 1)
    .map((one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class")}: ${one.textContent.slice(0, 40)}`)
    .slice(0, 8);
}"""

TORN = """() => {
  const torn = new Set();
  const range = document.createRange();
  const texts = document.createTreeWalker(document.querySelector("main") ?? document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.parentElement.closest("pre, code, svg, .log, .code")) continue;
    for (const word of node.data.matchAll(/\\S+/g)) {
      if (word[0].length > 12) continue;
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].filter((one) => one.width > 0).map((one) => Math.round(one.top)));
      if (tops.size > 1) torn.add(word[0]);
    }
  }
  return [...torn].slice(0, 8);
}"""


async def visit(browser: Browser, site: Served, kept: Path, role: Role | None) -> Visit:
    """Somebody with a token of that role, or with none, who has not opened the page yet."""
    context = await browser.new_context(viewport=DESK, locale="en-GB", timezone_id="Europe/Berlin")  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    await context.add_init_script(TELL_OF_VIOLATIONS)
    await context.tracing.start(snapshots=True)
    if role is not None:
        await context.add_cookies([{"name": COOKIE, "value": site.tokens[role], "url": site.url}])
    return Visit(context, await context.new_page(), site, kept)
