"""What every store decides the same way: who may write, what may follow, which rows a branch has, what can be dropped.

Pure functions over plain values; a store reads the values and carries out the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.errors import ClosedError, FencedError, PositionError, RunBusyError, StorageError
from holdfast.ports import Batch, BranchInfo, Mark, Session

MAIN = "main"
PAGE_ROWS = 256
PAGE_BYTES = 4 * 1024 * 1024


class Segment(NamedTuple):
    """A stretch of a lineage: the rows of `branch` with `after < seq <= upto`; `upto` None has no end."""

    branch: str
    after: int
    upto: int | None


class Plan(NamedTuple):
    """What a prune drops."""

    rows: list[tuple[str, int, int]]
    """(branch, first, last), both dropped"""
    snapshots: list[tuple[str, int]]
    marks: list[str]
    parents: dict[str, str | None]
    """marks that stay and now follow another one"""


class Branches(NamedTuple):
    """The branches of a run, and the keys their rows are found by."""

    infos: dict[str, BranchInfo]
    keys: dict[str, int]

    def lineage(self, root_run_id: str, branch: str, upto: int | None) -> list[Segment]:
        if not self.infos:
            raise no_run(root_run_id)
        if branch not in self.infos:
            raise no_branch(root_run_id, branch, self.infos)
        return lineage(self.infos, branch, upto)


def check_free(root_run_id: str, owner: str, holder: str, held_until_us: int, now_us: int) -> None:
    """Raise RunBusyError while somebody else's hold has not run out."""
    if held_until_us > now_us and holder != owner:
        left = (held_until_us - now_us) / 1_000_000
        raise RunBusyError(
            f"run {root_run_id} is held by {holder or 'another process'} for {left:.3g} s more; wait until it ends"
        )


def check_fence(session: Session, fence: int | None) -> None:
    """Raise FencedError unless the session is the run's present one. `fence` None: there is no such run."""
    if fence == session.fence:
        return
    why = "the run was deleted" if fence is None else "it was closed" if not fence else "a later session holds the run"
    raise FencedError(
        f"the session of run {session.root_run_id} (incarnation {session.incarnation}) may not write: {why}"
    )


def check_batch(batch: Batch, head: int, fork_seq: int) -> None:
    """Raise PositionError unless rows follow the head, and snapshot and marks lie where they can."""
    expected = head
    for row in batch.rows:
        expected += 1
        if row.seq != expected:
            raise PositionError(
                f"run {batch.session.root_run_id}, branch {batch.session.branch}: row {row.seq} cannot follow "
                f"{expected - 1}; the next position is {expected}"
            )
    snapshot = batch.snapshot
    if snapshot is not None and not fork_seq <= snapshot.seq <= expected:
        raise PositionError(f"a snapshot at {snapshot.seq} is not between {fork_seq} and the head, {expected}")
    for mark in batch.marks:
        if not 0 <= mark.seq <= expected:
            raise PositionError(f"mark {mark.id} at {mark.seq} lies beyond the head, {expected}")


def changed_at(batch: Batch) -> int:
    """The newest time in a batch, 0 when it has none."""
    times = [row.at_us for row in batch.rows[-1:]] + [mark.at_us for mark in batch.marks]
    return max(times, default=0)


def own_marks(batch: Batch) -> tuple[Mark, ...]:
    """The batch's marks, said to be of its session's run and branch."""
    session = batch.session
    return tuple(
        msgspec.structs.replace(mark, branch=session.branch, root_run_id=session.root_run_id) for mark in batch.marks
    )


def no_run(root_run_id: str) -> StorageError:
    return StorageError(f"there is no run {root_run_id} in this store")


def no_branch(root_run_id: str, branch: str, known: Iterable[str] = ()) -> StorageError:
    return StorageError(f"run {root_run_id} has no branch {branch!r}; it has: {', '.join(known) or 'none'}")


def no_blob(digest: str) -> StorageError:
    return StorageError(f"there is no stored value {digest}")


def store_closed(what: str) -> ClosedError:
    return ClosedError(f"{what} was closed; make a new one")


def lineage(branches: Mapping[str, BranchInfo], branch: str, upto: int | None = None) -> list[Segment]:
    """The stretches that make up a branch, oldest first."""
    segments: list[Segment] = []
    name: str | None = branch
    while name is not None:
        info = branches[name]
        segments.append(Segment(name, info.fork_seq, upto))
        upto = info.fork_seq if upto is None else min(upto, info.fork_seq)
        name = info.parent
    segments.reverse()
    return segments


