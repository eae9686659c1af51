from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import httpx2
from msgspec.structs import replace
from tests.server.site import Site

NIGHTLY = {"name": "nightly", "flow": "hello", "cron": "30 2 * * *", "timezone": "Europe/Berlin"}
POLL = {"name": "polled", "flow": "gate", "every_seconds": 60, "command": ["check", "--all"], "overlap": "queue"}
PATH = "/api/v1/schedules"


async def made(client: httpx2.AsyncClient, **settings: Any) -> dict[str, Any]:
    answer = await client.post(PATH, json=settings)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_schedule_is_made_shown_changed_and_removed(site: Site) -> None:
    client = await site.client("admin")
    new = await made(client, **NIGHTLY, inputs={"who": "you"}, labels={"team": "web"})
    assert new == {
        "id": new["id"], "name": "nightly", "flow": "flows/hello.flow.yaml", "kind": "cron", "cron": "30 2 * * *",
        "timezone": "Europe/Berlin", "every_seconds": 0, "command": "", "call": "", "inputs": {"who": "you"},
        "labels": {"team": "web"}, "overlap": "skip", "cooldown_seconds": 0, "catch_up": "none", "pause_after_errors": 5,
        "status": "active", "reason": "", "errors": 0, "cursor": None, "next_at": new["next_at"], "last_tick": None,
        "created": new["created"],
    }  # fmt: skip
    due = datetime.fromisoformat(new["next_at"])
    assert (due.minute, due.hour in (0, 1), new["next_at"][-1]) == (30, True, "Z")
    poll = await made(client, **POLL)
    assert (poll["kind"], poll["command"], poll["overlap"]) == ("poll", ["check", "--all"], "queue")
    assert [one["name"] for one in (await client.get(PATH)).json()] == ["nightly", "polled"]

    path = f"{PATH}/{new['id']}"
    assert (await client.get(path)).json() == (await client.get(f"{PATH}/nightly")).json() == new
    changed = await client.put(path, json={**NIGHTLY, "cron": "@daily", "catch_up": "once"})
    assert (changed.status_code, changed.json()["cron"], changed.json()["catch_up"]) == (200, "@daily", "once")
    assert changed.json()["inputs"] == {}
    renamed = await client.put(path, json={**NIGHTLY, "name": "other"})
    assert (renamed.status_code, renamed.json()["error"]) == (400, "usage")
    assert (await client.delete(path)).status_code == 204
    assert (await client.get(path)).json()["error"] == "unknown_schedule"


async def test_what_cannot_be_a_schedule_says_why(site: Site) -> None:
    client = await site.client("admin")

    async def refused(**new: Any) -> tuple[int, str, str]:
        answer = await client.post(PATH, json={**NIGHTLY, **new})
        return answer.status_code, answer.json()["error"], answer.json()["message"]

    status, error, message = await refused(cron="30 25 * * *")
    assert (status, error) == (400, "usage")
    assert message == "'30 25 * * *', column 4: '25' is no hour; write 0-23"
    assert (await refused(timezone="Europe/Berln"))[2].endswith("did you mean Europe/Berlin?")
    assert (await refused(flow="nothing"))[:2] == (404, "unknown_flow")
    assert (await refused(flow="../elsewhere.flow.yaml"))[:2] == (404, "unknown_flow")
    assert (await refused(flow="broken"))[:2] == (422, "flow_file")
    assert (await refused(inputs={"whom": 1}))[:2] == (422, "flow_input")
    assert (await refused(overlap="maybe"))[:2] == (400, "does_not_fit")
    assert (await refused(crontab="x"))[:2] == (400, "does_not_fit")
    assert (await client.get(PATH)).json() == []
    await made(client, **NIGHTLY)
    assert "already" in (await refused())[2]


async def test_due_times_are_previewed(site: Site) -> None:
    client = await site.client("read")
    query: dict[str, str | int] = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 3}
    due = (await client.get(f"{PATH}/preview", params=query)).json()
    assert len(due) == 3
    assert {(one[11:16], one[-6:]) for one in due} <= {("02:30", "+01:00"), ("02:30", "+02:00"), ("03:00", "+02:00")}
    wrong = await client.get(f"{PATH}/preview", params={"cron": "x"})
    assert (wrong.status_code, wrong.json()["error"]) == (400, "usage")


async def test_a_schedule_is_fired_by_hand_paused_and_resumed(site: Site) -> None:
    admin, client = await site.client("admin"), await site.client("operate")
    await made(admin, **NIGHTLY)
    path = f"{PATH}/nightly"
    tick = (await client.post(f"{path}/fire")).json()
    assert (tick["outcome"], tick["reason"]) == ("fired", "by hand: token a operate")
    assert (await client.get(f"{path}/ticks")).json()["ticks"] == [tick]
    job = await site.settled(tick["job_id"])
    assert (job.status, job.labels) == ("completed", {"schedule": "nightly"})

    paused = await client.post(f"{path}/pause", json={"reason": "lunch"})
    assert (paused.json()["status"], paused.json()["reason"], paused.json()["next_at"]) == ("paused", "lunch", None)
    assert paused.json()["last_tick"]["job_id"] == job.id
    assert (await client.post(f"{path}/pause")).status_code == 409
    assert (await client.post(f"{path}/resume")).json()["status"] == "active"
    assert (await client.post(f"{path}/resume")).json()["error"] == "transition"
    assert (await client.post(f"{PATH}/nobody/fire")).json()["error"] == "unknown_schedule"


async def test_ticks_are_read_page_by_page(site: Site) -> None:
    client = await site.client("admin")
    await made(client, **NIGHTLY)
    fired = [(await client.post(f"{PATH}/nightly/fire")).json()["job_id"] for _ in range(3)]
    first = (await client.get(f"{PATH}/nightly/ticks", params={"limit": 2})).json()
    rest = (await client.get(f"{PATH}/nightly/ticks", params={"before": first["next"]})).json()
    assert [tick["job_id"] for tick in (*first["ticks"], *rest["ticks"])] == fired[::-1]
    assert rest["next"] is None
    (shown,) = (await client.get(PATH)).json()
    assert shown["last_tick"] == first["ticks"][0]


async def test_a_schedule_that_is_due_fires_and_its_job_is_run(site: Site) -> None:
    client = await site.client("admin")
    new = await made(client, **NIGHTLY)
    stored = await site.project.schedules.schedule(new["id"])
    assert stored is not None
    fired = asyncio.Event()
    async with site.project.ticker(fired.set).ticking():
        await site.project.schedules.record(replace(stored, next_us=site.app.backend.now_us()))
        async with asyncio.timeout(20):
            await fired.wait()
    (tick,) = (await client.get(f"{PATH}/nightly/ticks")).json()["ticks"]
    assert (await site.settled(tick["job_id"])).status == "completed"
