"""`holdfast events`: the catalogue of event types."""

from __future__ import annotations

import difflib
import inspect
import json
import sys
from typing import Annotated, Any

import typer

from holdfast.events import BaseEvent, event_classes


def events(
    tag: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="Show one event type with its fields, such as task_completed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the event types a handler can listen to, or show one."""
    catalogue = {name: cls for name, cls in sorted(event_classes().items()) if cls.__module__.startswith("holdfast.")}
    if tag is not None and tag not in catalogue:
        near = difflib.get_close_matches(tag, catalogue, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; `holdfast events` lists them all"
        typer.echo(f"holdfast: no event type {tag!r}{hint}", err=True)
        raise typer.Exit(2)
    shown = [describe(catalogue[tag])] if tag is not None else [describe(cls) for cls in catalogue.values()]
    if as_json:
        typer.echo(json.dumps(shown[0] if tag is not None else shown, indent=2))
    elif tag is not None:
        _show_one(shown[0])
    else:
        _show_all(shown)


def describe(cls: type[BaseEvent]) -> dict[str, Any]:
    """An event class as plain data."""
    return {
        "type": cls.type,
        "class": cls.__name__,
        "about": inspect.getdoc(cls) or "",
        "fields": {name: str(cls.__annotations__.get(name, "")) for name in cls.__struct_fields__ if name != "env"},
        "opens": cls.opens,
        "closes": cls.closes,
        "durable": cls.durable,
    }


def _show_one(event: dict[str, Any]) -> None:
    typer.echo(f"{event['class']}  ({event['type']})\n{event['about']}")
    for name, kind in event["fields"].items():
        typer.echo(f"  {name}: {kind}")


def _show_all(shown: list[dict[str, Any]]) -> None:
    if not sys.stdout.isatty():
        for event in shown:
            typer.echo(f"{event['type']}\t{event['class']}\t{event['about']}")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("type", "class", "what it says", box=None, header_style="bold")
    for event in shown:
        table.add_row(f"[cyan]{event['type']}[/cyan]", event["class"], event["about"])
    Console().print(table)
