"""How checkpoints look: as a table, a tree, a page, a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import typer

from holdfast.checkpoints import (
    Details,
    Difference,
    Found,
    Listed,
    RunTree,
    StepRecord,
    short_ids,
    status_of,
    step_status_of,
)
from holdfast.cli._checkpoint_data import listed_data
from holdfast.cli._terminal import (
    Styled,
    console,
    echo_lines,
    on_terminal,
    outline,
    printable,
    shorten,
    show_age,
    show_size,
    show_time,
    width,
)
from holdfast.deltas import locate
from holdfast.ports import BranchInfo, RunInfo

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

GAP = 2
WIDE = 110
"""From here on the table has room for the run's id."""
STATUS_STYLES = {
    "completed": "green", "failed": "red", "cancelled": "yellow", "running": "cyan", "waiting": "magenta", "paused": "magenta",
    "interrupted": "yellow",
}  # fmt: skip
KIND_STYLES = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


# -- lists ---------------------------------------------------------------------------------------------------------


def show_table(listed: list[Listed], now_us: int) -> None:
    """A table on a terminal; in a pipe, one checkpoint a line, tabs between, ids in full."""
    if not on_terminal():
        for one in listed:
            values = listed_data(one, now_us).values()
            typer.echo("\t".join(printable("" if value is None else str(value)) for value in values))
        return
    from rich.table import Table
    from rich.text import Text

    short = short_ids(name for one in listed for name in (one.mark.id, one.run.root_run_id))
    rows = [dict(_cells(one, short, now_us)) for one in listed]
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    widths = _fit(rows, width())
    for name, size in widths.items():
        justify: Literal["left", "right"] = "right" if name in ("at", "size", "age") else "left"
        table.add_column(name, width=size, no_wrap=True, overflow="ellipsis", justify=justify)
    for row in rows:
        styles = {"id": "cyan", "status": STATUS_STYLES.get(row["status"], "")}
        table.add_row(*(Text(row[name], styles.get(name, "")) for name in widths))
    console().print(table)


def _cells(one: Listed, short: dict[str, str], now_us: int) -> Iterator[tuple[str, str]]:
    yield "id", printable(short[one.mark.id])
    yield "run id", printable(short[one.run.root_run_id])
    yield "run", printable(one.run.name)
    yield "branch", printable(one.mark.branch)
    yield "trigger", _trigger(one)
    yield "at", str(one.mark.seq)
    yield "size", show_size(one.mark.size)
    yield "age", show_age(now_us - one.mark.at_us)
    yield "status", printable(status_of(one.run, now_us))


def _fit(rows: list[dict[str, str]], room: int) -> dict[str, int]:
    """How wide each column is: texts give way to figures and ids, and the run's id to everything."""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    if room < WIDE:
        del widths["run id"]
    for name, least in (("trigger", 16), ("branch", 8), ("run", 8), ("trigger", 4), ("branch", 4), ("run", 4)):
        over = sum(widths.values()) + GAP * (len(widths) - 1) - room
        widths[name] = max(widths[name] - max(over, 0), min(widths[name], least))
    return widths


def _trigger(one: Listed) -> str:
    return printable(f"{one.subject} {one.mark.trigger}".strip())


def _status(run: RunInfo, now_us: int) -> Styled:
    status = status_of(run, now_us)
    return printable(status), STATUS_STYLES.get(status, "")


def show_trees(trees: list[RunTree], now_us: int) -> None:
    """Each run as a tree: branches hang where they left, checkpoints in the order they were made."""
    shown = console()
    short = short_ids(
        name for tree in trees for name in (tree.run.root_run_id, *(one.mark.id for one in tree.checkpoints))
    )
    for tree in trees:
        shown.print(_run_tree(tree, short, now_us), overflow="ellipsis", no_wrap=True)
        if tree.has_older:
            run_id, count = printable(tree.run.root_run_id), len(tree.checkpoints)
            more = f"`holdfast checkpoint list --run {run_id} --limit N` lists more"
            typer.echo(f"run {run_id} has older checkpoints than these {count}; {more}", err=True)


def _run_tree(tree: RunTree, short: dict[str, str], now_us: int) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    run = tree.run
    head = Text.assemble(
        (printable(run.name), "bold"), "  ", (printable(short[run.root_run_id]), "cyan"), "  ", _status(run, now_us),
        f"  changed {show_age(now_us - run.updated_us)} ago",
    )  # fmt: skip
    root = Tree(head, guide_style="dim")
    places: dict[str, list[tuple[int, Tree]]] = {}
    for branch in _parents_first(tree.branches):
        node = _place(places, branch, root).add(_branch_line(branch))
        places[branch.name] = [(branch.fork_seq, node)]
        for one in tree.checkpoints:
            if one.mark.branch == branch.name:
                places[branch.name].append((one.mark.seq, node.add(_mark_line(one, short, now_us))))
    return root


def _parents_first(branches: list[BranchInfo]) -> list[BranchInfo]:
    depth: dict[str | None, int] = {None: 0}
    waiting = list(branches)
    while waiting:
        known = [branch for branch in waiting if branch.parent in depth]
        depth |= {branch.name: depth[branch.parent] + 1 for branch in known}
        waiting = [branch for branch in waiting if branch not in known] if known else []
    return sorted(branches, key=lambda branch: depth.get(branch.name, 0))


