from __future__ import annotations

from tests.server.site import Site


async def test_a_job_is_submitted_run_and_looked_at(site: Site) -> None:
    client = await site.client("operate")
    made = (
        await client.post("/api/v1/jobs", json={"flow": "hello", "inputs": {"who": "you"}, "labels": {"a": "b"}})
    ).json()
    await site.settled(made["id"])

    job = (await client.get(f"/api/v1/jobs/{made['id']}")).json()
    assert (job["status"], job["flow"], job["labels"], job["inputs"]) == (
        "completed",
        "hello",
        {"a": "b"},
        {"who": "you"},
    )
    assert (await client.get(f"/api/v1/jobs/{job['id']}/outputs")).json() == {"outputs": {"text": "hello you"}}
    (step,) = (await client.get(f"/api/v1/jobs/{job['id']}/steps")).json()
    assert (step["path"], step["status"], step["outputs"]) == ("greet", "completed", {"text": "hello you"})
    (attempt,) = (await client.get(f"/api/v1/jobs/{job['id']}/attempts")).json()
    assert (attempt["step"], attempt["attempt"], attempt["status"]) == ("greet", 1, "completed")
    changes = (await client.get(f"/api/v1/jobs/{job['id']}/history")).json()
    assert [change["target"] for change in changes] == ["queued", "running", "completed"]
    assert changes[0]["by"] == "token a operate"
    log = (await client.get(f"/api/v1/jobs/{job['id']}/log")).json()["lines"]
    assert "greeting you\n" in [line["text"] for line in log]
    events = (await client.get(f"/api/v1/jobs/{job['id']}/events", params={"limit": 3})).json()
    more = (await client.get(f"/api/v1/jobs/{job['id']}/events", params={"after": events["next"]})).json()
    assert [event["seq"] for event in (*events["events"], *more["events"])] == [*range(1, 3 + len(more["events"]) + 1)]
    assert (more["events"][-1]["type"], more["next"]) == ("run_completed", None)


async def test_a_job_keeps_the_graph_it_was_submitted_with(site: Site) -> None:
    await site.settled(job_id := await site.submit("gate"))
    (site.project.folder / "flows" / "gate.flow.yaml").unlink()
    client = await site.client("read")
    graph = (await client.get(f"/api/v1/jobs/{job_id}/graph")).json()
    assert [node["name"] for node in graph["nodes"]] == ["review"]
    picture = await client.get(f"/api/v1/jobs/{job_id}/graph", params={"format": "svg"})
    assert "review" in picture.text


async def test_jobs_are_listed_by_condition_and_page_by_page(site: Site) -> None:
    ids = [await site.submit("hello", who=str(number)) for number in range(3)]
    waiting = await site.submit("gate")
    for job_id in (*ids, waiting):
        await site.settled(job_id)
    client = await site.client("read")

    async def listed(**query: object) -> list[str]:
        found = (await client.get("/api/v1/jobs", params=query)).json()  # type: ignore[arg-type]
        return [job["id"] for job in found["jobs"]]

    assert await listed() == [waiting, *reversed(ids)]
    assert await listed(status="waiting") == [waiting]
    assert await listed(status=["waiting", "completed"], flow="hello") == [*reversed(ids)]
    assert await listed(text=ids[0][-8:]) == [ids[0]]
    assert await listed(archived="yes") == []
    page = (await client.get("/api/v1/jobs", params={"limit": 2})).json()
    assert await listed(before=page["next"], limit=2) == [ids[1], ids[0]]


async def test_a_waiting_step_is_answered_once_and_the_form_is_kept_to(site: Site) -> None:
    job_id = await site.submit("gate")
    waiting = await site.settled(job_id)
    client = await site.client("operate")
    path = f"/api/v1/jobs/{job_id}/answer"

    (ask,) = (await client.get(f"/api/v1/jobs/{job_id}")).json()["asks"]
    assert (ask["step"], [*ask["fields"]]) == ("review", ["good"])
    refused = await client.post(path, json={"values": {"good": "perhaps"}})
    assert (refused.status_code, refused.json()["error"]) == (400, "usage")
    assert (await client.post(path, json={"values": {"good": True}, "step": "review"})).status_code == 200
    assert (await site.settled(job_id)).status == "completed"
    assert (await client.get(f"/api/v1/jobs/{job_id}/outputs")).json() == {"outputs": {"good": True}}
    again = await client.post(path, json={"values": {"good": False}})
    assert again.status_code in (400, 409)
    assert waiting.status == "waiting"


