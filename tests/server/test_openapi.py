from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2
from jsonschema import Draft202012Validator
from tests.server.site import Frame, Site, frames

from holdfast.server import ENDPOINTS, describe_api

API = describe_api(ENDPOINTS)


def walk(value: Any) -> list[dict[str, Any]]:
    found = [value] if isinstance(value, dict) else []
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += walk(part)
    return found


def test_every_route_is_described_and_every_description_is_a_route() -> None:
    described = {(method.upper(), path) for path, methods in API["paths"].items() for method in methods}
    assert described == {(one.method, one.path) for one in ENDPOINTS}
    ids = [operation["operationId"] for methods in API["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_every_reference_leads_somewhere_and_every_schema_is_one() -> None:
    schemas = API["components"]["schemas"]
    references = {one["$ref"] for one in walk(API) if "$ref" in one}
    there = {f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in API["components"][kind]}
    assert references <= there
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)


def test_path_parameters_are_described() -> None:
    for path, methods in API["paths"].items():
        for operation in methods.values():
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(schema | {"components": API["components"]})


def test_every_answer_has_a_shape_whatever_its_media_type() -> None:
    """Streams and pictures were described as anything at all."""
    for path, methods in API["paths"].items():
        for method, operation in methods.items():
            for status, described in operation["responses"].items():
                answer = API["components"]["responses"][status] if "$ref" in described else described
                assert status == "204" or answer["content"], (method, path, status)
                assert all("schema" in media for media in answer.get("content", {}).values()), (method, path, status)
            assert {"403", "421", "429", "500", "503"} <= {*operation["responses"]}


@asynccontextmanager
async def following(client: httpx2.AsyncClient, url: str, after: str) -> AsyncIterator[AsyncIterator[Frame]]:
    async with client.stream("GET", url, params={"after": after}) as response, aclosing(frames(response)) as told:
        yield told


async def test_the_frames_of_a_stream_are_as_described(site: Site) -> None:
    await site.settled(job_id := await site.submit("hello"))
    client = await site.client("read")
    for path in ("/api/v1/jobs/{job_id}/stream", "/api/v1/runs/{run_id}/stream", "/api/v1/stream"):
        operation = API["paths"][path]["get"]
        assert "Last-Event-ID" in {one["name"] for one in operation["parameters"] if one["in"] == "header"}
        shapes = operation["responses"]["200"]["content"]["text/event-stream"]["schema"]["oneOf"]
        parts = [shape["properties"] for shape in shapes]
        described = {part["event"]["const"]: part["data"]["contentSchema"] for part in parts}
        assert {"snapshot", "resync", "dropped"} <= {*described}
        for last in ("start", "", "gone"):
            url = re.sub(r"{\w+}", job_id, path)
            async with asyncio.timeout(20), following(client, url, last) as told:
                async for frame in told:
                    validator(described[frame.event]).validate(frame.data)
                    if path == "/api/v1/stream":
                        break  # it goes on for ever


async def test_the_description_and_its_page_are_served_and_need_nothing_from_elsewhere(site: Site) -> None:
    client = await site.client(None)
    assert (await client.get("/openapi.json")).json() == json.loads(json.dumps(API | {"servers": [{"url": "/"}]}))
    page = (await client.get("/docs")).text
    assert all(f"{one.method} {one.path}" in page for one in ENDPOINTS)
    assert "<script" not in page
    assert re.findall(r"(?:src|href)=\"(?!/|#|data:,)", page) == []
    linked, there = ({*re.findall(rf'{name}="#?(\w+)"', page)} for name in ("a href", "details id"))
    assert linked <= there


async def test_who_calls_with_a_wrong_method_is_told_every_right_one(site: Site) -> None:
    client = await site.client("read")
    for path, right in (("/api/v1/jobs", {"GET", "HEAD", "POST"}), ("/api/v1/session", {"POST", "DELETE"})):
        answer = await client.request("PUT", path)
        assert (answer.status_code, {*answer.headers["allow"].split(", ")}) == (405, right)
    assert (await client.request("HEAD", "/api/v1/jobs")).status_code == 200


async def test_metrics_are_in_the_format_of_prometheus(site: Site) -> None:
    await site.settled(await site.submit("gate"))
    client = await site.client("read")
    await client.get("/nowhere")
    text = (await client.get("/metrics")).text
    sample = re.compile(r'[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\.)*"(,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? [0-9.e+-]+')
    lines = text.splitlines()
    assert [line for line in lines if not line.startswith("# ") and not sample.fullmatch(line)] == []
    assert 'holdfast_jobs{status="waiting"} 1' in lines
    assert 'holdfast_http_requests_total{method="POST",route="/api/v1/jobs",status="201"} 1' in lines
    assert 'holdfast_http_requests_total{method="any",route="other",status="404"} 1' in lines
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


async def test_the_server_says_how_it_is(site: Site) -> None:
    client = await site.client("read")
    assert (await client.get("/readyz")).json()["status"] == "ok"
    assert (await client.get("/api/v1/settings")).json()["limits"]["max_body"] == 1024 * 1024
    assert "demo" in [agent["name"] for agent in (await client.get("/api/v1/agents")).json() if agent["installed"]]
    (worker,) = (await client.get("/api/v1/workers")).json()
    assert worker["serving"] is True
    assert (await client.get("/api/v1/resources")).json() == []
    site.app.close()
    refused = await client.get("/readyz")
    assert (refused.status_code, refused.json()["error"]) == (503, "closing")
    assert "503" in API["paths"]["/readyz"]["get"]["responses"]
    described = API["components"]["responses"]["503"]["content"]["application/json"]["schema"]
    validator(described).validate(refused.json())
