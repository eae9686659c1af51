"""`holdfast config`: the settings of a flow, which are given once and kept beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli._help import JsonOption, examples
from holdfast.cli._run import FlowArgument
from holdfast.cli._terminal import echo_json, printable

if TYPE_CHECKING:
    from holdfast.flowfiles import FlowFile, Variable

EPILOG = examples(
    "holdfast config review",
    "holdfast config review --set model=fast --set depth=3",
    "holdfast config review --unset depth",
)


def config(
    flow: FlowArgument,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Keep a value; @file takes a file's text."),
    ] = None,
    forgotten: Annotated[list[str] | None, typer.Option("--unset", metavar="NAME", help="Forget a value.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the settings of a flow (`config:`) and where each comes from; set them once for all its jobs.

    They are kept in config.local.yaml beside the flow. Secrets are not: set their environment variable where jobs run.
    """
    from holdfast.flowfiles import load_flow, parse_assignments, write_local_config

    loaded = load_flow(flow)
    if settings or forgotten:
        write_local_config(loaded, parse_assignments(settings or []), forgotten or [])
    rows = _rows(loaded)
    if as_json:
        echo_json(rows)
        return
    for row in rows:
        typer.echo("\t".join(printable(_shown(row[key])) for key in ("name", "value", "from", "description")).rstrip())
    if not rows:
        typer.echo(f"the flow {loaded.name} has no settings (config:); its inputs are given with run --input")


def _rows(flow: FlowFile) -> list[dict[str, Any]]:
    from holdfast.flowfiles import read_local_config

    local = read_local_config(flow)
    return [{"name": one.name, **_found(one, local), "description": one.description} for one in flow.config]


def _found(one: Variable, local: dict[str, Any]) -> dict[str, Any]:
    from msgspec import UNSET

    from holdfast.flowfiles import secret_variable, secret_variables

    if one.name in local:
        return {"value": local[one.name], "from": "config.local.yaml"}
    if (found := next((name for name in secret_variables(one.name) if name in os.environ), None)) is not None:
        return {"value": None if one.sensitive else os.environ[found], "from": found}
    if one.sensitive:
        return {"value": None, "from": f"missing: set {secret_variable(one.name)}"}
    if one.default is not UNSET:
        return {"value": one.default, "from": "default"}
    return {"value": None, "from": "missing" if one.required else "optional"}


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