async def test_a_job_is_steered_from_approval_to_deletion(site: Site) -> None:
    client = await site.client("admin")
    new = {"flow": "gate", "needs_approval": True, "name": "a gate"}
    job_id = (await client.post("/api/v1/jobs", json=new)).json()["id"]
    path = f"/api/v1/jobs/{job_id}"

    async def do(name: str, **body: object) -> tuple[int, str]:
        answer = await client.post(f"{path}/{name}", json=body)
        return answer.status_code, answer.json().get("status", answer.json().get("error"))

    assert (await client.get(path)).json()["status"] == "awaiting_approval"
    assert (await do("approve"))[0] == 200
    await site.settled(job_id)
    assert await do("pause", reason="lunch") == (200, "paused")
    assert (await do("resume"))[0] == 200
    await site.settled(job_id)
    assert await do("rerun", step="nowhere") == (404, "unknown_step")
    assert await do("retry") == (409, "transition")
    assert await do("archive") == (409, "transition")
    assert (await do("cancel", reason="enough"))[0] == 200
    assert (await site.settled(job_id)).status == "cancelled"
    assert await do("archive") == (200, "cancelled")
    assert (await client.get(path)).json()["archived"] is True
    assert await do("unarchive") == (200, "cancelled")
    assert (await client.delete(path)).status_code == 204
    assert (await client.get(path)).status_code == 404
    assert not site.project.logs.path(job_id).exists()
    assert await site.project.store.run(job_id) is None


async def test_what_cannot_be_submitted_says_why(site: Site) -> None:
    client = await site.client("operate")

    async def refused(**new: object) -> tuple[int, str]:
        answer = await client.post("/api/v1/jobs", json=new)
        return answer.status_code, answer.json()["error"]

    assert await refused(flow="nothing") == (404, "unknown_flow")
    assert await refused(flow="broken") == (422, "flow_file")
    assert await refused(flow="hello", inputs={"whom": "x"}) == (422, "flow_input")
    assert await refused(flow="hello", needs=["nobody"]) == (400, "usage")
    assert await refused(flow="hello", input={}) == (400, "does_not_fit")
    answer = await client.post("/api/v1/jobs", json={"flow": "broken"})
    assert 2 in [finding["line"] for finding in answer.json()["findings"]]


async def test_flows_are_browsed_read_drawn_and_checked(site: Site) -> None:
    client = await site.client("read")
    flows = {flow["name"]: flow for flow in (await client.get("/api/v1/flows")).json()}
    assert [*flows] == ["broken.flow.yaml", "gate", "hello", "slow"]
    assert flows["hello"] == {
        "flow": "flows/hello.flow.yaml", "name": "hello", "description": "greets somebody", "valid": True,
        "steps": 1, "inputs": 1,
    }  # fmt: skip
    shown = (await client.get("/api/v1/flows/file", params={"flow": "hello"})).json()
    assert [(one["name"], one["default"], one["setting"]) for one in shown["inputs"]] == [("who", "world", False)]
    (step,) = shown["steps"]
    assert (step["name"], step["executor"]) == ("greet", "script")
    assert shown["text"].splitlines()[step["line"] - 1].strip() == "greet:"
    assert shown["text"].startswith("\nname: hello")
    drawn = await client.get("/api/v1/flows/graph", params={"flow": "hello", "format": "svg"})
    assert (drawn.headers["content-type"], drawn.text[:4]) == ("image/svg+xml", "<svg")
    assert "sandbox" in drawn.headers["content-security-policy"]
    graph = (await client.get("/api/v1/flows/graph", params={"flow": "slow"})).json()
    assert [node["name"] for node in graph["nodes"]] == ["first", "wait"]
    checked = (await client.get("/api/v1/flows/check", params={"flow": "broken"})).json()
    assert (checked["valid"], 2 in [finding["line"] for finding in checked["findings"]]) == (False, True)


async def test_a_completed_job_goes_on_with_a_branch_of_it(site: Site) -> None:
    client = await site.client("operate")
    job_id = await site.submit("hello")
    await site.settled(job_id)
    (made, *_) = (await client.get("/api/v1/checkpoints", params={"run": job_id})).json()
    early = await client.post(f"/api/v1/checkpoints/{made['id']}/resume", json={})
    assert (early.status_code, "fork one of its checkpoints" in early.json()["message"]) == (409, True)
    forked = await client.post(f"/api/v1/checkpoints/{made['id']}/fork", json={"branch": "again"})
    again = await client.post(f"/api/v1/checkpoints/{forked.json()['id']}/resume", json={})
    assert (again.status_code, again.json()["status"]) == (200, "queued")
    job = await site.settled(job_id)
    assert (job.status, job.runs) == ("completed", 2)
    branches = (await client.get(f"/api/v1/runs/{job_id}/tree")).json()["branches"]
    assert [(one["name"], one["is_current"]) for one in branches] == [("main", False), ("again", True)]
