"""Runs of this process, followed in an app of the user's own; checkpoints listed, compared, forked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from tests.server.site import Site, frames

from holdfast import Agent, CheckpointConfig, Crew, Flow, Runtime, ScriptedModel, Task, listen, start, tool
from holdfast.events import LLMStreamChunkEvent
from holdfast.models import ToolCall
from holdfast.server import Tokens, create_app
from holdfast.stores import SqliteStore
from holdfast.streaming._buffers import CAPACITY


class Steps(Flow[dict[str, object]]):
    """Two steps; the second waits until it may go on."""

    gate: asyncio.Event

    @start()
    async def one(self) -> str:
        self.state["n"] = 1
        return "first"

    @listen(one)
    async def two(self, given: str) -> str:
        await self.gate.wait()
        self.state["n"] = 2
        return f"{given} second"


class Mounted:
    """The API inside a user's app."""

    def __init__(self, client: httpx2.AsyncClient, runtime: Runtime, store: SqliteStore) -> None:
        self.client, self.runtime, self.store = client, runtime, store


@pytest.fixture
async def mounted(tmp_path: Path) -> AsyncIterator[Mounted]:
    tokens = Tokens(tmp_path / "tokens.json")
    token = tokens.make("me", "operate", now_us=0)
    async with SqliteStore(tmp_path / "own.db") as store, Runtime(store=store, grace=2.0) as runtime:
        app = create_app(runtime, tokens=tokens)

        async def hello(request: object) -> PlainTextResponse:
            return PlainTextResponse("mine")

        outer = Starlette(routes=[Route("/mine", hello), Mount("/holdfast", app)])
        config = uvicorn.Config(outer, port=0, log_config=None, ws="none", lifespan="off", http="h11")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=20, verify=False
        ) as client:
            yield Mounted(client, runtime, store)
        app.close()
        server.should_exit = True
        await serving


async def test_a_run_is_followed_in_an_app_of_ones_own(mounted: Mounted) -> None:
    assert (await mounted.client.get("/mine")).text == "mine"
    assert (await mounted.client.get("/holdfast/healthz")).status_code == 200
    assert (await mounted.client.get("/holdfast/api/v1/jobs")).json()["error"] == "no_queue"
    assert (await mounted.client.get("/holdfast/openapi.json")).json()["servers"] == [{"url": "/holdfast"}]

    goes_on = asyncio.Event()

    async def body(run: object) -> str:
        await goes_on.wait()
        mounted.runtime.event_bus.emit(None, LLMStreamChunkEvent(call_id="c", chunk="hel"))
        mounted.runtime.event_bus.emit(None, LLMStreamChunkEvent(call_id="c", chunk="lo"))
        return "done"

    run = mounted.runtime.start(body, name="talk")
    (listed,) = (await mounted.client.get("/holdfast/api/v1/runs")).json()
    assert (listed["id"], listed["name"], listed["is_live"]) == (run.id, "talk", True)
    async with (
        asyncio.timeout(20),
        mounted.client.stream("GET", f"/holdfast/api/v1/runs/{run.id}/stream") as response,
        aclosing(frames(response)) as told,
    ):
        assert (await anext(told)).event == "snapshot"
        goes_on.set()
        rest = [frame async for frame in told]
    texts = [frame.data["data"]["chunk"] for frame in rest if frame.data.get("channel") == "text"]
    assert texts == ["hel", "lo"]
    assert (rest[-1].event, rest[-1].data) == ("end", {"status": "completed"})
    assert await run == "done"


async def test_what_came_too_fast_to_be_kept_is_counted_and_the_stream_goes_on(mounted: Mounted) -> None:
    """It was told as `dropped`, which says that the client is cut off, and has a reason."""
    goes_on = asyncio.Event()

    async def body(run: object) -> str:
        await goes_on.wait()
        for _ in range(CAPACITY + 5):
            mounted.runtime.event_bus.emit(None, LLMStreamChunkEvent(call_id="c", chunk="x"))
        return "done"

    run = mounted.runtime.start(body, name="talk")
    async with (
        asyncio.timeout(20),
        mounted.client.stream("GET", f"/holdfast/api/v1/runs/{run.id}/stream") as response,
        aclosing(frames(response)) as told,
    ):
        assert (await anext(told)).event == "snapshot"
        goes_on.set()
        rest = [frame async for frame in told]
    missed = [frame.data for frame in rest if frame.event == "missed"]
    texts = [frame for frame in rest if frame.data.get("channel") == "text"]
    assert [set(one) for one in missed] == [{"count"}]
    assert len(texts) + missed[0]["count"] >= CAPACITY + 5
    assert (rest[-1].event, rest[-1].data["status"]) == ("end", "completed")


