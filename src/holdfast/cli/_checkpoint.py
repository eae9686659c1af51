"""`holdfast checkpoint`: look at what runs wrote down, compare it, branch off, go on, clean up."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from holdfast.cli._help import DryRunOption, JsonOption, StoreOption, examples
from holdfast.cli._outcome import Outcome
from holdfast.cli._stores import make_store, open_store

app = typer.Typer(
    help="Look at checkpoints, compare them, branch off, go on from one, clean up.\n\n"
    "An ID is that of a checkpoint, or of a run, which stands for where it has got to. Its beginning or its end will do, as long "
    "as no other has it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The checkpoint, or a run for where it has got to.")]
RunOption = Annotated[str | None, typer.Option("--run", metavar="ID", help="Only this run.")]
FlowOption = Annotated[
    str | None, typer.Option("--flow", metavar="MODULE:CLASS", help="The class of the flow, as Python imports it.")
]


@app.command(
    "list",
    epilog=examples("holdfast checkpoint list --limit 20", "holdfast checkpoint list --run 4f1c09ab --tree"),
)
def list_(
    run: RunOption = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many; with --tree, so many runs.")] = 50,
    tree: Annotated[bool, typer.Option("--tree", help="Show runs with their branches.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """List checkpoints, the newest first."""
    from holdfast.checkpoints import find_run, list_checkpoints, list_trees
    from holdfast.cli import _checkpoint_data as data
    from holdfast.cli import _checkpoint_views as views
    from holdfast.cli._terminal import echo_json

    with open_store(store) as opened:
        root = asyncio.run(find_run(opened, run)).root_run_id if run is not None else None
        if tree:
            trees = asyncio.run(list_trees(opened, root, limit=limit))
            echo_json([data.tree_data(one, now_us()) for one in trees]) if as_json else views.show_trees(
                trees, now_us()
            )
            return
        listed = asyncio.run(list_checkpoints(opened, root, limit=limit))
    if as_json:
        echo_json([data.listed_data(one, now_us()) for one in listed])
    elif listed:
        views.show_table(listed, now_us())
    else:
        typer.echo("no checkpoints yet; --tree shows the runs there are", err=True)


@app.command(epilog=examples("holdfast checkpoint show 4f1c09ab", "holdfast checkpoint show 4f1c09ab --json"))
def show(checkpoint: IdArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Show one checkpoint: its state, its steps with their results, its usage."""
    from holdfast.checkpoints import describe, find
    from holdfast.cli._checkpoint_data import details_data
    from holdfast.cli._checkpoint_views import show_details
    from holdfast.cli._terminal import echo_json

    with open_store(store) as opened:
        found = asyncio.run(find(opened, checkpoint))
        details = asyncio.run(describe(opened, found))
    if as_json:
        echo_json(details_data(details, now_us()))
    else:
        show_details(details, now_us())


@app.command(epilog=examples("holdfast checkpoint diff 4f1c09ab 77d0e2b1"))
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="The one before.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The one after; of another run too.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if they differ.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Show what differs between two checkpoints: state, completed steps, results."""
    from holdfast.checkpoints import compare_checkpoints, find
    from holdfast.cli._checkpoint_data import difference_data
    from holdfast.cli._checkpoint_views import show_difference
    from holdfast.cli._terminal import echo_json

    with open_store(store) as opened:
        old, new = asyncio.run(find(opened, a)), asyncio.run(find(opened, b))
        found = asyncio.run(compare_checkpoints(opened, old, new))
    if as_json:
        echo_json(difference_data(old, new, found))
    else:
        show_difference(old, new, found)
    if exit_code and found:
        raise typer.Exit(1)


