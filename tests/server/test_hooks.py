"""Webhooks of jobs and what became of deliveries, over HTTP."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from tests.hooks.receiver import Receiver
from tests.server.site import Site, served

from holdfast.hooks import project_key, verify

ALLOW = '[webhooks]\nallow = ["127.0.0.1"]\n'


def configure(folder: Path, toml: str) -> None:
    (folder / ".holdfast").mkdir()
    (folder / ".holdfast" / "holdfast.toml").write_text(toml)


async def until(site: Site, status: str) -> dict[str, object]:
    """The newest delivery, once it is so."""
    client = await site.client("read")
    while True:
        found = (await client.get("/api/v1/deliveries", params={"limit": 1})).json()
        if found and found[0]["status"] == status:
            return dict(found[0])


async def test_a_job_that_is_submitted_with_a_webhook_tells_it_what_it_waits_for_and_how_it_ended(
    tmp_path: Path,
) -> None:
    configure(tmp_path, ALLOW)
    async with Receiver() as receiver, served(tmp_path) as site, site.project.deliverer():
        client = await site.client("operate")
        new = {"flow": "gate", "webhook": receiver.url, "labels": {"a": "b"}}
        job_id = (await client.post("/api/v1/jobs", json=new)).json()["id"]
        await receiver.until(1)
        answer = await client.post(f"/api/v1/jobs/{job_id}/answer", json={"values": {"good": True}})
        assert answer.status_code == 200, answer.text
        await receiver.until(2)
        await until(site, "delivered")
        key, now = project_key(site.project.home), site.project.clock.time_ns() / 1e9
        told = [verify(key, got.headers, got.body, now=now) for got in receiver.got]
        assert [(one["event"], one["job"]["status"]) for one in told] == [
            ("waiting", "waiting"),
            ("completed", "completed"),
        ]
        assert told[0]["asks"][0]["step"] == "review"
        assert told[0]["asks"][0]["fields"]["good"]["type"] == "bool"
        assert told[1]["job"]["labels"] == {"a": "b"}
        params = {"job": job_id, "status": "delivered"}
        listed = (await client.get("/api/v1/deliveries", params=params)).json()
        assert [one["id"] for one in listed] == [one["id"] for one in reversed(told)]
        assert {one["target"] for one in listed} == {f"webhook:http://127.0.0.1:{receiver.port}/…"}
        assert (await client.get("/api/v1/deliveries", params={"job": "nobody"})).json() == []


async def test_a_dead_delivery_says_why_and_is_retried_by_who_may(tmp_path: Path) -> None:
    configure(tmp_path, ALLOW)
    async with Receiver(410) as receiver, served(tmp_path) as site, site.project.deliverer():
        client = await site.client("operate")
        await client.post("/api/v1/jobs", json={"flow": "hello", "webhook": receiver.url})
        dead = await until(site, "dead")
        assert "410" in str(dead["error"])
        path = f"/api/v1/deliveries/{dead['id']}/retry"
        assert (await (await site.client("read")).post(path, json={})).status_code == 403
        again = await client.post(path, json={})
        assert (again.status_code, again.json()["status"], again.json()["attempts"]) == (200, "pending", 0)
        await until(site, "delivered")
        refused = await client.post(path, json={})
        assert (refused.status_code, refused.json()["error"]) == (409, "not_now")
        unknown = await client.post("/api/v1/deliveries/nobody/retry", json={})
        assert (unknown.status_code, unknown.json()["error"]) == (404, "unknown_delivery")


async def test_metrics_say_what_was_told_what_could_not_be_and_how_far_behind_it_is(tmp_path: Path) -> None:
    configure(tmp_path, ALLOW)
    async with Receiver(410, 200, 500) as receiver, served(tmp_path) as site:
        client = await site.client("operate")

        async def count() -> dict[str, float]:
            lines = (await client.get("/metrics")).text.splitlines()
            told = (line.split(" ") for line in lines if line.startswith("holdfast_deliver"))
            return {name: float(value) for name, value in told}

        async def submit() -> None:
            new = {"flow": "hello", "webhook": receiver.url}
            await site.settled((await client.post("/api/v1/jobs", json=new)).json()["id"])

        await submit()
        before = await count()
        assert before['holdfast_deliveries{status="pending"}'] == 1
        assert before["holdfast_deliveries_failing"] == 0
        assert before["holdfast_delivery_oldest_seconds"] > 0
        async with site.project.deliverer():
            await until(site, "dead")
            await submit()
            await until(site, "delivered")
            await submit()
            while not (after := await count())["holdfast_deliveries_failing"]:
                pass
    assert {name: after[f'holdfast_deliveries{{status="{name}"}}'] for name in ("pending", "delivered", "dead")} == {
        "pending": 1, "delivered": 1, "dead": 1,
    }  # fmt: skip


INSIDE_OR_NOWHERE = (
    "http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/",
    "http://[::ffff:169.254.169.254]/", "file:///etc/passwd", "https://me:password@example.org/", "x",
)  # fmt: skip


async def test_a_webhook_that_leads_inside_or_nowhere_is_refused(site: Site) -> None:
    client = await site.client("operate")
    for url in INSIDE_OR_NOWHERE:
        answer = await client.post("/api/v1/jobs", json={"flow": "hello", "webhook": url})
        assert (answer.status_code, answer.json()["error"]) == (400, "usage"), url
    assert (await client.get("/api/v1/jobs")).json()["jobs"] == []


async def test_a_server_without_an_outbox_takes_no_webhook(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        site.app.backend._queue = replace(site.app.backend.queue, outbox=None)
        client = await site.client("operate")
        new = {"flow": "hello", "webhook": "https://example.org/"}
        for answer in (await client.post("/api/v1/jobs", json=new), await client.get("/api/v1/deliveries")):
            assert (answer.status_code, answer.json()["error"]) == (404, "no_outbox")
