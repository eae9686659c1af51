"""What is refused before anybody looks at it, and what every answer carries."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.site import SMALL, Site, served

from holdfast.server import _protocol
from holdfast.server._protocol import PatientProtocol


async def test_a_name_that_is_not_ours_is_refused(site: Site) -> None:
    client = await site.client("admin")
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::1"):
        answer = await client.get("/api/v1/me", headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]) == (421, "wrong_host"), host
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:5"):
        assert (await client.get("/api/v1/me", headers={"Host": host})).status_code == 200, host


async def test_pages_of_other_origins_may_not_call(site: Site) -> None:
    client = await site.client("admin")
    for origin in (
        "https://evil.example",
        "null",
        "http://127.0.0.1:1",
        "http://localhost",
        f"https://127.0.0.1:{site.port}",
    ):
        answer = await client.get("/api/v1/me", headers={"Origin": origin})
        assert (answer.status_code, answer.json()["error"]) == (403, "wrong_origin"), origin
    assert (await client.get("/api/v1/me", headers={"Origin": site.url})).status_code == 200
    crossed = {"Sec-Fetch-Site": "cross-site"}
    assert (await client.post("/api/v1/jobs", json={"flow": "hello"}, headers=crossed)).status_code == 403


async def test_a_page_that_is_allowed_may_call(tmp_path: Path) -> None:
    async with served(tmp_path, worker=False, origins=("https://friend.example",)) as site:
        client = await site.client("read")
        assert (await client.get("/api/v1/me", headers={"Origin": "https://friend.example"})).status_code == 200


async def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(site: Site) -> None:
    client = await site.client("operate")
    large = b'{"flow": "' + b"a" * 1_100_000 + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 65536):
            yield large[start : start + 65536]

    headers = {"Content-Type": "application/json"}
    assert (await client.post("/api/v1/jobs", content=large, headers=headers)).status_code == 413
    assert (await client.post("/api/v1/jobs", content=pieces(), headers=headers)).status_code == 413


async def test_a_body_that_is_no_json_is_refused(site: Site) -> None:
    client = await site.client("operate")

    async def sent(content: bytes, kind: str = "application/json") -> int:
        return (await client.post("/api/v1/jobs", content=content, headers={"Content-Type": kind})).status_code

    assert await sent(b'{"flow": "hello"}', "text/plain") == 415
    assert await sent(b"flow=hello", "application/x-www-form-urlencoded") == 415
    assert await sent(b"\xff\xfe") == 400
    assert await sent(b"[" * 100_000) == 400
    assert await sent(b'{"flow": "hello", "inputs": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}") == 400
    assert await sent(b'{"flow": "a\\u0000b"}') == 400


SLOW_HEAD = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


async def test_a_head_that_comes_byte_by_byte_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on the time between two bytes would not help: whoever sends one now and then would stay for ever."""
    monkeypatch.setattr(_protocol, "HEAD_SECONDS", 0.1)
    for first in (b"", b"GET / HT", SLOW_HEAD):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(first)
        assert await trickle(reader, writer) == b""
    assert (await (await site.client(None)).get("/healthz")).status_code == 200


