"""The API, called as its own description allows, and as it does not: nothing breaks, and what comes back is what is described."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.server.shapes import ANYTHING, fitting
from tests.server.site import Site, served

from holdfast.server import ENDPOINTS, describe_api

API = describe_api(ENDPOINTS)
COMPONENTS = API["components"]["schemas"]
OPERATIONS = [(method, path) for path, methods in API["paths"].items() for method in methods]


class Target:
    """A server in a thread of its own, with jobs in every state."""

    def __init__(self, url: str, token: str, known: dict[str, list[str]]) -> None:
        self.known = known
        self.client = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30, verify=False
        )


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    made: Future[Target] = Future()
    over = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(tmp_path_factory.mktemp("fuzz"), made, over)))
    thread.start()
    try:
        target = made.result(60)
        with target.client:
            yield target
    finally:
        over.set()
        thread.join()


async def _serve(folder: Path, made: Future[Target], over: threading.Event) -> None:
    async with served(folder, burst=10**6, calls_per_second=1e6, failures_per_minute=1e6) as site:
        jobs = [await site.submit(flow) for flow in ("hello", "gate", "gate", "hello", "gate")]
        for job_id in jobs:
            await site.settled(job_id)
        marks = [mark.id for mark in await site.project.store.marks()]
        known = {"job_id": jobs, "run_id": jobs, "run": jobs, "before": jobs, "checkpoint_id": [*marks, *jobs], "a": marks,
                 "b": marks, "flow": ["hello", "gate", "broken"], "step": ["greet", "review"],
                 "schedule_id": await _schedules(site), "cron": ["@daily", "*/5 * * * *", "61 * * * *"],
                 "timezone": ["Europe/Berlin", "Europe/Berln"],
                 "token": [site.tokens["read"]], "after": ["start", "1.0.1.0.0"]}  # fmt: skip
        made.set_result(Target(site.url, site.tokens["admin"], known))
        await asyncio.to_thread(over.wait)


async def _schedules(site: Site) -> list[str]:
    """None fires by itself: nothing in this test ticks, so no command that is made up here is ever run."""
    client = await site.client("admin")
    polls = {"every_seconds": 60, "command": "true"}
    made = [
        await client.post("/api/v1/schedules", json={"name": "nightly", "flow": "hello", "cron": "@daily"}),
        await client.post("/api/v1/schedules", json={"name": "polled", "flow": "gate", **polls}),
    ]
    await client.post("/api/v1/schedules/nightly/fire")
    return [*(str(one.json()["id"]) for one in made), "nightly", "nobody"]


def call(method: str, path: str, known: dict[str, list[str]]) -> st.SearchStrategy[dict[str, Any]]:
    """Calls of one operation: most of them fit its description, some do not."""
    operation = API["paths"][path][method]
    parts: dict[str, dict[str, st.SearchStrategy[Any]]] = {"path": {}, "query": {}}
    for parameter in operation["parameters"]:
        name = parameter["name"]
        value = fitting(parameter["schema"], COMPONENTS, known)
        if name in known and (name != "after" or "stream" in path):
            value = st.sampled_from(known[name]) | value
        parts[parameter["in"]][name] = value
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    sent = st.none() if body is None else st.one_of(*[fitting(body, COMPONENTS, known)] * 3, ANYTHING)
    return st.fixed_dictionaries(
        {
            "path": st.fixed_dictionaries(parts["path"]),
            "query": st.fixed_dictionaries({}, optional=parts["query"])
            | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
            "body": sent,
        }
    )


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_call_breaks_the_server_and_answers_are_as_described(target: Target, method: str, path: str) -> None:
    operation = API["paths"][path][method]

    @settings(
        max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    @given(call(method, path, target.known))
    def check(made: dict[str, Any]) -> None:
        filled = path
        for name, value in made["path"].items():
            filled = filled.replace(f"{{{name}}}", _quoted(value))
        body = {} if made["body"] is None else {"json": made["body"]}
        with target.client.stream(method.upper(), filled, params=made["query"], **body) as answer:
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                return
            answer.read()
        assert answer.status_code < 500, answer.text
        described = operation["responses"].get(str(answer.status_code))
        if filled.count("/") == path.count("/"):  # else it is another route, or none
            assert described is not None, (answer.status_code, answer.text)
            _check_content(described, answer)

    check()


def _quoted(value: str) -> str:
    return httpx2.URL("http://x/", params={"v": value}).query.decode()[2:].replace("+", "%20")


def _check_content(described: dict[str, Any], answer: httpx2.Response) -> None:
    content = described.get("content", {}).get("application/json", {}).get("schema")
    if content is not None:
        whole = {"$defs": COMPONENTS, **_local(content)}
        Draft202012Validator(_local(whole)).validate(answer.json())


def _local(schema: Any) -> Any:
    """A schema whose references lead into itself."""
    if isinstance(schema, dict):
        return {
            key: value.replace("#/components/schemas/", "#/$defs/") if key == "$ref" else _local(value)
            for key, value in schema.items()
        }
    return [_local(one) for one in schema] if isinstance(schema, list) else schema
