"""Streams of jobs: snapshots, replay, resync, heartbeats, slow clients, the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from tests.server.site import Frame, Site, frames, served


@asynccontextmanager
async def following(site: Site, path: str, last: str = "") -> AsyncIterator[AsyncIterator[Frame]]:
    client = await site.client("read")
    headers = {"Last-Event-ID": last} if last else {}
    async with asyncio.timeout(20), client.stream("GET", path, headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        async with aclosing(frames(response)) as told:
            yield told


async def everything(site: Site, job_id: str, last: str = "", after: str = "") -> list[Frame]:
    """All frames until the stream ends."""
    async with following(site, f"/api/v1/jobs/{job_id}/stream?after={after}", last) as told:
        return [frame async for frame in told if frame.event != ":"]


async def test_a_stream_from_the_start_tells_all_in_order_and_ends_with_the_job(site: Site) -> None:
    job_id = await site.submit("hello")
    told = await everything(site, job_id, after="start")

    assert [frame.data["target"] for frame in told if frame.event == "change"] == ["queued", "running", "completed"]
    rows = [frame.data["seq"] for frame in told if frame.event == "event"]
    assert rows == [*range(1, len(rows) + 1)]
    assert "greeting world\n" in [frame.data["text"] for frame in told if frame.event == "log"]
    assert (told[-1].event, told[-1].data["status"]) == ("end", "completed")


async def test_a_client_without_a_position_gets_the_job_as_it_is_and_then_what_happens(site: Site) -> None:
    job_id = await site.submit("slow")
    async with following(site, f"/api/v1/jobs/{job_id}/stream") as told:
        first = await anext(told)
        assert (first.event, first.data["job"]["id"]) == ("snapshot", job_id)
        assert {step["path"] for step in first.data["steps"]} == {"first", "wait"}
        (site.project.folder / "open").touch()
        rest = [frame async for frame in told]
    assert rest[-1].data["status"] == "completed"
    assert [frame.data["target"] for frame in rest if frame.event == "change"][-1] == "completed"


async def test_from_any_id_the_rest_is_told_exactly_once(site: Site) -> None:
    """Broken positions lose or repeat frames: each id of a whole stream is tried as the last one that was seen."""
    job_id = await site.submit("hello")
    whole = await everything(site, job_id, after="start")
    for index, frame in enumerate(whole[:-1]):
        rest = await everything(site, job_id, last=frame.id)
        assert {one.event for one in rest}.isdisjoint({"snapshot", "resync"})
        for kind in ("change", "event", "log"):
            expected = [one.data for one in whole[index + 1 :] if one.event == kind]
            assert [one.data for one in rest if one.event == kind] == expected, (frame.id, kind)


async def test_a_client_that_comes_back_while_the_job_runs_misses_nothing(site: Site) -> None:
    job_id = await site.submit("slow")
    seen: list[Frame] = []
    async with following(site, f"/api/v1/jobs/{job_id}/stream?after=start") as told:
        async for frame in told:
            seen.append(frame)
            if frame.event == "event" and frame.data["type"] == "step_completed":
                break
    (site.project.folder / "open").touch()
    seen += await everything(site, job_id, last=seen[-1].id)
    rows = [frame.data["seq"] for frame in seen if frame.event == "event"]
    assert rows == [*range(1, len(rows) + 1)]
    assert "resync" not in {frame.event for frame in seen}


async def test_a_position_that_is_gone_is_answered_with_one_resync(site: Site) -> None:
    job_id = await site.submit("hello")
    await site.settled(job_id)
    for gone in ("9.0.9999.9.0", "1.7.3.0.0", "0.0.0.999999.0", "nonsense", "-1.0.0.0.0", "1.2.3", "x" * 5000):
        told = await everything(site, job_id, last=gone)
        assert [frame.event for frame in told] == ["resync", "end"], gone
        assert told[0].data["job"]["status"] == "completed"
        assert [step["status"] for step in told[0].data["steps"]] == ["completed"]
        assert "greeting world\n" in [line["text"] for line in told[0].data["log"]]
        assert await everything(site, job_id, last=told[0].id) == [told[1]]


BOTH = """
name: both
steps:
  ask: {executor: external, prompt: well?, outputs: {said: {type: str}}}
  wait:
    run: until [ -e "$HOLDFAST_PROJECT_DIR/open" ]; do sleep 0.02; done