@app.command(
    epilog=examples(
        "holdfast checkpoint fork 4f1c09ab --branch colder --set temperature=0.2 --set 'items[0].name=\"x\"'",
        "holdfast checkpoint fork 4f1c09ab --branch colder --flow shop.flows:Order --run",
    )
)
def fork(
    checkpoint: IdArgument,
    branch: Annotated[str, typer.Option("--branch", metavar="NAME", help="The name of the new branch.")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change the state there; JSON, or else text. Repeatable."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="A JSON object with fields of the state to change.")
    ] = None,
    flow: FlowOption = None,
    run: Annotated[bool, typer.Option("--run", help="Run the branch at once; needs --flow.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Start a branch at a checkpoint, with an edited state if you like."""
    from holdfast.cli._checkpoint_edits import Edits
    from holdfast.cli._checkpoint_runs import fork_and_run, fork_only

    edits = Edits.of(changes or [], state)
    with open_store(store) as opened:
        outcome = (fork_and_run if run else fork_only)(opened, checkpoint, branch, edits, flow)
    _leave(outcome, as_json)


@app.command(epilog=examples("holdfast checkpoint resume 4f1c09ab --flow shop.flows:Order"))
def resume(
    checkpoint: IdArgument, flow: FlowOption = None, as_json: JsonOption = False, store: StoreOption = None
) -> None:
    """Go on from a checkpoint, in this process, with the class you name; of a crew or an agent, the module with its tools.

    Nothing that completed runs again. An earlier checkpoint than the last goes on with a branch of its own.
    """
    from holdfast.cli._checkpoint_runs import resume_run

    with open_store(store) as opened:
        outcome = resume_run(opened, checkpoint, flow)
    _leave(outcome, as_json)


@app.command(
    epilog=examples(
        "holdfast checkpoint prune --keep 5 --dry-run",
        "holdfast checkpoint prune --run 4f1c09ab --older-than 7d",
    )
)
def prune(
    run: RunOption = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=0, metavar="N", help="Keep the newest N of each branch.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Drop only what is older: 90s, 12h, 7d, 2w.")
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Drop old checkpoints. Runs stay, and so does all that a branch stands on or a resume needs.

    With both --keep and --older-than, what either of them keeps stays. While a run keeps any, it keeps the last of each branch
    and those where a branch left another.
    """
    from holdfast.cli import _checkpoint_prune as pruning
    from holdfast.cli._terminal import echo_json, parse_duration

    max_age = parse_duration(older_than) if older_than is not None else None
    with open_store(store) as opened:
        plan = asyncio.run(pruning.plan_prune(opened, run, keep, max_age, now_us()))
        freed = None if dry_run else asyncio.run(pruning.carry_out(opened, plan))
    if as_json:
        echo_json(pruning.prune_data(plan, freed))
    else:
        typer.echo("\n".join(pruning.prune_lines(plan, freed)))


@app.command(
    epilog=examples(
        "holdfast checkpoint export 4f1c09ab order.json",
        "holdfast checkpoint export 4f1c09ab - | ssh host tee order.json",
    )
)
def export(
    checkpoint: IdArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to; - is stdout.")],
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Write a checkpoint to a file that another machine can import: all that it stands on, for its owner's eyes only."""
    from holdfast.cli._checkpoint_files import export_to

    with open_store(store) as opened:
        outcome = export_to(opened, checkpoint, file)
    if outcome.data:
        _leave(outcome, as_json)


@app.command("import", epilog=examples("holdfast checkpoint import order.json"))
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - is stdin.")],
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="Put it at the beginning of a new branch.")
    ] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Put a checkpoint that was exported into the store, to look at it or to go on from it."""
    from holdfast.cli._checkpoint_files import import_from

    with make_store(store) as opened:
        outcome = import_from(opened, file, branch)
    _leave(outcome, as_json)


def _leave(outcome: Outcome, as_json: bool) -> NoReturn:
    from holdfast.cli._terminal import echo_json

    if as_json:
        echo_json(outcome.data)
    else:
        typer.echo("\n".join(outcome.lines))
    raise typer.Exit(outcome.exit_code)


def now_us() -> int:
    return time.time_ns() // 1000
