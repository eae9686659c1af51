"""`holdfast serve` as a user runs it, on a project of its own: started, killed, and started again where it was."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2

from holdfast.server import ROLES, Role, Tokens

FLOWS = Path(__file__).resolve().parent / "flows"
COMMAND = [sys.executable, "-W", "error", "-m", "holdfast"]
ENDED = {"completed", "failed", "cancelled"}


class Site:
    """A project with the flows of this folder, tokens for every role, and its server."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        self.folder = folder
        (folder / ".holdfast").mkdir()
        (folder / ".holdfast" / "holdfast.toml").write_text(settings)
        shutil.copytree(FLOWS, folder / "flows")
        self.process: subprocess.Popen[str] | None = None
        self.url, self.link = "", ""
        self.tokens: dict[Role, str] = {}

    def start(self) -> None:
        """Start the server; on the port it had, if it was up before."""
        port = self.url.rpartition(":")[2] or "0"
        with (self.folder / "errors").open("a") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, "serve", "--port", port], cwd=self.folder, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self.process.stdout is not None
        greeting = self.process.stdout.readline()
        assert greeting, (self.folder / "errors").read_text()
        if not self.url:
            self.url = greeting.split()[2].rstrip(";")
            self.link = self.process.stdout.readline().strip()
            kept, now_us = Tokens(self.folder / ".holdfast" / "tokens.json"), time.time_ns() // 1000
            self.tokens = {role: kept.make(f"a {role}", role, now_us=now_us) for role in ROLES}

    def end(self, number: int) -> int:
        """Send the server a signal, and wait for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.communicate(timeout=30)
        return self.process.returncode

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGTERM)

    def open(self, gate: str) -> None:
        """Let go on what waits for this gate: steps of the flows look for a file."""
        (self.folder / gate).touch()

    # -- what a test prepares or checks without the page -----------------------------------------------------------------

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API as an admin. Fails if it is refused."""
        headers = {"Authorization": f"Bearer {self.tokens['admin']}"}
        async with httpx2.AsyncClient(base_url=f"{self.url}/api/v1/", headers=headers, verify=False) as client:
            answer = await client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def submit(self, flow: str, name: str = "", **more: Any) -> str:
        """Submit a job; give its id."""
        job = await self.call("POST", "jobs", {"flow": flow, "name": name, **more})
        return str(job["id"])

    async def until(self, job_id: str, *statuses: str) -> Any:
        """The job, once it has one of these statuses; without any, once it has ended or waits."""
        wanted = {*statuses} or {*ENDED, "waiting", "paused"}
        async with asyncio.timeout(30):
            while (job := await self.call("GET", f"jobs/{job_id}"))["status"] not in wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return job

    async def done(self, flow: str, name: str = "", **more: Any) -> str:
        """Submit a job, and wait until it has ended or waits."""
        job_id = await self.submit(flow, name, **more)
        await self.until(job_id)
        return job_id
