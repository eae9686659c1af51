"""What an admin changes while the server runs: who is let in, and how much runs at once."""

from __future__ import annotations

from pathlib import Path

from tests.server.site import Site, served

from holdfast.ports import Caps
from holdfast.service import read_settings


async def test_a_token_is_made_shown_once_listed_without_its_secret_and_revoked(site: Site) -> None:
    admin = await site.client("admin")
    made = await admin.post("/api/v1/tokens", json={"name": "laptop", "role": "operate", "days": 30})
    assert made.status_code == 201
    token = made.json()["token"]
    listed = await admin.get("/api/v1/tokens")
    assert token.split("_", 2)[2] not in listed.text
    by_name = {one["name"]: one for one in listed.json()}
    assert (by_name["laptop"]["role"], by_name["laptop"]["expires"] is not None) == ("operate", True)
    assert [name for name, one in by_name.items() if one["is_mine"]] == ["a admin"]

    other = await site.client(None, Authorization=f"Bearer {token}")
    assert (await other.get("/api/v1/me")).json() == {"name": "laptop", "role": "operate"}
    gone = f"/api/v1/tokens/{by_name['laptop']['id']}"
    assert (await admin.delete(gone)).status_code == 204
    assert (await other.get("/api/v1/me")).status_code == 401
    assert (await admin.delete(gone)).status_code == 404


async def test_nobody_takes_a_name_twice_or_locks_themselves_out(site: Site) -> None:
    admin = await site.client("admin")
    assert (await admin.post("/api/v1/tokens", json={"name": "a read"})).json()["error"] == "usage"
    mine = next(one["id"] for one in (await admin.get("/api/v1/tokens")).json() if one["is_mine"])
    assert (await admin.delete(f"/api/v1/tokens/{mine}")).json()["error"] == "own_token"
    assert (await admin.get("/api/v1/me")).status_code == 200


async def test_caps_count_at_once_and_are_kept_for_later_starts(site: Site) -> None:
    admin = await site.client("admin")
    shown = (await admin.get("/api/v1/settings")).json()["queue"]
    assert shown == {"places": 4, "total": None, "caps": {}, "counts_at_once": True}
    changed = await admin.put("/api/v1/settings", json={"places": 2, "total": 5, "caps": {"flow:hello": 0}})
    assert changed.json()["queue"] == {"places": 2, "total": 5, "caps": {"flow:hello": 0}, "counts_at_once": True}
    held, free = await site.submit("hello"), await site.submit("gate")
    assert (await site.settled(free)).status == "waiting"
    assert (await site.project.service.get(held)).status == "queued"
    kept = read_settings(site.project.home, {})
    assert (kept.places, kept.caps) == (2, Caps(5, {"flow:hello": 0}))

    await admin.put("/api/v1/settings", json={"places": 2})
    assert (await site.settled(held)).status == "completed"


async def test_settings_that_cannot_be_meant_change_nothing(site: Site) -> None:
    admin = await site.client("admin")
    for body in ({"places": 0}, {"places": 1, "caps": {"step:x": 1}}, {"places": 1, "caps": {"flow:x": -1}}, {}):
        assert (await admin.put("/api/v1/settings", json=body)).status_code == 400, body
    assert (await admin.get("/api/v1/settings")).json()["queue"]["places"] == 4
    assert not (site.project.home / "settings.json").exists()


async def test_without_a_worker_settings_count_for_those_that_start(tmp_path: Path) -> None:
    async with served(tmp_path, worker=False) as site:
        admin = await site.client("admin")
        changed = await admin.put("/api/v1/settings", json={"places": 3})
        assert changed.json()["queue"] == {"places": 3, "total": None, "caps": {}, "counts_at_once": False}
