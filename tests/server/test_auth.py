"""Who may call what. The table below names every route: a new one without a row fails."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
from tests.server.site import Site, served

from holdfast.server import ENDPOINTS, ROLES, Role

EVERYBODY: Role | None = None
READ: Role = "read"
OPERATE: Role = "operate"
ADMIN: Role = "admin"
MATRIX: dict[str, Role | None] = {
    "GET /healthz": EVERYBODY,
    "GET /readyz": EVERYBODY,
    "POST /api/v1/session": EVERYBODY,
    "DELETE /api/v1/session": EVERYBODY,
    "GET /metrics": READ,
    "GET /api/v1/agents": READ,
    "GET /api/v1/checkpoints": READ,
    "GET /api/v1/checkpoints/diff": READ,
    "GET /api/v1/checkpoints/{checkpoint_id}": READ,
    "GET /api/v1/deliveries": READ,
    "GET /api/v1/flows": READ,
    "GET /api/v1/flows/check": READ,
    "GET /api/v1/flows/file": READ,
    "GET /api/v1/flows/graph": READ,
    "GET /api/v1/jobs": READ,
    "GET /api/v1/jobs/{job_id}": READ,
    "GET /api/v1/jobs/{job_id}/attempts": READ,
    "GET /api/v1/jobs/{job_id}/events": READ,
    "GET /api/v1/jobs/{job_id}/graph": READ,
    "GET /api/v1/jobs/{job_id}/history": READ,
    "GET /api/v1/jobs/{job_id}/log": READ,
    "GET /api/v1/jobs/{job_id}/outputs": READ,
    "GET /api/v1/jobs/{job_id}/steps": READ,
    "GET /api/v1/jobs/{job_id}/stream": READ,
    "GET /api/v1/me": READ,
    "GET /api/v1/resources": READ,
    "GET /api/v1/runs": READ,
    "GET /api/v1/runs/{run_id}": READ,
    "GET /api/v1/runs/{run_id}/events": READ,
    "GET /api/v1/runs/{run_id}/graph": READ,
    "GET /api/v1/runs/{run_id}/stream": READ,
    "GET /api/v1/runs/{run_id}/tree": READ,
    "GET /api/v1/schedules": READ,
    "GET /api/v1/schedules/preview": READ,
    "GET /api/v1/schedules/{schedule_id}": READ,
    "GET /api/v1/schedules/{schedule_id}/ticks": READ,
    "GET /api/v1/settings": READ,
    "GET /api/v1/stream": READ,
    "GET /api/v1/workers": READ,
    "POST /api/v1/checkpoints/{checkpoint_id}/fork": OPERATE,
    "POST /api/v1/checkpoints/{checkpoint_id}/resume": OPERATE,
    "POST /api/v1/deliveries/{delivery_id}/retry": OPERATE,
    "POST /api/v1/jobs": OPERATE,
    "POST /api/v1/jobs/{job_id}/answer": OPERATE,
    "POST /api/v1/jobs/{job_id}/approve": OPERATE,
    "POST /api/v1/jobs/{job_id}/archive": OPERATE,
    "POST /api/v1/jobs/{job_id}/cancel": OPERATE,
    "POST /api/v1/jobs/{job_id}/pause": OPERATE,
    "POST /api/v1/jobs/{job_id}/rerun": OPERATE,
    "POST /api/v1/jobs/{job_id}/resume": OPERATE,
    "POST /api/v1/jobs/{job_id}/retry": OPERATE,
    "POST /api/v1/jobs/{job_id}/unarchive": OPERATE,
    "POST /api/v1/schedules/{schedule_id}/fire": OPERATE,
    "POST /api/v1/schedules/{schedule_id}/pause": OPERATE,
    "POST /api/v1/schedules/{schedule_id}/resume": OPERATE,
    "DELETE /api/v1/jobs/{job_id}": ADMIN,
    "DELETE /api/v1/tokens/{token_id}": ADMIN,
    "GET /api/v1/tokens": ADMIN,
    "POST /api/v1/tokens": ADMIN,
    "PUT /api/v1/settings": ADMIN,
    "DELETE /api/v1/schedules/{schedule_id}": ADMIN,
    "POST /api/v1/schedules": ADMIN,
    "PUT /api/v1/schedules/{schedule_id}": ADMIN,
}


def test_every_route_has_a_row_in_the_matrix() -> None:
    assert {f"{one.method} {one.path}" for one in ENDPOINTS} == set(MATRIX)


async def status(client: httpx2.AsyncClient, method: str, path: str) -> int:
    """The status alone: a stream is not waited for."""
    async with client.stream(method, path, json={} if method in ("POST", "PUT") else None) as response:
        return response.status_code


async def test_each_role_may_do_what_the_matrix_says_and_nothing_else(site: Site) -> None:
    clients = {role: await site.client(role) for role in (None, *ROLES)}
    for route, needed in MATRIX.items():
        method, path = route.split()
        path = re.sub(r"{\w+}", "nobody", path)
        for role, client in clients.items():
            allowed = needed is None or (role is not None and ROLES.index(role) >= ROLES.index(needed))
            got = await status(client, method, path)
            refused = 401 if role is None else 403
            assert (got != refused) if allowed else (got == refused), (route, role, got)
            assert got < 500, (route, role, got)


async def test_a_token_that_is_wrong_revoked_or_run_out_opens_nothing(site: Site) -> None:
    tokens = site.app.backend.tokens
    short = tokens.make("short", "admin", now_us=0, seconds=1.0)
    gone = tokens.make("gone", "admin", now_us=0)
    client = await site.client(None)

    async def tried(token: str) -> int:
        return (await client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})).status_code

    assert await tried(gone) == 200
    tokens.revoke("gone")
    assert await tried(gone) == 401
    assert await tried(short) == 401
    good = site.tokens["read"]
    for wrong in (good[:-1], good + "a", good.replace("hf_", "hg_"), "x", "hf__", "hf_" + "a" * 500):
        assert await tried(wrong) == 401, wrong


async def test_the_cookie_of_the_page_lets_in_and_no_script_can_read_it(site: Site) -> None:
    client = await site.client(None)
    answer = await client.post("/api/v1/session", json={"token": site.tokens["operate"]})
    assert answer.json() == {"name": "a operate", "role": "operate"}
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    assert (await client.get("/api/v1/me")).json()["role"] == "operate"
    assert (await client.delete("/api/v1/session")).status_code == 204
    assert (await client.get("/api/v1/me")).status_code == 401
    assert (await client.post("/api/v1/session", json={"token": "hf_1_2"})).status_code == 401


async def test_guessing_is_slowed_down_and_those_who_have_a_token_do_not_notice(site: Site) -> None:
    client, good = await site.client(None), await site.client("read")
    wrong = {"Authorization": "Bearer hf_00000000_wrong"}
    statuses = [(await client.get("/api/v1/me", headers=wrong)).status_code for _ in range(40)]
    assert statuses[:25] == [401] * 25
    assert statuses[-1] == 429
    assert (await client.post("/api/v1/session", json={"token": "hf_00000000_wrong"})).status_code == 429
    assert (await good.get("/api/v1/me")).status_code == 200


async def test_one_who_calls_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    async with served(tmp_path, worker=False, burst=5, calls_per_second=0.1) as site:
        busy, other = await site.client("read"), await site.client("admin")
        answers = [await busy.get("/api/v1/me") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert (await other.get("/api/v1/me")).status_code == 200


async def test_pages_without_anything_of_the_project_are_open(site: Site) -> None:
    client = await site.client(None)
    for path in ("/", "/docs", "/docs.css", "/openapi.json"):
        assert (await client.get(path)).status_code == 200
