"""A project that is really served: uvicorn on loopback in the test's own loop, a worker, tokens for every role."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from holdfast.cli._project import Project
from holdfast.cli._serve import app_of, tokens_of
from holdfast.ports import Job
from holdfast.resources import SystemProcessTable
from holdfast.server import ROLES, App, Binding, Role, Serving, Settings
from holdfast.service import Worker, WorkerOptions, is_settled
from holdfast.stores import SqliteLedger, SqliteStore

HELLO = """
name: hello
description: greets somebody
inputs:
  who: {type: str, default: world}
steps:
  greet:
    run: |
      echo "greeting $who" >&2
      echo "{\\"text\\": \\"hello $who\\"}"
    inputs: {who: $job.who}
    outputs: [text]
"""
GATE = """
name: gate
steps:
  review:
    executor: external
    prompt: is it good?
    outputs:
      good: {type: bool}
"""
SLOW = """
name: slow
steps:
  first:
    run: echo '{"n":1}'
    outputs: [n]
  wait:
    run: |
      until [ -e "$HOLDFAST_PROJECT_DIR/open" ]; do sleep 0.02; done
      echo '{"m":2}'
    inputs: {n: first.n}
    outputs: [m]
"""
SMALL = 8192
BROKEN = "name: broken\nstepz: {}\n"


class Site:
    """What a test has of a served project."""

    def __init__(self, project: Project, app: App, url: str, stack: AsyncExitStack) -> None:
        self.project, self.app, self.url, self._stack = project, app, url, stack
        tokens, now_us = tokens_of(project), 1_000_000
        self.tokens: dict[Role, str] = {role: tokens.make(f"a {role}", role, now_us=now_us) for role in ROLES}
        self._clients: dict[str, httpx2.AsyncClient] = {}

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def client(self, role: Role | None = "admin", **headers: str) -> httpx2.AsyncClient:
        """A client that is closed with the site."""
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        transport = httpx2.AsyncHTTPTransport(
            verify=False, socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)]
        )
        made = httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=20, transport=transport)
        await self._stack.enter_async_context(made)
        return made

    async def submit(self, flow: str, **inputs: Any) -> str:
        client = await self.client("operate")
        answer = await client.post("/api/v1/jobs", json={"flow": flow, "inputs": inputs})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def settled(self, job_id: str) -> Job:
        async with asyncio.timeout(20):
            return (await self.project.service.until([job_id], lambda found: is_settled(found[0])))[0]


@asynccontextmanager
async def served(folder: Path, *, worker: bool = True, **settings: Any) -> AsyncIterator[Site]:
    """Serve the project in a folder; the flows above are put there."""
    home = folder / ".holdfast"
    home.mkdir(exist_ok=True)
    (folder / "flows").mkdir(exist_ok=True)
    for name, text in {"hello": HELLO, "gate": GATE, "slow": SLOW, "broken": BROKEN}.items():
        (folder / "flows" / f"{name}.flow.yaml").write_text(text)
    async with AsyncExitStack() as stack:
        project = Project(home, SqliteStore(home / "holdfast.db"))
        stack.push_async_callback(project.aclose)
        ledger = await stack.enter_async_context(SqliteLedger(project.store.path))
        options = WorkerOptions(places=4)
        works = Worker(project.jobs, project.runner, SystemProcessTable(), options=options, logs=project.logs)
        binding = Binding()
        app = app_of(project, Settings(**settings), works if worker else None, ledger)
        serving = Serving(app, binding, works if worker else None)
        listening = binding.listen()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)  # the kernel must not hide a slow client
        task = asyncio.create_task(serving.serve(listening))
        site = Site(project, app, f"http://127.0.0.1:{listening.getsockname()[1]}", stack)
        try:
            async with AsyncExitStack() as clients:
                site._stack = clients
                yield site
        finally:
            serving.stop()
            await task


class Frame(msgspec.Struct, frozen=True):
    """A frame as a client reads it."""

    event: str
    data: Any
    id: str = ""


async def frames(response: httpx2.Response) -> AsyncGenerator[Frame]:
    """The frames of a stream; heartbeats are of the event `:`."""
    held: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            yield Frame(":", line)
        elif line:
            name, _, value = line.partition(": ")
            held[name] = value
        elif "event" in held:
            yield Frame(held["event"], msgspec.json.decode(held["data"]), held.get("id", ""))
            held = {}
        else:
            held = {}
