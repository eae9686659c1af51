"""What the help of several commands has in common."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRunOption: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]
StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="PATH|DSN", help="An SQLite file or a postgresql:// address; else the project's store."
    ),
]


def examples(*lines: str) -> str:
    """The end of a command's help, one example a line."""
    return "\n\n".join(("Examples:", *lines))
