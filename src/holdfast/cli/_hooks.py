"""`holdfast hooks`: who is told what happens to jobs, and what became of it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli._help import JsonOption, StoreOption, examples
from holdfast.cli._project import Project, in_project
from holdfast.cli._terminal import echo_json, iso_time, printable, show_age
from holdfast.errors import UsageError
from holdfast.ports import HOOK, Delivery, DeliveryQuery, DeliveryStatus

if TYPE_CHECKING:
    from holdfast.hooks import Hook

app = typer.Typer(
    help="Hooks and webhooks: who is told what happens to jobs, what was delivered, and trying again.",
    epilog=examples(
        "holdfast hooks",
        "holdfast hooks list --status dead",
        "holdfast hooks retry DELIVERY",
        "holdfast hooks test slack",
    ),
)
DeliveryArgument = Annotated[str, typer.Argument(metavar="DELIVERY", help="Its id, as `holdfast hooks list` shows it.")]


@app.callback(invoke_without_command=True)
def hooks(context: typer.Context, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Show the hooks of the project, as its holdfast.toml has them."""
    if context.invoked_subcommand is not None:
        return

    async def work(project: Project) -> dict[str, Hook]:
        return project.hooks.hooks

    found = [_hook_data(name, hook) for name, hook in in_project(store, work).items()]
    if as_json:
        echo_json(found)
        return
    for one in found:
        told = ("name", "target", "flow")
        typer.echo("\t".join(printable(str(one[key])) for key in told) + "\t" + ", ".join(one["on"]))


@app.command("list")
def list_deliveries(
    status: Annotated[DeliveryStatus | None, typer.Option("--status", help="Only these.")] = None,
    job: Annotated[str, typer.Option("--job", metavar="JOB", help="Only of this job.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="So many.")] = 50,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """List what hooks and webhooks are told, newest first: what arrived, what is to be tried again, and what is dead."""

    async def work(project: Project) -> list[Delivery]:
        job_id = await project.service.resolve(job) if job else ""
        return await project.outbox.deliveries(DeliveryQuery((status,) if status else (), job_id, limit))

    found = in_project(store, work)
    if as_json:
        echo_json([delivery_data(one) for one in found])
        return
    now_us = time.time_ns() // 1000
    for one in found:
        data = delivery_data(one)
        shown = [data["id"], data["status"], data["event"], data["target"], show_age(now_us - one.created_us)]
        typer.echo("\t".join(map(printable, [*shown, *([one.error] if one.error else [])])))


@app.command()
def show(delivery: DeliveryArgument, store: StoreOption = None) -> None:
    """Show a delivery with what it tells, as JSON."""

    async def work(project: Project) -> Delivery:
        return await _find(project, delivery)

    one = in_project(store, work)
    echo_json(delivery_data(one) | {"body": json.loads(one.body)})


@app.command()
def retry(
    deliveries: Annotated[
        list[str] | None, typer.Argument(metavar="[DELIVERY]…", help="Their ids, as `holdfast hooks list` shows them.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="All that are dead.")] = False,
    store: StoreOption = None,
) -> None:
    """Deliver now what is dead, or waits for its next try."""

    async def work(project: Project) -> list[str]:
        found = [await _find(project, one) for one in deliveries or ()]
        if dead:
            found += await project.outbox.deliveries(DeliveryQuery(("dead",), limit=10_000))
        now_us = project.clock.time_ns() // 1000
        done = [one.id for one in found if await project.outbox.retry(one.id, now_us=now_us)]
        if left := [one.id for one in found if one.id not in done]:
            raise UsageError(f"delivery {left[0]} arrived already, or an earlier one of its job comes first")
        if done:
            await project.serve()
        return done

    if not deliveries and not dead:
        raise UsageError("say which: holdfast hooks retry DELIVERY, or --dead")
    for one in in_project(store, work):
        typer.echo(f"delivering {one}")


@app.command("test")
def send_test(name: Annotated[str, typer.Argument(help="Which hook.")], store: StoreOption = None) -> None:
    """Tell a hook at once of something that did not happen: the event `test`."""
    from holdfast.ids import new_id

    async def work(project: Project) -> None:
        if name not in project.hooks.hooks:
            known = ", ".join(project.hooks.hooks) or "there is none"
            raise UsageError(f"there is no hook {name!r} in {project.home / 'holdfast.toml'}; hooks: {known}")
        delivery_id = new_id()
        sender = project.sender()
        try:
            await sender.send(delivery_id, HOOK + name, _test_message(delivery_id, project))
        finally:
            await sender.aclose()

    in_project(store, work)
    typer.echo(f"{printable(name)} was told")


def _test_message(delivery_id: str, project: Project) -> bytes:
    job = {"id": "", "flow": "test", "name": "a test", "status": "completed", "labels": {}, "reason": ""}
    at = iso_time(project.clock.time_ns() // 1000)
    return json.dumps({"id": delivery_id, "event": "test", "job": job, "at": at}).encode()


async def _find(project: Project, delivery_id: str) -> Delivery:
    found = await project.outbox.delivery(delivery_id)
    if found is None:
        raise UsageError(f"there is no delivery {delivery_id!r}; `holdfast hooks list` lists them")
    return found


def _hook_data(name: str, hook: Hook) -> dict[str, Any]:
    from holdfast.hooks import read_address

    target = read_address(hook.url).shown if hook.url else " ".join(hook.command)
    return {"name": name, "on": list(hook.on), "flow": hook.flow, "target": target, "secret_env": hook.secret_env}


def delivery_data(one: Delivery) -> dict[str, Any]:
    """A delivery as plain data, without what may be a secret."""
    from holdfast.hooks import show_target

    return {
        "id": one.id,
        "job": one.job_id,
        "event": one.event,
        "target": show_target(one.target),
        "status": one.status,
        "attempts": one.attempts,
        "error": one.error,
        "created": iso_time(one.created_us),
        "next": None if one.next_us is None else iso_time(one.next_us),
        "settled": None if one.settled_us is None else iso_time(one.settled_us),
    }