"""


async def test_what_a_step_asks_for_is_told_while_others_still_work(site: Site) -> None:
    (site.project.folder / "both.flow.yaml").write_text(BOTH)
    job_id = await site.submit("both")
    async with following(site, f"/api/v1/jobs/{job_id}/stream?after=start") as told:
        asked = await until(told, "asks")
    assert [ask["step"] for ask in asked.data] == ["ask"]
    assert (await site.project.service.get(job_id)).status == "running"
    async with following(site, f"/api/v1/jobs/{job_id}/stream", last=f"{asked.id.rpartition('.')[0]}.0") as told:
        assert (await until(told, "asks")).data == asked.data
    client = await site.client("operate")
    await client.post(f"/api/v1/jobs/{job_id}/answer", json={"values": {"said": "yes"}})
    (site.project.folder / "open").touch()
    assert (await everything(site, job_id, last=asked.id))[-1].data["status"] == "completed"


async def until(told: AsyncIterator[Frame], event: str) -> Frame:
    while (frame := await anext(told)).event != event:
        pass
    return frame


async def test_the_statuses_of_all_jobs_can_be_followed(site: Site) -> None:
    first = await site.submit("hello")
    await site.settled(first)
    async with following(site, "/api/v1/stream") as told:
        assert (await anext(told)).event == "snapshot"
        second = await site.submit("hello")
        news = [await anext(told) for _ in range(3)]
    assert {frame.data["job_id"] for frame in news} == {second}
    assert [frame.data["target"] for frame in news] == ["queued", "running", "completed"]
    async with following(site, "/api/v1/stream", last=news[0].id) as told:
        assert [(await anext(told)).data["target"] for _ in range(2)] == ["running", "completed"]
    async with following(site, "/api/v1/stream", last="77777") as told:
        assert (await anext(told)).event == "resync"


async def test_a_quiet_stream_shows_that_it_lives(tmp_path: Path) -> None:
    async with served(tmp_path, heartbeat_seconds=0.02) as site:
        await site.settled(job_id := await site.submit("gate"))
        async with following(site, f"/api/v1/jobs/{job_id}/stream") as told:
            assert (await anext(told)).event == "snapshot"
            assert [(await anext(told)).event for _ in range(3)] == [":", ":", ":"]


async def test_a_client_that_is_too_slow_is_told_so_and_dropped_and_can_come_back(tmp_path: Path) -> None:
    """The client's socket is read only after the job has written more than fits anywhere."""
    async with served(tmp_path, kept_frames=4) as site:
        (tmp_path / "flows" / "loud.flow.yaml").write_text(LOUD)
        job_id = await site.submit("loud")
        client = await site.client("read")
        request = client.build_request("GET", f"/api/v1/jobs/{job_id}/stream?after=start")
        response = await client.send(request, stream=True)
        async with asyncio.timeout(20), aclosing(frames(response)) as coming:
            told = [await anext(coming)]
            while (
                told[-1].data.get("type") != "step_started"
            ):  # until then it is read from what is stored, however slowly
                told.append(await anext(coming))
            (tmp_path / "open").touch()
            await site.settled(job_id)
            told += [frame async for frame in coming]
        await response.aclose()
        assert told[-1].event == "dropped"
        assert "too slow" in told[-1].data["reason"]
        last = [frame for frame in told if frame.id][-1]
        rest = await everything(site, job_id, last=last.id)
        assert rest[-1].data["status"] == "completed"


LOUD = """
name: loud
steps:
  shout:
    run: |
      until [ -e "$HOLDFAST_PROJECT_DIR/open" ]; do sleep 0.02; done
      i=0; while [ $i -lt 4000 ]; do
        echo "line $i aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" >&2
        i=$((i+1))
      done
      echo '{"n":1}'
    outputs: [n]
"""


async def test_a_client_that_takes_nothing_is_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path, stuck_seconds=0.05) as site:
        (tmp_path / "flows" / "loud.flow.yaml").write_text(LOUD)
        job_id = await site.submit("loud")
        (tmp_path / "open").touch()
        await site.settled(job_id)
        client = await site.client("read")
        request = client.build_request("GET", f"/api/v1/jobs/{job_id}/stream?after=start")
        response = await client.send(request, stream=True)
        with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
            await read_late(site, response)
        assert [*site.app.backend.metrics.dropped] == [(("reason", "stuck"),)]


async def read_late(site: Site, response: httpx2.Response) -> None:
    async with asyncio.timeout(20), aclosing(frames(response)) as told:
        async for _ in told:
            await until_cut_off(site)


async def until_cut_off(site: Site) -> None:
    async with asyncio.timeout(20):
        while not site.app.backend.metrics.dropped or site.app.backend.feeds.clients:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_streams_end_when_the_server_stops_and_when_their_job_is_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        await site.settled(job_id := await site.submit("gate"))
        async with following(site, f"/api/v1/jobs/{job_id}/stream") as told:
            assert (await anext(told)).event == "snapshot"
            site.app.close()
            last = await anext(told)
            assert (last.event, last.data["reason"].split(":")[0]) == ("dropped", "the server is stopping")


async def test_streams_are_bounded_in_number(tmp_path: Path) -> None:
    async with served(tmp_path, max_streams=1) as site, following(site, "/api/v1/stream") as told:
        await anext(told)
        refused = await (await site.client("read")).get("/api/v1/stream")
        assert (refused.status_code, refused.json()["error"]) == (503, "too_many_streams")


async def test_nothing_reads_a_feed_that_nobody_listens_to(site: Site) -> None:
    await site.settled(job_id := await site.submit("gate"))
    async with following(site, f"/api/v1/jobs/{job_id}/stream") as told:
        await anext(told)
        assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("feed")] == [
            f"feed job {job_id}"
        ]
    async with asyncio.timeout(10):
        while any(task.get_name().startswith("feed") for task in asyncio.all_tasks()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_nothing_is_told_any_more_to_who_lost_their_token(site: Site) -> None:
    """A stream outlives the call that opened it: a token was looked at once, and followed jobs for ever."""
    await site.settled(job_id := await site.submit("gate"))
    async with following(site, f"/api/v1/jobs/{job_id}/stream") as told:
        assert (await anext(told)).event == "snapshot"
        site.app.backend.tokens.revoke("a read")
        await (await site.client("operate")).post(f"/api/v1/jobs/{job_id}/answer", json={"values": {"good": True}})
        rest = [frame async for frame in told]
    assert [frame.event for frame in rest] == ["dropped"]
    assert "revoked" in rest[0].data["reason"]


async def test_a_quiet_stream_ends_too_when_its_token_runs_out(tmp_path: Path) -> None:
    async with served(tmp_path, heartbeat_seconds=0.02) as site:
        site.tokens["read"] = site.app.backend.tokens.make("short", "read", now_us=time.time_ns() // 1000, seconds=1.0)
        async with following(site, "/api/v1/stream") as told:
            seen = [frame.event async for frame in told if frame.event != ":"]
    assert seen == ["snapshot", "dropped"]
