"""Checkpoints as data, for `--json` and for pipes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.checkpoints import (
    Change,
    Details,
    Difference,
    Found,
    Listed,
    RunTree,
    made_by,
    status_of,
    step_status_of,
)
from holdfast.cli._terminal import iso_time
from holdfast.deltas import locate
from holdfast.ports import BranchInfo, Mark, RunInfo


def program_of(run: RunInfo) -> str:
    """The class that a run was recorded with, as `--flow` takes it: of a script, only the user knows the module."""
    module, _, name = made_by(run).partition(":")
    return f"MODULE:{name or 'CLASS'}" if module in ("__main__", "") else f"{module}:{name}"


def listed_data(one: Listed, now_us: int) -> dict[str, Any]:
    """A checkpoint of a list."""
    mark, run = one.mark, one.run
    return {
        "id": mark.id,
        "run_id": run.root_run_id,
        "run": run.name,
        "branch": mark.branch,
        "trigger": mark.trigger,
        "subject": one.subject,
        "position": mark.seq,
        "size": mark.size,
        "at": iso_time(mark.at_us),
        "parent_id": mark.parent_id,
        "status": status_of(run, now_us),
    }


def tree_data(tree: RunTree, now_us: int) -> dict[str, Any]:
    """A run with its branches."""
    return {
        "run_id": tree.run.root_run_id,
        "run": tree.run.name,
        "status": status_of(tree.run, now_us),
        "updated": iso_time(tree.run.updated_us),
        "branches": [_branch_data(branch, tree.checkpoints, now_us) for branch in tree.branches],
        "has_older": tree.has_older,
    }


def _branch_data(branch: BranchInfo, checkpoints: Iterable[Listed], now_us: int) -> dict[str, Any]:
    return {
        "name": branch.name,
        "parent": branch.parent,
        "from": branch.fork_seq,
        "head": branch.head,
        "checkpoints": [listed_data(one, now_us) for one in checkpoints if one.mark.branch == branch.name],
    }


def mark_data(mark: Mark) -> dict[str, Any]:
    """A checkpoint by itself."""
    return {"id": mark.id, "run_id": mark.root_run_id, "branch": mark.branch, "position": mark.seq}


def details_data(details: Details, now_us: int) -> dict[str, Any]:
    """Everything about a checkpoint."""
    found = details.found
    about = (
        listed_data(Listed(found.mark, found.run, details.subject), now_us)
        if found.mark is not None
        else {"id": found.id, "run_id": found.id, "run": found.run.name, "branch": details.branch,
              "position": details.seq, "status": status_of(found.run, now_us)}
    )  # fmt: skip
    steps = [
        {"step": step.key, "status": step_status_of(step, details, now_us), "attempts": step.attempts,
         "result": step.result, "route": step.route, "error": step.error}
        for step in details.steps
    ]  # fmt: skip
    more = {"head": details.head, "program": details.made_by, "state": details.state, "steps": steps}
    return about | more | {"usage": details.usage}


def difference_data(a: Found, b: Found, found: Difference) -> dict[str, Any]:
    """What differs between two checkpoints."""
    return {
        "a": a.id,
        "b": b.id,
        "state": [_change_data(change) for change in found.state],
        "steps": {"only_a": list(found.only_a), "only_b": list(found.only_b)},
        "results": [{"step": key, "before": before, "after": after} for key, before, after in found.results],
    }


def _change_data(change: Change) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": change.kind, "path": locate(change.path)}
    if change.kind != "added":
        told["before"] = change.before
    if change.kind != "removed":
        told["after"] = change.after
    return told
