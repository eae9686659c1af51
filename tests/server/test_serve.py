"""`holdfast serve` and `holdfast token` as a user runs them: started, interrupted, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.site import GATE, SLOW

from holdfast.errors import ConfigurationError, UsageError
from holdfast.server import Binding

COMMAND = [sys.executable, "-W", "error", "-m", "holdfast"]


class Started:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "serve", *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.greeting = self._process.stdout.readline()
        self.url = self.greeting.split()[2].rstrip(";")
        self.link = self._process.stdout.readline().strip() if "link" in self.greeting else ""

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal; how it left, and what it complained of."""
        self._process.send_signal(number)
        _, errors = self._process.communicate(timeout=30)
        return self._process.returncode, errors


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "slow.flow.yaml").write_text(SLOW)
    (tmp_path / "flows" / "gate.flow.yaml").write_text(GATE)
    return tmp_path


@pytest.fixture
def start(project: Path) -> Iterator[Any]:
    started: list[Started] = []

    def one(*arguments: str) -> Started:
        started.append(Started(project, *(arguments or ("--port", "0"))))
        return started[-1]

    yield one
    for server in started:
        if server._process.poll() is None:
            server.end(signal.SIGKILL)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=40, check=False)


def client_of(server: Started, token: str) -> httpx2.Client:
    return httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=20, verify=False)


def read(client: httpx2.Client, path: str, last: str, enough: str) -> list[tuple[str, str, Any]]:
    """Frames of a stream (id, event, data) until there is one whose type, or event, is `enough`."""
    found: list[tuple[str, str, Any]] = []
    held: dict[str, str] = {}
    with client.stream("GET", path, headers={"Last-Event-ID": last} if last else {}) as response:
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                held[name] = value
                continue
            if "event" in held:
                found.append((held.get("id", ""), held["event"], json.loads(held["data"])))
                if enough in (held["event"], found[-1][2].get("type")):
                    break
            held = {}
    return found


def test_the_way_in_is_shown_once_and_kept_by_its_hash_alone(project: Path, start: Any) -> None:
    first = start()
    token = first.link.partition("#token=")[2]
    kept = project / ".holdfast" / "tokens.json"
    assert token.startswith("hf_")
    assert token.split("_", 2)[2] not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with client_of(first, token) as client:
        assert client.get("/api/v1/me").json() == {"name": "first", "role": "admin"}
    assert first.end(signal.SIGTERM) == (0, "")


def test_a_server_delivers_what_hooks_are_told_also_without_a_worker(project: Path, start: Any) -> None:
    os.mkfifo(project / "told")
    toml = '[hooks.one]\non = ["cancelled"]\ncommand = ["sh", "-c", "cat > told"]\n'
    (project / ".holdfast" / "holdfast.toml").write_text(toml)
    server = start("--port", "0", "--no-worker")
    with client_of(server, server.link.partition("#token=")[2]) as client:
        job_id = client.post("/api/v1/jobs", json={"flow": "slow"}).json()["id"]
        client.post(f"/api/v1/jobs/{job_id}/cancel", json={})
        told = json.loads((project / "told").read_text())  # waits for the hook to write
    assert (told["event"], told["job"]["id"]) == ("cancelled", job_id)
    assert server.end(signal.SIGTERM) == (0, "")


def test_a_killed_server_is_started_again_and_its_client_goes_on_from_its_last_id(project: Path, start: Any) -> None:
    first = start()
    token = first.link.partition("#token=")[2]
    with client_of(first, token) as client:
        job_id = client.post("/api/v1/jobs", json={"flow": "slow"}).json()["id"]
        before = read(client, f"/api/v1/jobs/{job_id}/stream?after=start", "", "step_completed")
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    (project / "open").touch()
    second = start("--port", first.url.rpartition(":")[2])
    assert (second.link, "holdfast token new" in second.greeting) == ("", True)
    with client_of(second, token) as client:
        after = read(client, f"/api/v1/jobs/{job_id}/stream", before[-1][0], "end")
        steps = {step["path"]: step for step in client.get(f"/api/v1/jobs/{job_id}/steps").json()}
    rows = [data["seq"] for _, event, data in (*before, *after) if event == "event"]
    assert rows == [*range(1, len(rows) + 1)]
    assert {event for _, event, _ in after} == {"change", "event", "log", "end"}
    assert after[-1][2]["status"] == "completed"
    assert (steps["first"]["attempt"], steps["first"]["status"]) == (1, "completed")
    assert second.end(signal.SIGINT) == (0, "")