def reading(segments: Iterable[Segment], after: int) -> list[Segment]:
    """The stretches that hold rows after a position."""
    clipped = [Segment(branch, max(low, after), high) for branch, low, high in segments]
    return [segment for segment in clipped if segment.upto is None or segment.after < segment.upto]


def basis(segments: Sequence[Segment], snapshots: Mapping[str, Sequence[int]]) -> tuple[str, int] | None:
    """The branch and position of the newest snapshot on a lineage. A branch's own wins over its parent's."""
    for branch, _, upto in reversed(segments):
        found = [seq for seq in snapshots.get(branch, ()) if upto is None or seq <= upto]
        if found:
            return branch, max(found)
    return None


def needed(segments: Sequence[Segment], snapshots: Mapping[str, Sequence[int]]) -> list[Segment]:
    """The rows that a restore at the end of a lineage reads: those after its newest snapshot."""
    base = basis(segments, snapshots)
    return reading(segments, base[1] if base else 0)


def check_fork(root_run_id: str, branches: Mapping[str, BranchInfo], branch: str, parent: str, at_seq: int) -> None:
    """Raise StorageError if the name is taken, the parent unknown, or the position not on it."""
    if not branches:
        raise no_run(root_run_id)
    if branch in branches:
        raise StorageError(f"run {root_run_id} has a branch {branch!r} already; choose another name")
    if parent not in branches:
        raise no_branch(root_run_id, parent, branches)
    head = branches[parent].head
    if not 0 <= at_seq <= head:
        raise StorageError(f"position {at_seq} is not on branch {parent!r} of run {root_run_id}: it ends at {head}")


def check_restorable(root_run_id: str, at_seq: int, wanted: int, found: int) -> None:
    """Raise StorageError when rows that a restore would read were pruned."""
    if wanted != found:
        raise StorageError(
            f"position {at_seq} of run {root_run_id} cannot be restored any more: rows before it were pruned"
        )


def plan_prune(
    branches: Mapping[str, BranchInfo],
    snapshots: Mapping[str, Sequence[int]],
    marks: Sequence[Mark],
    keep_marks: Iterable[str],
) -> Plan:
    """Find what no kept mark, no head and no fork point needs to be restored."""
    keep = set(keep_marks)
    places = {(mark.branch, mark.seq) for mark in marks if mark.id in keep}
    places |= {(branch.name, branch.head) for branch in branches.values()}
    places |= {(branch.parent, branch.fork_seq) for branch in branches.values() if branch.parent is not None}
    kept_rows: dict[str, list[tuple[int, int]]] = {name: [] for name in branches}
    kept_snapshots: set[tuple[str, int]] = set()
    for branch, seq in places:
        segments = lineage(branches, branch, seq)
        if base := basis(segments, snapshots):
            kept_snapshots.add(base)
        for name, after, upto in needed(segments, snapshots):
            kept_rows[name].append((after, branches[name].head if upto is None else upto))
    return Plan(
        rows=[
            (name, first, last)
            for name, kept in kept_rows.items()
            for first, last in _gaps(kept, branches[name].fork_seq, branches[name].head)
        ],
        snapshots=[
            (name, seq) for name, seqs in snapshots.items() for seq in seqs if (name, seq) not in kept_snapshots
        ],
        marks=[mark.id for mark in marks if mark.id not in keep],
        parents=_new_parents(marks, keep),
    )


def _gaps(kept: list[tuple[int, int]], after: int, upto: int) -> list[tuple[int, int]]:
    """What of `after < seq <= upto` is in none of the kept stretches, as (first, last)."""
    gaps: list[tuple[int, int]] = []
    for low, high in sorted(kept):
        if low > after:
            gaps.append((after + 1, low))
        after = max(after, high)
    if after < upto:
        gaps.append((after + 1, upto))
    return gaps


def _new_parents(marks: Sequence[Mark], keep: set[str]) -> dict[str, str | None]:
    parents = {mark.id: mark.parent_id for mark in marks}
    changed: dict[str, str | None] = {}
    for mark in marks:
        parent = mark.parent_id
        while parent in parents and parent not in keep:
            parent = parents[parent]
        if mark.id in keep and parent != mark.parent_id:
            changed[mark.id] = parent
    return changed