def _place(places: dict[str, list[tuple[int, Tree]]], branch: BranchInfo, root: Tree) -> Tree:
    """What a branch hangs below: the last checkpoint of its parent that it shares, else the parent itself."""
    known = places.get(branch.parent or "", [])
    return next((node for seq, node in reversed(known) if seq <= branch.fork_seq), root)


def _branch_line(branch: BranchInfo) -> Text:
    from rich.text import Text

    since = f"  from {branch.fork_seq}" if branch.parent is not None else ""
    return Text.assemble((printable(branch.name), "bold magenta"), f"{since}  up to {branch.head}")


def _mark_line(one: Listed, short: dict[str, str], now_us: int) -> Text:
    from rich.text import Text

    mark = one.mark
    return Text.assemble(
        (printable(short[mark.id]), "cyan"),
        f"  {_trigger(one)}",
        (f"  at {mark.seq}, {show_size(mark.size)}, {show_age(now_us - mark.at_us)} ago", "dim"),
    )


# -- one checkpoint ------------------------------------------------------------------------------------------------


def show_details(details: Details, now_us: int) -> None:
    """Everything about a checkpoint, on as many lines as it takes but no more than fit a screen or two."""
    echo_lines(
        [*_about(details, now_us), *_step_lines(details, now_us), *_state_lines(details), *_usage_lines(details)]
    )


def _about(details: Details, now_us: int) -> Iterator[list[Styled]]:
    found, run = details.found, details.found.run
    mark = found.mark
    yield _fact("checkpoint" if mark is not None else "run's head", found.id)
    yield [*_fact("run", f"{run.root_run_id}  {run.name} "), _status(run, now_us)]
    yield _fact("branch", f"{details.branch}, at {details.seq} of {details.head}")
    if mark is not None:
        yield _fact("parent", mark.parent_id or "none")
        yield _fact("trigger", f"{details.subject} {mark.trigger}".strip())
        yield _fact("made", f"{show_time(mark.at_us)}, {show_age(now_us - mark.at_us)} ago, {show_size(mark.size)}")
    if details.made_by:
        yield _fact("program", details.made_by)


def _fact(name: str, value: str) -> list[Styled]:
    return [(f"{name:<11}", "bold"), (printable(value), "")]


def _step_lines(details: Details, now_us: int) -> Iterator[list[Styled]]:
    steps = [(step, step_status_of(step, details, now_us)) for step in details.steps]
    yield [("", "")]
    yield [("steps", "bold")]
    if not steps:
        yield [("  none yet", "dim")]
    longest = min(max((len(printable(step.key)) for step, _ in steps), default=0), 40)
    widest = max((len(status) for _, status in steps), default=0)
    for step, status in steps:
        yield _step_line(step, f"{status:<{widest}}", longest)


def _step_line(step: StepRecord, status: str, longest: int) -> list[Styled]:
    attempts = "" if step.attempts in (None, 1) else f"{step.attempts} attempts  "
    told = printable(step.error) if step.error else shorten(step.result, max(width() - longest - 30, 20))
    if step.status != "completed":
        told = printable(step.error)[: max(width() - longest - 30, 20)]
    return [
        (f"  {printable(step.key):<{longest}}  ", ""),
        (f"{status}  ", STATUS_STYLES.get(status.rstrip(), "")),
        (attempts + told, ""),
    ]


def _state_lines(details: Details) -> Iterator[list[Styled]]:
    yield [("", "")]
    yield [("state", "bold")]
    for line in outline(details.state, width() - 2):
        yield [(f"  {line}", "")]


def _usage_lines(details: Details) -> Iterator[list[Styled]]:
    if details.usage:
        yield [("", "")]
        yield [("usage", "bold")]
        for name, count in details.usage.items():
            yield [(f"  {printable(name)}: {count:,}", "")]


# -- differences ---------------------------------------------------------------------------------------------------


def show_difference(a: Found, b: Found, found: Difference) -> None:
    """What differs, nothing if nothing does."""
    echo_lines(_difference_lines(a, b, found) if found else [])


def _difference_lines(a: Found, b: Found, found: Difference) -> Iterator[list[Styled]]:
    yield [(f"--- {printable(a.id)}", "red")]
    yield [(f"+++ {printable(b.id)}", "green")]
    if found.only_a or found.only_b or found.results:
        yield [("steps", "bold")]
    for key in found.only_a:
        yield [(f"  - {printable(key)}", "red")]
    for key in found.only_b:
        yield [(f"  + {printable(key)}", "green")]
    for key, before, after in found.results:
        yield from _change_lines("changed", printable(key), before, after)
    if found.state:
        yield [("state", "bold")]
    for change in found.state:
        yield from _change_lines(change.kind, printable(locate(change.path)), change.before, change.after)


def _change_lines(kind: str, where: str, before: Any, after: Any) -> Iterator[list[Styled]]:
    sign, style = KIND_STYLES[kind]
    room = max(width() - len(where) - 6, 20)
    if kind != "changed":
        yield [(f"  {sign} {where}: {shorten(before if kind == 'removed' else after, room)}", style)]
        return
    old, new = shorten(before, width()), shorten(after, width())
    if len(old) + len(new) + 4 <= room:
        yield [(f"  {sign} {where}: {old} -> {new}", style)]
    else:
        yield [(f"  {sign} {where}:", style)]
        yield [(f"      - {shorten(before, max(width() - 8, 20))}", "red")]
        yield [(f"      + {shorten(after, max(width() - 8, 20))}", "green")]