def test_ctrl_c_puts_a_running_job_back_and_the_next_server_ends_it(project: Path, start: Any) -> None:
    first = start()
    token = first.link.partition("#token=")[2]
    with client_of(first, token) as client:
        job_id = client.post("/api/v1/jobs", json={"flow": "slow"}).json()["id"]
        read(client, f"/api/v1/jobs/{job_id}/stream?after=start", "", "step_completed")
        with client.stream("GET", f"/api/v1/jobs/{job_id}/stream") as response:
            lines = response.iter_lines()
            next(line for line in lines if line == "event: snapshot")
            assert first.end(signal.SIGINT) == (0, "")
            assert "event: dropped" in [*lines]
    status = json.loads(run(project, "status", job_id, "--json").stdout)
    assert status["status"] == "queued"
    assert "running" not in [step["status"] for step in status["steps"]]
    (project / "open").touch()
    second = start()
    with client_of(second, token) as client:
        assert read(client, f"/api/v1/jobs/{job_id}/stream?after=start", "", "end")[-1][2]["status"] == "completed"
    second.end(signal.SIGINT)


def certificate_in(folder: Path) -> dict[str, Any]:
    made = ["req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=localhost", "-keyout", "key", "-out", "cert"]
    subprocess.run(["openssl", *made], cwd=folder, check=True, capture_output=True)
    return {"certificate": folder / "cert", "key": folder / "key"}


def test_with_tls_a_page_keeps_its_token_in_a_cookie_that_goes_nowhere_else(project: Path, start: Any) -> None:
    certificate_in(project)
    server = start("--host", "0.0.0.0", "--port", "0", "--tls-cert", "cert", "--tls-key", "key")
    port = server.url.rpartition(":")[2]
    with httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=False) as client:
        answer = client.post("/api/v1/session", json={"token": server.link.rpartition("=")[2]})
        assert (answer.status_code, "Secure" in answer.headers["set-cookie"].split("; ")) == (200, True)
        assert client.get("/api/v1/me").json()["role"] == "admin"


def test_a_certificate_that_cannot_be_used_is_said_so_before_anything_else(project: Path) -> None:
    """The link that lets in was shown, this once, by a server that broke at its first breath."""
    certificate_in(project)
    for certificate, key in (("cert", "cert"), ("key", "key"), ("cert", "nowhere")):
        refused = run(project, "serve", "--port", "0", "--tls-cert", certificate, "--tls-key", key)
        assert (refused.returncode, refused.stdout) == (3, ""), refused.stderr
        assert refused.stderr.startswith(f"holdfast: TLS with {certificate} and {key} is not possible: ")


def test_others_are_not_let_in_in_the_clear(project: Path) -> None:
    for host in ("192.0.2.7", "::", "example.org", "127.0.0.1.example.org"):
        with pytest.raises(UsageError, match="--public-without-tls"):
            Binding(host=host).listen()
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "::1"):
        Binding(host=host).check()
    Binding(host="0.0.0.0", public_without_tls=True).check()
    Binding(host="0.0.0.0", **certificate_in(project)).check()
    with pytest.raises(UsageError, match="belong together"):
        Binding(certificate=project / "cert.pem").check()
    refused = run(project, "serve", "--host", "0.0.0.0", "--port", "0")
    assert (refused.returncode, "--public-without-tls" in refused.stderr) == (2, True)


def test_tokens_are_made_listed_and_revoked(project: Path) -> None:
    made = json.loads(run(project, "token", "new", "laptop", "--role", "operate", "--for", "30d", "--json").stdout)
    assert (made["role"], made["token"][:3]) == ("operate", "hf_")
    (listed,) = json.loads(run(project, "token", "list", "--json").stdout)
    assert (listed["name"], listed["role"], listed["expires"] is None) == ("laptop", "operate", False)
    assert run(project, "token", "revoke", "laptop").stdout == "revoked laptop\n"


def test_answers_are_sent_at_once() -> None:
    """asyncio lets small writes go at once only on sockets that say TCP: the body of each answer came 40 ms late."""
    with Binding().listen() as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken_is_said_so(project: Path) -> None:
    with Binding().listen() as taken, pytest.raises(ConfigurationError, match="choose another with --port"):
        Binding(port=taken.getsockname()[1]).listen()
