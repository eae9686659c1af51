"""The page inside a program of the user's own: it follows the flows and crews of that process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
import uvicorn
from playwright.async_api import Page, expect
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.web.browsing import IN_BROWSER, Visit
from tests.web.conftest import Open
from tests.web.serving import Site

from holdfast import Agent, CheckpointConfig, Flow, Runtime, ScriptedModel, listen, start, tool
from holdfast.models import ToolCall
from holdfast.server import Role, Tokens, create_app
from holdfast.stores import SqliteStore

pytestmark = IN_BROWSER


class Program:
    """A program with the page mounted in it."""

    def __init__(self, runtime: Runtime, tokens: Tokens) -> None:
        self.runtime, self.url = runtime, ""
        self.tokens: dict[Role, str] = {"admin": tokens.make("me", "admin", now_us=0)}
        self.goes_on = asyncio.Event()

    def tour(self) -> Flow[dict[str, object]]:
        """A flow whose agent speaks once it may."""
        goes_on = self.goes_on

        @tool
        async def look() -> str:
            """Looks around."""
            await goes_on.wait()
            return "a lighthouse"

        model = ScriptedModel([ToolCall("1", "look", "{}"), ["There ", "is a ", "<b>lighthouse</b>."]])
        agent = Agent(role="Guide", llm=model, tools=[look])

        class Tour(Flow[dict[str, object]]):
            @start()
            async def walk(self) -> str:
                self.state["seen"] = "sea"
                return str(await agent.akickoff("What is there?"))

            @listen(walk)
            async def tell(self, seen: str) -> str:
                return seen

        return Tour(runtime=self.runtime, checkpoint=CheckpointConfig())


@pytest_asyncio.fixture(loop_scope="session")
async def program(tmp_path: Path) -> AsyncIterator[Program]:
    tokens = Tokens(tmp_path / "tokens.json")
    async with SqliteStore(tmp_path / "own.db") as store, Runtime(store=store, grace=2.0) as runtime:
        made, api = Program(runtime, tokens), create_app(runtime, tokens=tokens)
        outer = Starlette(routes=[Mount("/holdfast", api)])
        server = uvicorn.Server(uvicorn.Config(outer, port=0, log_config=None, ws="none", lifespan="off", http="h11"))
        serving = asyncio.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        made.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/holdfast"
        yield made
        api.close()
        server.should_exit = True
        await serving


async def test_a_flow_of_ones_own_process_is_followed_while_its_agent_works(open_page: Open, program: Program) -> None:
    visit = await open_page(program, at="runs")
    page = visit.page
    await expect(page.get_by_text("No runs yet")).to_be_visible()
    running = asyncio.create_task(program.tour().akickoff())
    await page.get_by_role("link", name="Tour").click()
    acts = page.get_by_role("list", name="What it does")
    await expect(acts).to_contain_text("look")
    await expect(page.get_by_role("button", name="walk: running")).to_be_visible()
    await visit.photograph("working")
    program.goes_on.set()
    await expect(acts).to_contain_text("There is a <b>lighthouse</b>.")
    await expect(page.get_by_role("button", name="tell: completed")).to_be_visible()
    assert await running == "There is a <b>lighthouse</b>."
    await page.get_by_role("tab", name="Events").click()
    events = page.get_by_role("list", name="Events, newest first")
    await expect(events).to_contain_text("llm_call_completed")
    await page.get_by_role("searchbox", name="Search events").fill("lookout")
    await expect(events.get_by_role("listitem")).to_have_count(0)
    await visit.photograph("events")
    await page.get_by_role("link", name="Checkpoints").last.click()
    details = page.get_by_role("region", name="Checkpoint", exact=True)
    await details.get_by_role("tab", name="State").click()
    await expect(details.get_by_role("group", name="the state")).to_contain_text("sea")
    await visit.photograph("checkpoints")


async def test_the_state_of_a_checkpoint_is_changed_on_a_branch_of_its_own(open_page: Open, program: Program) -> None:
    program.goes_on.set()
    flow = program.tour()
    await flow.akickoff()
    page = (await open_page(program, at="checkpoints")).page
    await page.get_by_role("table").get_by_role("link", name="Tour").click()
    await page.get_by_role("button", name="Fork").click()
    dialog = page.get_by_role("dialog", name="Fork this checkpoint")
    state = dialog.get_by_role("textbox", name="State")
    await state.fill("{nonsense")
    await expect(dialog).to_contain_text("This is no JSON")
    await state.fill('{"seen": "land"}')
    await dialog.get_by_role("button", name="Fork").click()
    details = page.get_by_role("region", name="Checkpoint", exact=True)
    await expect(details).to_contain_text("branch-1 begins")
    await expect(details.get_by_role("group", name="the state")).to_contain_text("land")
    await details.get_by_role("tab", name="Compare").click()
    await expect(details.get_by_role("group", name="Differences")).to_contain_text("seen")
    await expect(details.get_by_role("group", name="before")).to_contain_text("sea")


async def test_a_job_is_a_run_too_and_leads_to_its_page(visit: Visit, page: Page, site: Site) -> None:
    job_id = await site.done("steps")
    await visit.go(f"runs/{job_id}")
    await expect(page.get_by_role("button", name="three: waiting")).to_be_visible()
    await visit.photograph("run-of-a-job")
    await page.get_by_role("link", name="The job").click()
    await expect(page.get_by_role("form", name="Answer three")).to_be_visible()