@pytest.mark.parametrize("requests", [1, 3])
async def test_who_asks_and_takes_nothing_is_cut_off(
    site: Site, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    """An answer that nobody takes kept its connection for ever: some thousands, without any token, and nobody else got one."""
    monkeypatch.setattr(_protocol, "STUCK_SECONDS", 0.1)
    lost, lose = asyncio.Event(), PatientProtocol.connection_lost

    def note(protocol: PatientProtocol, error: Exception | None) -> None:
        lose(protocol, error)
        lost.set()

    monkeypatch.setattr(PatientProtocol, "connection_lost", note)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        sock.connect(("127.0.0.1", site.port))
        sock.sendall(b"GET /assets/app.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * requests)
        async with asyncio.timeout(20):
            await lost.wait()
    assert (await (await site.client(None)).get("/healthz")).status_code == 200


async def test_a_body_that_comes_byte_by_byte_is_not_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path, worker=False, body_seconds=0.1) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        head = (
            f"Content-Type: application/json\r\nContent-Length: 99999\r\nAuthorization: Bearer {site.tokens['operate']}"
        )
        writer.write(f"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n{{".encode())
        assert (await trickle(reader, writer)).startswith(b"HTTP/1.1 408 ")


async def test_who_sends_slowly_takes_no_place_from_others(tmp_path: Path) -> None:
    async with served(tmp_path, worker=False) as site:
        slow = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(100)]
        for _, writer in slow:
            writer.write(SLOW_HEAD)
        client = await site.client("read")
        assert [(await client.get("/api/v1/me")).status_code for _ in range(10)] == [200] * 10
        for _, writer in slow:
            writer.close()


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Send one byte after another until there is an answer or the connection is cut; what was answered."""
    answer = asyncio.create_task(reader.readline())
    async with asyncio.timeout(20):
        while not answer.done():
            writer.write(b"a")
            await asyncio.wait({answer}, timeout=0.005)
    writer.close()
    try:
        return answer.result()
    except ConnectionResetError:
        return b""


NO_REQUESTS = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
)


async def test_what_is_no_request_is_refused_and_the_server_goes_on(site: Site) -> None:
    for raw in NO_REQUESTS:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(raw)
        async with asyncio.timeout(10):
            line = await reader.readline()
        assert line[9:10] == b"4", line
        writer.close()
    assert (await (await site.client(None)).get("/healthz")).status_code == 200


async def test_every_answer_tells_browsers_to_trust_it_with_nothing(site: Site) -> None:
    client = await site.client("read")
    for path in ("/", "/docs", "/healthz", "/api/v1/jobs", "/nowhere", "/api/v1/flows/graph?flow=hello"):
        answer = await client.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "no-store" in answer.headers["cache-control"]
        assert "server" not in answer.headers


async def test_nothing_that_could_be_secret_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = await site.client("operate")
    await client.get("/api/v1/jobs", params={"text": "s3cr3t-query"})
    await client.post("/api/v1/jobs", json={"flow": "hello", "inputs": {"who": "s3cr3t-input"}})
    await client.post("/api/v1/session", json={"token": "hf_1_s3cr3t-guess"})
    await client.get("/api/v1/jobs/s3cr3t-path")
    server = [record.getMessage() for record in caplog.records if record.name.startswith(("holdfast", "uvicorn"))]
    assert any("POST /api/v1/jobs 201" in line for line in server)
    assert not [line for line in server if "s3cr3t" in line or site.tokens["operate"] in line]


OUTSIDE = (
    "../outside", "../outside.flow.yaml", "flows/../../outside", "/etc/passwd", "~/x", "..", ".", "%2e%2e/outside", "a" * 399,
    ".holdfast/tokens.json", "flows/link.flow.yaml", "link/outside", "\u202e", "file:///etc/passwd", "flows/hello.flow.yaml/x",
)  # fmt: skip


async def test_no_flow_is_read_outside_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "outside.flow.yaml").write_text("name: outside\nsteps: {a: {run: id}}\n")
    project = tmp_path / "project"
    (project / "flows").mkdir(parents=True)
    (project / "flows" / "link.flow.yaml").symlink_to(tmp_path / "outside.flow.yaml")
    (project / "link").symlink_to(tmp_path)
    async with served(project, worker=False) as site:
        client = await site.client("operate")
        for name in OUTSIDE:
            for path in ("file", "graph", "check"):
                answer = await client.get(f"/api/v1/flows/{path}", params={"flow": name})
                assert (answer.status_code, answer.json()["error"]) == (404, "unknown_flow"), name
            assert (await client.post("/api/v1/jobs", json={"flow": name})).status_code == 404
        assert "outside" not in [flow["name"] for flow in (await client.get("/api/v1/flows")).json()]


async def test_a_file_of_the_project_that_is_no_flow_is_shown_to_nobody(tmp_path: Path) -> None:
    """Any YAML file could be read with a token that reads: settings with passwords, keys of other programs."""
    (tmp_path / "flows").mkdir()
    (tmp_path / ".ci").mkdir()
    for name in ("settings.yaml", ".ci/keys.yml"):
        (tmp_path / name).write_text("password: s3cr3t\n")
    (tmp_path / "flows" / "link.flow.yaml").symlink_to(tmp_path / "settings.yaml")
    (tmp_path / "plain.yaml").write_text("name: plain\nsteps: {a: {run: id}}\n")
    async with served(tmp_path, worker=False) as site:
        client = await site.client("read")
        for name in ("settings.yaml", ".ci/keys.yml", "flows/link.flow.yaml", "link"):
            for path in ("file", "graph", "check"):
                answer = await client.get(f"/api/v1/flows/{path}", params={"flow": name})
                assert (answer.status_code, "s3cr3t" in answer.text) == (404, False), (path, name)
        assert (await client.get("/api/v1/flows/file", params={"flow": "plain.yaml"})).json()["name"] == "plain"


async def test_where_the_project_is_on_the_machine_is_not_told(site: Site) -> None:
    client = await site.client("operate")
    refused = await client.post("/api/v1/jobs", json={"flow": "broken"})
    checked = await client.get("/api/v1/flows/check", params={"flow": "broken"})
    assert refused.json()["message"].startswith("flows/broken.flow.yaml:1:1: ")
    assert {one["file"] for one in (*refused.json()["findings"], *checked.json()["findings"])} == {
        "flows/broken.flow.yaml"
    }
    assert str(site.project.folder) not in refused.text + checked.text


async def test_paths_that_climb_lead_nowhere(site: Site) -> None:
    client = await site.client("read")
    for path in (
        "/api/v1/jobs/..%2f..%2fetc",
        "/assets/..%2f..%2f_app.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api/v1/runs/%00",
        "/assets/%252e%252e/index.html",
        "/assets/..%5c..%5cindex.html",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
    ):
        assert (await client.get(path)).status_code in (400, 404), path
