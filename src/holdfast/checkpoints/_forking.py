"""Starting a branch at a checkpoint without the program: the state may be edited, nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.checkpoints._browse import Found
from holdfast.checkpoints._log import HOLD_US
from holdfast.checkpoints._restore import Restored, definition_of, restore
from holdfast.deltas import WITHHELD, Delta, Shadow, encode_plain, live_value, withheld_in
from holdfast.errors import RunBusyError, UsageError
from holdfast.events.families.checkpoint import CheckpointForkedEvent
from holdfast.ids import IdFactory
from holdfast.ports import Batch, JournalStore, Mark, Row, RunInfo, Session
from holdfast.runs import RunStatus


async def fork_checkpoint(
    store: JournalStore, found: Found, *, branch: str, state: Mapping[str, Any], now_us: int, ids: IdFactory
) -> Mark:
    """Start a branch at a checkpoint, with these fields of the plain state changed, and return the checkpoint it begins with.

    Raises RunBusyError while a live process holds the run; StorageError if the name is taken; UsageError if a secret is to be
    changed. Nothing has changed then. A run that had completed or was cancelled is paused from now on: its new branch can be
    resumed.
    """
    if not branch.strip() or not branch.isprintable():
        raise UsageError(f"{branch!r} cannot be the name of a branch; choose one that can be printed")
    restored = await restore(store, found.id)
    _check_secrets(restored.state, restored.state | dict(state))
    row = _fork_row(found, restored, branch, state, now_us, ids)
    mark = _mark_of(row, restored, branch, ids())
    owner, start = ids(), _free_from(found.run, now_us)

    async def take(branch: str) -> Session:
        return await store.open(found.run, branch=branch, owner=owner, now_us=start, hold_until_us=start + HOLD_US)

    session = await take(restored.branch)  # before anything changes: a busy run is left as it is
    try:
        root = found.run.root_run_id
        await store.fork(root, branch=branch, parent=restored.branch, at_seq=restored.seq, now_us=now_us)
        session = await take(branch)
        await store.append(Batch(session, (row,), marks=(mark,), status=_status_of_fork(found.run)))
    finally:
        await store.close_session(session)
    return mark


def _check_secrets(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What is withheld is not stored, and an edit would be."""
    for path in withheld_in(before):
        if live_value(after, path) not in (None, WITHHELD):
            raise UsageError(
                f"{path} is a secret, and secrets are not stored: leave it out; whoever goes on with the branch is to have it"
            )


def _mark_of(row: Row, restored: Restored, branch: str, mark_id: str) -> Mark:
    parent = restored.mark.id if restored.mark is not None else None
    size = len(row.payload) + len(row.delta or b"")
    return Mark(mark_id, row.seq, row.at_us, row.type, branch, restored.info.root_run_id, parent, size)


def _free_from(info: RunInfo, now_us: int) -> int:
    """When the run can be taken: a hold that a dead process left need not be waited for, that of a live one never ends."""
    owner = definition_of(info).owner
    if info.held_until_us and info.status == RunStatus.RUNNING and owner.is_another_alive():
        raise RunBusyError(f"run {info.root_run_id} is held by process {owner.pid}, which is alive; wait for it to end")
    return max(now_us, info.held_until_us + 1) if owner.is_dead() else now_us


def _status_of_fork(info: RunInfo) -> str:
    ended = info.status in (RunStatus.COMPLETED, RunStatus.CANCELLED)
    return RunStatus.PAUSED if ended else info.status


def _fork_row(
    found: Found, restored: Restored, branch: str, state: Mapping[str, Any], now_us: int, ids: IdFactory
) -> Row:
    told = {"branch": branch, "parent_branch": restored.branch, "checkpoint_id": found.mark.id if found.mark else ""}
    delta: Delta = Shadow(restored.state).diff(restored.state | dict(state))
    return Row(
        restored.seq + 1,
        CheckpointForkedEvent.type,
        ids(),
        now_us,
        found.run.root_run_id,
        encode_plain(told),
        delta.encode() if delta else None,
    )