class Begun:
    """A flow, a crew or an agent that waits in a tool until it may speak."""

    def __init__(self, kind: str, runtime: Runtime) -> None:
        goes_on = self.goes_on = asyncio.Event()

        @tool
        async def wait() -> str:
            """Waits."""
            await goes_on.wait()
            return "now"

        model = ScriptedModel([ToolCall("1", "wait", "{}"), ["It ", "is ", "done."]])
        agent = Agent(role="Guide", llm=model, tools=[wait], runtime=None if kind == "flow" else runtime)

        class Tour(Flow[dict[str, object]]):
            @start()
            async def tour(self) -> str:
                return str(await agent.akickoff("Where?"))

        tasks = [Task(name="tell", description="Where?", agent=agent)]
        self.task = asyncio.create_task({
            "agent": lambda: agent.akickoff("Where?"),
            "crew": lambda: Crew(name="Office", tasks=tasks, runtime=runtime).akickoff(),
            "flow": lambda: Tour(runtime=runtime).akickoff(),
        }[kind]())  # fmt: skip


@pytest.mark.parametrize(("kind", "steps"), [("flow", ["tour"]), ("crew", ["tell"]), ("agent", [])])
async def test_a_flow_a_crew_and_an_agent_of_this_process_are_followed(
    mounted: Mounted, kind: str, steps: list[str]
) -> None:
    begun, api = Begun(kind, mounted.runtime), "/holdfast/api/v1"
    async with asyncio.timeout(20):
        while not (runs := (await mounted.client.get(f"{api}/runs")).json()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        (run,) = runs
        assert (run["kind"], run["is_live"], run["created"] is not None) == (kind, True, True)
        graph = (await mounted.client.get(f"{api}/runs/{run['id']}/graph")).json()
        assert [node["name"] for node in graph["nodes"]] == steps
        async with (
            mounted.client.stream("GET", f"{api}/runs/{run['id']}/stream") as response,
            aclosing(frames(response)) as told,
        ):
            assert (await anext(told)).data["run"]["kind"] == kind
            begun.goes_on.set()
            rest = [frame async for frame in told]
    spoken = [frame.data["data"]["chunk"] for frame in rest if frame.data.get("channel") == "text"]
    assert "".join(spoken) == "It is done."
    assert "tool_usage_finished" in [frame.data.get("type") for frame in rest]
    assert (rest[-1].event, rest[-1].data) == ("end", {"status": "completed"})
    await begun.task


async def test_a_page_of_a_mounted_app_finds_its_parts_and_keeps_its_cookie_to_itself(mounted: Mounted) -> None:
    page = await mounted.client.get("/holdfast/")
    assert 'src="./assets/app.js"' in page.text
    assert (await mounted.client.get("/holdfast/assets/app.js")).status_code == 200
    token = mounted.client.headers["authorization"].removeprefix("Bearer ")
    signed = await mounted.client.post("/holdfast/api/v1/session", json={"token": token})
    assert "Path=/holdfast" in signed.headers["set-cookie"].split("; ")


async def test_checkpoints_of_a_flow_are_listed_shown_compared_and_forked(mounted: Mounted) -> None:
    flow = Steps(checkpoint=CheckpointConfig(mounted.store))
    flow.gate = asyncio.Event()
    flow.gate.set()
    assert await flow.akickoff() == "first second"
    api = "/holdfast/api/v1"

    (run,) = (await mounted.client.get(f"{api}/runs")).json()
    found = (await mounted.client.get(f"{api}/checkpoints", params={"run": run["id"]})).json()
    last, first = found[0], found[-1]
    shown = (await mounted.client.get(f"{api}/checkpoints/{last['id']}")).json()
    assert shown["state"]["n"] == 2
    assert {step["step"]: step["status"] for step in shown["steps"]}["one#1"] == "completed"
    diff = (await mounted.client.get(f"{api}/checkpoints/diff", params={"a": first["id"], "b": last["id"]})).json()
    assert {change["path"]: (change["before"], change["after"]) for change in diff["state"]}["$.n"] == (1, 2)
    forked = await mounted.client.post(
        f"{api}/checkpoints/{first['id']}/fork", json={"branch": "other", "state": {"n": 7}}
    )
    assert (forked.status_code, forked.json()["branch"]) == (201, "other")
    again = await mounted.client.post(f"{api}/checkpoints/{first['id']}/fork", json={"branch": "other"})
    assert again.status_code == 409
    state = (await mounted.client.get(f"{api}/checkpoints/{forked.json()['id']}")).json()["state"]
    assert state["n"] == 7
    tree = (await mounted.client.get(f"{api}/runs/{run['id']}/tree")).json()
    branches = [(one["name"], one["parent"], one["fork"], one["is_current"]) for one in tree["branches"]]
    assert branches == [("main", None, 0, False), ("other", "main", first["position"], True)]
    assert [one["id"] for one in tree["checkpoints"]] == [*(one["id"] for one in reversed(found)), forked.json()["id"]]
    assert (tree["run"]["status"], tree["job"]) == ("paused", None)
    resumed = await mounted.client.post(f"{api}/checkpoints/{forked.json()['id']}/resume", json={})
    assert (resumed.status_code, resumed.json()["error"]) == (409, "not_a_job")
    events = (await mounted.client.get(f"{api}/runs/{run['id']}/events", params={"branch": "main"})).json()["events"]
    assert [event["seq"] for event in events] == [*range(1, len(events) + 1)]
    assert (await mounted.client.get(f"{api}/runs/{run['id']}/events", params={"branch": "x"})).status_code == 404
    async with (
        asyncio.timeout(20),
        mounted.client.stream("GET", f"{api}/runs/{run['id']}/stream?after=start") as response,
        aclosing(frames(response)) as told,
    ):
        rows = [
            await anext(told) for _ in range(first["position"] + 1)
        ]  # a forked run may go on: its stream stays open
    assert [row.data["seq"] for row in rows] == [*range(1, len(rows) + 1)]
    assert rows[-1].data["type"] == "checkpoint_forked"


async def test_a_job_is_resumed_from_its_checkpoint(site: Site) -> None:
    await site.settled(job_id := await site.submit("gate"))
    client = await site.client("operate")
    (checkpoint,) = (await client.get("/api/v1/checkpoints", params={"run": job_id})).json()
    assert (await client.get(f"/api/v1/runs/{job_id}/tree")).json()["job"]["id"] == job_id
    assert [node["name"] for node in (await client.get(f"/api/v1/runs/{job_id}/graph")).json()["nodes"]] == ["review"]
    await client.post(f"/api/v1/jobs/{job_id}/pause", json={})
    resumed = await client.post(f"/api/v1/checkpoints/{checkpoint['id']}/resume", json={})
    assert (resumed.status_code, resumed.json()["id"]) == (200, job_id)
    assert (await site.settled(job_id)).status == "waiting"


BACK = """
name: back
steps:
  first:
    run: echo x >> "$HOLDFAST_PROJECT_DIR/firsts"; echo '{"n":1}'
    outputs: [n]
  second:
    run: echo x >> "$HOLDFAST_PROJECT_DIR/seconds"; echo '{"m":2}'
    inputs: {n: first.n}
    outputs: [m]
  gate:
    executor: external
    inputs: {m: second.m}
    outputs: {ok: {type: bool}}
"""


async def test_a_job_goes_back_to_after_a_step_on_a_branch_of_its_own(site: Site) -> None:
    (site.project.folder / "flows" / "back.flow.yaml").write_text(BACK)
    await site.settled(job_id := await site.submit("back"))
    client = await site.client("operate")
    made = (await client.get(f"/api/v1/runs/{job_id}/tree")).json()["checkpoints"]
    assert [(one["trigger"], one["subject"]) for one in made[:2]] == [
        ("step_completed", "first"),
        ("step_completed", "second"),
    ]
    forked = (await client.post(f"/api/v1/checkpoints/{made[0]['id']}/fork", json={"branch": "anew"})).json()
    resumed = await client.post(f"/api/v1/checkpoints/{forked['id']}/resume", json={})
    assert resumed.status_code == 200
    assert (await site.settled(job_id)).status == "waiting"
    tree = (await client.get(f"/api/v1/runs/{job_id}/tree")).json()
    assert [one["name"] for one in tree["branches"] if one["is_current"]] == ["anew"]
    runs = {name: len((site.project.folder / name).read_text().split()) for name in ("firsts", "seconds")}
    assert runs == {"firsts": 1, "seconds": 2}
