"""`holdfast token`: who may use the server."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from holdfast.cli._help import JsonOption, StoreOption, examples
from holdfast.cli._project import Project, in_project
from holdfast.cli._serve import tokens_of
from holdfast.cli._terminal import echo_json, iso_time, parse_duration, printable
from holdfast.server import Role, Token, Tokens

app = typer.Typer(
    help="Make, list and revoke tokens of the server.",
    no_args_is_help=True,
    epilog=examples("holdfast token new laptop --role operate", "holdfast token list", "holdfast token revoke laptop"),
)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Who it is for.")],
    role: Annotated[
        Role, typer.Option("--role", help="What it allows: each role allows what those before it do.")
    ] = "read",
    lifetime: Annotated[str, typer.Option("--for", metavar="TIME", help="How long it counts, as 12h or 30d.")] = "",
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Make a token and print it, this once: only its hash is kept.

    read looks at everything. operate also submits, answers and steers jobs. admin also deletes.
    """
    seconds = parse_duration(lifetime).total_seconds() if lifetime else None
    made = _tokens(store).make(name, role, now_us=time.time_ns() // 1000, seconds=seconds)
    if as_json:
        echo_json({"name": name, "role": role, "token": made})
    else:
        typer.echo(made)


@app.command("list")
def list_tokens(as_json: JsonOption = False, store: StoreOption = None) -> None:
    """List the tokens there are; what they are is kept nowhere."""
    found = [_data(token) for token in _tokens(store).all()]
    if as_json:
        echo_json(found)
        return
    for one in found:
        typer.echo("\t".join(printable(str(value)) for value in one.values() if value is not None))


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME|ID", help="Which one.")], store: StoreOption = None
) -> None:
    """Let a token count no more, from the next call on."""
    typer.echo(f"revoked {printable(_tokens(store).revoke(name).name)}")


def _tokens(store: str | None) -> Tokens:
    async def work(project: Project) -> Tokens:
        return tokens_of(project)

    return in_project(store, work)


def _data(token: Token) -> dict[str, Any]:
    expires = None if token.expires_us is None else iso_time(token.expires_us)
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "created": iso_time(token.created_us),
        "expires": expires,
    }
