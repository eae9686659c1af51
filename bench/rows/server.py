"""`holdfast serve` under load: 500 clients that follow one job, 200 jobs at once, and calls beside them; what it holds then."""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2

from bench._harness import Row, compare

CLIENTS = 500
TIMED = 10
"""Clients that look at what they get; the others only count."""
LINES = 100
CALLS = 200
JOBS = 200
FLOW = f"""
name: talk
steps:
  talk:
    run: |
      until [ -e "$HOLDFAST_PROJECT_DIR/open" ]; do sleep 0.05; done
      i=0; while [ $i -lt {LINES} ]; do echo "line $i" >&2; i=$((i+1)); sleep 0.05; done
      echo '{{"n": 1}}'
    outputs: [n]
"""
GATE = """
name: gate
steps:
  ask: {executor: external, prompt: well?, outputs: [said]}
"""


@contextmanager
def _server() -> Iterator[tuple[str, str, Path, int]]:
    """A server in a process of its own: its address, a token, its project, its pid."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / ".holdfast").mkdir()
        (project / "talk.flow.yaml").write_text(FLOW)
        (project / "gate.flow.yaml").write_text(GATE)
        command = [sys.executable, "-m", "holdfast", "serve", "--port", "0"]
        with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[2].rstrip(";")
            token = process.stdout.readline().strip().partition("#token=")[2]
            try:
                yield url, token, project, process.pid
            finally:
                process.send_signal(signal.SIGINT)


async def _connect(url: str, token: str, job_id: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = f"GET /api/v1/jobs/{job_id}/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(request.encode())
    await reader.readuntil(b"event: snapshot")
    return reader, writer


async def _count(reader: asyncio.StreamReader) -> int:
    """How many lines come until the end: with as little work as can be, for the clients share this machine."""
    lines, rest = 0, b""
    while b"event: end" not in rest:
        data = rest + await reader.read(65536)
        lines, rest = lines + data.count(b"line ") - rest.count(b"line "), data[-64:]
    return lines


async def _time(reader: asyncio.StreamReader, lags: list[float]) -> int:
    """As `_count`, and how late each piece of the job's output is."""
    lines = 0
    while (line := await reader.readline()) != b"event: end\n":
        if line.startswith(b"data: ") and b'"channel":"stderr"' in line:
            told = json.loads(line[6:])
            lines += told["text"].count("line ")
            lags.append(time.time() - datetime.fromisoformat(told["at"]).timestamp())
    return lines


async def _calls(client: httpx2.AsyncClient, over: asyncio.Event) -> list[float]:
    """How long calls take while streams are open."""
    took: list[float] = []
    while not over.is_set() and len(took) < CALLS:
        began = time.perf_counter()
        (await client.get("/api/v1/jobs")).raise_for_status()
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.01)
    return took


async def _follow(url: str, token: str, project: Path, clients: int, pid: int) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    (project / "open").unlink(missing_ok=True)
    async with httpx2.AsyncClient(base_url=url, headers=headers, verify=False, timeout=60) as client:
        job_id = (await client.post("/api/v1/jobs", json={"flow": "talk"})).json()["id"]
        lags, over = list[float](), asyncio.Event()
        connected = [await _connect(url, token, job_id) for _ in range(clients)]
        listening = [_time(reader, lags) for reader, _ in connected[:TIMED]]
        listening += [_count(reader) for reader, _ in connected[TIMED:]]
        calling = asyncio.create_task(_calls(client, over))
        began = time.time()
        (project / "open").touch()
        lines = await asyncio.gather(*listening)
        over.set()
        memory = _memory_mb(pid)
        for _, writer in connected:
            writer.close()
        (job,) = (await client.get("/api/v1/jobs", params={"text": job_id})).json()["jobs"]
        seconds = datetime.fromisoformat(job["ended"]).timestamp() - began
        return {"lines": lines, "lags": lags, "calls": await calling, "seconds": seconds, "memory": memory}


async def _submit(url: str, token: str) -> dict[str, Any]:
    """Many jobs that come at once: how long each submission takes, calls beside them, and all until each has run its step."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, verify=False, timeout=60) as client:

        async def one() -> float:
            began = time.perf_counter()
            (await client.post("/api/v1/jobs", json={"flow": "gate"})).raise_for_status()
            return time.perf_counter() - began

        over = asyncio.Event()
        began = time.perf_counter()
        calling = asyncio.create_task(_calls(client, over))
        submitted = await asyncio.gather(*(one() for _ in range(JOBS)))
        while (await _waiting(client)) < JOBS:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        over.set()
        return {"submitted": submitted, "calls": await calling, "seconds": time.perf_counter() - began}


async def _waiting(client: httpx2.AsyncClient) -> int:
    found = (await client.get("/api/v1/jobs", params={"status": "waiting", "limit": JOBS})).json()
    return len(found["jobs"])


def _memory_mb(pid: int) -> float:
    """What of the process is in memory and its own."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return (int(rows["VmRSS"].split()[0]) - int(rows["RssFile"].split()[0])) / 1024


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98] * 1000


def measure_server() -> list[Row]:
    """What a frame and a call take while 500 clients follow one job, and what they cost the job."""
    with _server() as (url, token, project, pid):
        idle = _memory_mb(pid)
        alone = asyncio.run(_follow(url, token, project, 1, pid))
        crowd = asyncio.run(_follow(url, token, project, CLIENTS, pid))
        jobs = asyncio.run(_submit(url, token))
        after = _memory_mb(pid)
    lost = sum(LINES - lines for lines in crowd["lines"])
    told: dict[str, Any] = {"better": "lower", "peers": {}}
    return [
        compare(f"{CLIENTS} clients on one job: frames lost", "lines", lost, target="0", ok=lost == 0, **told),
        compare(f"{CLIENTS} clients on one job: a line is late by, p99", "ms", _p99(crowd["lags"]), limit=_p99(alone["lags"]),
                target="≤ 500 ms", ok=_p99(crowd["lags"]) <= 500, **told),
        compare(f"{CLIENTS} clients on one job: the job takes, beside one client", "×", crowd["seconds"] / alone["seconds"],
                target="≤ 1.1", ok=crowd["seconds"] <= 1.1 * alone["seconds"], **told),
        compare(f"a call beside {CLIENTS} streams, p99", "ms", _p99(crowd["calls"]), limit=_p99(alone["calls"]),
                target="≤ 250 ms", ok=_p99(crowd["calls"]) <= 250, **told),
        compare(f"memory of the server with {CLIENTS} streams", "MB", crowd["memory"], limit=idle, **told),
        compare(f"{JOBS} jobs submitted at once, p99", "ms", _p99(jobs["submitted"]), **told),
        compare(f"{JOBS} jobs submitted at once, until all have run", "s", jobs["seconds"], **told),
        compare(f"a call beside {JOBS} jobs, p99", "ms", _p99(jobs["calls"]), **told),
        compare(f"memory of the server after that, {JOBS} jobs waiting", "MB", after, limit=idle, **told),
    ]  # fmt: skip


ROWS = {"server": measure_server}
