"""Many clients on one job: each gets everything, and one that reads nothing slows nobody."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.site import SMALL, Site, served

CLIENTS = 500
WAVES = 32
FILLER = 3900
"""With a line's other parts less than a pipe takes at once: a line is a frame. All waves are more than fits into the ring of
frames and the buffers between a server and a client that reads nothing."""
TALK = f"""
name: talk
steps:
  talk:
    run: |
      filler=$(printf '%{FILLER}s' '')
      while read -r word; do
        echo "~$word$filler" >&2
        echo "-$word$filler" >&2
      done < "$HOLDFAST_PROJECT_DIR/waves"
      echo '{{"n": 1}}'
    outputs: [n]
"""


class Client:
    """A bare client: real ones would take most of the time. What it does not read stays in buffers that are small."""

    _writer: asyncio.StreamWriter | None = None

    async def begin(self, site: Site, job_id: str, last: str = "") -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        sock.connect(("127.0.0.1", site.port))
        self.reader, self._writer = await asyncio.open_connection(sock=sock, limit=SMALL)
        self._writer.write(
            f"GET /api/v1/jobs/{job_id}/stream HTTP/1.0\r\nHost: localhost\r\nLast-Event-ID: {last}\r\n"
            f"Authorization: Bearer {site.tokens['read']}\r\n\r\n".encode()
        )
        await self.reader.readuntil(b"retry: 1000\n\n")

    async def listen(self, wave: asyncio.Barrier) -> tuple[int, bool]:
        """How many waves came until the stream ended, and whether it said how the job ended."""
        seen, tail = 0, b""
        while data := await self.reader.read(65536):
            for _ in range(data.count(b"~")):
                seen += 1
                await wave.wait()
            tail = (tail + data)[-1000:]
        return seen, b"event: end\n" in tail

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@pytest.fixture
async def clients() -> AsyncIterator[list[Client]]:
    made = [Client() for _ in range(CLIENTS + 2)]
    yield made
    for client in made:
        client.close()


async def test_500_clients_of_one_job_get_everything_and_one_that_does_not_read_slows_nobody(
    tmp_path: Path, clients: list[Client]
) -> None:
    async with asyncio.timeout(55), served(tmp_path, kept_frames=10, burst=2 * CLIENTS, poll_seconds=0.01) as site:
        (tmp_path / "flows" / "talk.flow.yaml").write_text(TALK)
        os.mkfifo(tmp_path / "waves")
        job_id = await site.submit("talk")
        waves = await asyncio.to_thread((tmp_path / "waves").open, "w", buffering=1)  # once the step reads them
        slow, late, *crowd = clients
        await slow.begin(site, job_id)
        now = (await slow.reader.readuntil(b"event: snapshot\n")).split()[1].decode()
        for client in crowd:
            await client.begin(site, job_id, now)
        wave = asyncio.Barrier(CLIENTS + 1)
        listening = [asyncio.create_task(client.listen(wave)) for client in crowd]
        with waves:
            for number in range(WAVES):
                waves.write(f"{number}\n")
                await wave.wait()  # everybody has it, though one has read nothing
        assert {await one for one in listening} == {(WAVES, True)}
        told = frames_in(await slow.reader.read(-1))
        assert (told[-1][1], told[-1][2]["reason"].split(":")[0]) == ("dropped", "too slow")
        await late.begin(site, job_id, [last for last, _, _ in told if last][-1])
        rest = frames_in(await late.reader.read(-1))
        assert words([*told, *rest]) == [*range(WAVES)]
        assert rest[-1][1] == "end"


JOBS, LONGEST = 200, 5.0
"""Far more than a call takes: what counts is that none waits for the jobs. `make bench` measures."""


async def test_200_jobs_at_once_each_run_once_and_calls_are_answered_beside_them(tmp_path: Path) -> None:
    async with asyncio.timeout(55), served(tmp_path, burst=10**6, calls_per_second=1e6) as site:
        client, took = await site.client("operate"), list[float]()

        async def call(method: str, path: str, **more: Any) -> Any:
            begun = time.perf_counter()
            answer = await client.request(method, path, **more)
            took.append(time.perf_counter() - begun)
            assert answer.status_code in (200, 201), answer.text
            return answer.json()

        new = {"flow": "hello", "labels": {"crowd": "yes"}}
        ids = {
            one["id"] for one in await asyncio.gather(*(call("POST", "/api/v1/jobs", json=new) for _ in range(JOBS)))
        }
        while True:
            found = await call("GET", "/api/v1/jobs", params={"label": "crowd=yes", "limit": 1000})
            if all(job["status"] == "completed" for job in found["jobs"]):
                break
        assert len(ids) == JOBS == len(found["jobs"])
        assert {job["claims"] for job in found["jobs"]} == {1}
        assert sorted(took)[int(len(took) * 0.99)] < LONGEST


def frames_in(data: bytes) -> list[tuple[str, str, Any]]:
    """Whole frames: the id, the event, the data."""
    found = re.findall(r"(?:id: (.*)\n)?event: (.*)\ndata: (.*)\n\n", data.decode())
    return [(last, event, json.loads(text)) for last, event, text in found]


def words(told: list[tuple[str, str, Any]]) -> list[int]:
    """The numbers of the waves, in the order they were told."""
    texts = "".join(data["text"] for _, event, data in told if event == "log")
    return [int(line[1:]) for line in texts.split("\n") if line.startswith("~")]
