"""The API, called as its own description allows, and as it does not: nothing breaks, and what comes back is what is described."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.server.site import Site, served

from holdfast.server import ENDPOINTS

SEED, EXAMPLES = 7, 3
FLAGS = f"--seed={SEED} --max-examples={EXAMPLES} --no-color --continue-on-failure --generation-database=none".split()
CONFIG = """
max-stream-events = 1
request-timeout = 20
phases.coverage.unexpected-methods = ["PATCH"]
[checks.positive_data_acceptance]
enabled = false
"""
"""Streams go on for as long as their jobs; and what fits may still be refused, as things are."""


@pytest.mark.timeout(180)
async def test_no_call_breaks_the_server_and_answers_are_as_described(tmp_path: Path) -> None:
    """Schemathesis tries the edges of every parameter and body, then random ones, then calls that follow from others."""
    async with served(tmp_path, burst=10**6, calls_per_second=1e6, failures_per_minute=1e6) as site:
        config = tmp_path / "schemathesis.toml"
        config.write_text(CONFIG + _dictionaries(await _known(site)))
        fuzz = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / "st", "--config-file", config, "run", f"{site.url}/openapi.json", *FLAGS,
            "--header", f"Authorization: Bearer {site.tokens['admin']}",
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await fuzz.communicate()
        assert fuzz.returncode == 0, said.decode()
        assert f"{len(ENDPOINTS)} selected" in said.decode(), said.decode()


async def _known(site: Site) -> dict[str, list[str]]:
    """By the names of parameters, what there is: calls with nothing but made-up ids would not get far."""
    jobs = [await site.submit(flow) for flow in ("hello", "gate", "gate", "gate") * 3]  # some will be deleted
    for job_id in jobs:
        await site.settled(job_id)
    marks = [mark.id for mark in await site.project.store.marks()]
    flows, steps, schedules = ["hello", "gate", "broken"], ["greet", "review"], await _schedules(site)
    crons, zones = ["@daily", "*/5 * * * *", "61 * * * *"], ["Europe/Berlin", "Europe/Berln"]
    return {
        "path.job_id": jobs, "path.run_id": jobs, "path.checkpoint_id": [*marks, *jobs], "query.run": jobs,
        "query.before": jobs, "query.a": [*marks, *jobs], "query.b": [*marks, *jobs], "query.flow": flows,
        "query.after": ["start", "1.0.1.0.0"], "body.flow": flows, "body.step": steps,
        "body.token": [site.tokens["read"]], "path.schedule_id": schedules, "query.cron": crons, "query.timezone": zones,
        "body.cron": crons, "body.timezone": zones, "path.delivery_id": await _deliveries(site),
    }  # fmt: skip


async def _schedules(site: Site) -> list[str]:
    """None fires by itself: nothing in this test ticks, so no command that is made up here is ever run."""
    client = await site.client("admin")
    news = ({"name": "nightly", "cron": "@daily"}, {"name": "polled", "every_seconds": 60, "command": "true"})
    made = [await client.post("/api/v1/schedules", json={"flow": "hello", **new}) for new in news]
    return [*(str(one.json()["id"]) for one in made), "nightly", "nobody"]


async def _deliveries(site: Site) -> list[str]:
    """None is made: nothing in this test delivers, so nobody who is made up here is ever called."""
    client = await site.client("admin")
    new = {"flow": "hello", "webhook": "https://example.org/told"}
    await site.settled((await client.post("/api/v1/jobs", json=new)).json()["id"])
    return [one["id"] for one in (await client.get("/api/v1/deliveries")).json()]


def _dictionaries(known: dict[str, list[str]]) -> str:
    names = {parameter: parameter.replace(".", "_") for parameter in known}
    lists = [f"[dictionaries.{names[parameter]}]\nvalues = {json.dumps(values)}" for parameter, values in known.items()]
    uses = [f'"{parameter}" = {{dictionary = "{name}", probability = 0.7}}' for parameter, name in names.items()]
    return "\n".join([*lists, "[parameters]", *uses])
