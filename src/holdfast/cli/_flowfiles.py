"""`holdfast validate`, `graph` and `schema`: flow files, looked at without running anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdfast.cli._help import JsonOption, examples
from holdfast.cli._run import FlowArgument, complete_flow
from holdfast.cli._terminal import console, echo_json, on_terminal, printable
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.flowfiles import Finding

VALIDATE_EPILOG = examples("holdfast validate review.flow.yaml", "holdfast validate flows/* --json")
GRAPH_EPILOG = examples("holdfast graph review.flow.yaml", "holdfast graph review --format svg --output review.svg")
SCHEMA_EPILOG = examples("holdfast schema > flow.schema.json")

_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


def validate(
    flows: Annotated[
        list[str],
        typer.Argument(
            metavar="FLOW...",
            help="Files, directories with FLOW.yaml, kits, names, or kit/flow.",
            autocompletion=complete_flow,
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Check flow files without running anything, and say what is wrong with them, where, and what to do.

    Exits with 3 if one of them cannot be used; warnings and notes do not count.
    """
    checked = {flow: _findings(flow) for named in flows for flow in _meant(named)}
    is_bad = any(one.severity == "error" for findings in checked.values() for one in findings)
    if as_json:
        echo_json([_flow_data(flow, findings) for flow, findings in checked.items()])
    elif on_terminal():
        _show_tables(checked)
    else:
        for flow, findings in checked.items():
            typer.echo("\n".join(printable(line) for line in (*map(str, findings), _verdict(flow, findings))))
    if is_bad:
        raise typer.Exit(3)


def graph(
    flow: FlowArgument,
    form: Annotated[Literal["mermaid", "svg"], typer.Option("--format", help="What to draw with.")] = "mermaid",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")] = None,
) -> None:
    """Draw a flow: its steps, what leads to what, and the rules that lead elsewhere."""
    from holdfast.flowfiles import load_flow, to_graph
    from holdfast.graph import to_mermaid, to_svg

    drawn = (to_svg if form == "svg" else to_mermaid)(to_graph(load_flow(flow)))
    if output is None:
        typer.echo(drawn.rstrip("\n"))
        return
    try:
        output.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written: {error.strerror or error}") from error


def schema() -> None:
    """Print the JSON Schema of flow files, for editors; installed executors are part of it."""
    from holdfast.flowfiles import installed_schema

    typer.echo(json.dumps(installed_schema(), indent=2))


def _meant(named: str) -> list[str]:
    """The flow, or all flows of the kit."""
    from holdfast.flowfiles import flows_of_kit

    return [str(file) for file in flows_of_kit(Path(named))] or [named]


def _findings(flow: str) -> tuple[Finding, ...]:
    from holdfast.flowfiles import check_flow, check_tools

    loaded, findings = check_flow(flow)
    return (*findings, *(check_tools(loaded) if loaded else ()))


def _flow_data(flow: str, findings: tuple[Finding, ...]) -> dict[str, Any]:
    is_valid = not any(one.severity == "error" for one in findings)
    return {"flow": flow, "valid": is_valid, "findings": [_finding_data(one) for one in findings]}


def _finding_data(one: Finding) -> dict[str, Any]:
    place = {"file": one.at.file, "line": one.at.line, "column": one.at.column}
    return {"severity": one.severity, "code": one.code, **place, "message": one.message, "fix": one.fix}


def _verdict(flow: str, findings: tuple[Finding, ...]) -> str:
    counts = {kind: sum(one.severity == kind for one in findings) for kind in _STYLES}
    said = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count)
    return f"{flow}: {'cannot be used' if counts['error'] else 'ok'}{f' ({said})' if said else ''}"


def _show_tables(checked: dict[str, tuple[Finding, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    for flow, findings in checked.items():
        table = Table("place", "", "what", "what to do", box=None, header_style="bold")
        for one in findings:
            cells = (str(one.at), one.severity, one.message, one.fix)
            table.add_row(
                *(Text(printable(cell), style=_STYLES[one.severity] if cell == one.severity else "") for cell in cells)
            )
        if findings:
            console().print(table)
        console().print(printable(_verdict(flow, findings)))
