"""From a journal to a document."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from holdfast.checkpoints._document import Document, digest_of, encode_document
from holdfast.checkpoints._owner import Owner
from holdfast.checkpoints._restore import taken_last
from holdfast.errors import CorruptStoreError, StorageError
from holdfast.ports import BranchInfo, JournalStore, Mark, Row, RunInfo, Snapshot

_BLOB = re.compile(rb'"\$blob(?:\+json)?"\s*:\s*"([0-9a-f]{64})"')  # as `BlobWriter` names them
_NOBODY = Owner("", 0, "")


async def export_checkpoint(store: JournalStore, checkpoint: str, *, branch: str | None = None) -> bytes:
    """All that a checkpoint stands on, as one document: a mark's id, or a run's id for its head, on a branch that may be named.
    Holds all of it in memory.

    Raises StorageError if there is no such checkpoint, or rows that it needs were pruned.
    """
    mark = await store.mark(checkpoint)
    info = await store.run(mark.root_run_id if mark else checkpoint)
    if info is None:
        raise StorageError(
            f"no checkpoint and no run is called {checkpoint!r}; the store's runs() and marks() say what there is"
        )
    known = {branch.name: branch for branch in await store.branches(info.root_run_id)}
    latest = _latest(info, known.values()) if branch is None else known[branch]
    if mark is None:
        mark = await _head_mark(store, info, latest)
    branches = _lineage(known, mark)
    snapshot, owner = await _snapshot(store, mark, branches)
    rows = await _rows(store, mark, snapshot)
    at_head = (latest.name, latest.head) == (mark.branch, mark.seq)
    status = info.status if at_head else "running"  # whatever became of the run later
    info = replace(info, status=status, updated_us=mark.at_us, definition=_unowned(info.definition))
    blobs = await _blobs(store, info, snapshot, rows)
    return encode_document(Document(mark, info, branches, rows, blobs, snapshot, owner))


def _latest(info: RunInfo, branches: Iterable[BranchInfo]) -> BranchInfo:
    """The branch a run's id stands for. Whoever is at a run has begun one, though nothing may be stored there yet."""
    return max(branches, key=lambda branch: branch.created_us) if info.held_until_us else taken_last(branches)


async def _head_mark(store: JournalStore, info: RunInfo, branch: BranchInfo) -> Mark:
    """The newest mark at the head; where there is none, one that is the same each time it is asked for."""
    root, seq = info.root_run_id, branch.head
    marks = [mark for mark in await store.marks(root) if mark.branch == branch.name]
    for mark in marks:
        if mark.seq == seq:
            return mark
    made = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{root} {branch.name} {seq}"))
    return Mark(made, seq, info.updated_us, "manual", branch.name, root, marks[0].id if marks else None)


def _lineage(known: dict[str, BranchInfo], mark: Mark) -> tuple[BranchInfo, ...]:
    """The branches the mark stands on, without those that began only after the position where they were left."""
    branches: list[BranchInfo] = []
    upto, name = mark.seq, mark.branch
    while True:
        branch = known[name]
        if branch.fork_seq <= upto or branch.parent is None:
            branches.append(replace(branch, head=upto))
            upto = branch.fork_seq
        if branch.parent is None:
            break
        upto, name = min(upto, branch.fork_seq), branch.parent
    branches.reverse()
    parents = [None, *(branch.name for branch in branches)]
    return tuple(replace(branch, parent=parent) for branch, parent in zip(branches, parents, strict=False))


async def _snapshot(store: JournalStore, mark: Mark, branches: tuple[BranchInfo, ...]) -> tuple[Snapshot | None, str]:
    """The snapshot a restore begins with, and whose it is: a branch may have one of its own where it left its parent."""
    found = await store.last_snapshot(mark.root_run_id, branch=mark.branch, upto=mark.seq)
    if found is None:
        return None, ""
    index = len(branches) - 1
    while index and found.seq <= branches[index].fork_seq:
        upto = branches[index].fork_seq
        if await store.last_snapshot(mark.root_run_id, branch=branches[index - 1].name, upto=upto) != found:
            break
        index -= 1
    return found, branches[index].name


async def _rows(store: JournalStore, mark: Mark, snapshot: Snapshot | None) -> tuple[Row, ...]:
    """The rows up to the mark, from the last gap on."""
    rows: list[Row] = []
    async for row in store.read(mark.root_run_id, branch=mark.branch, upto=mark.seq):
        if rows and row.seq != rows[-1].seq + 1:
            rows.clear()
        rows.append(row)
    if not rows or rows[-1].seq != mark.seq:
        rows.clear()
    first = rows[0].seq if rows else mark.seq + 1
    if first > (snapshot.seq if snapshot else 0) + 1:
        raise StorageError(f"checkpoint {mark.id} cannot be restored any more: rows before it were pruned")
    return tuple(rows)


def _unowned(definition: bytes) -> bytes:
    """A document says nothing of the process that held the run: wherever it goes, nobody does."""
    try:
        plain = msgspec.json.decode(definition)
    except ValueError:
        return definition
    if isinstance(plain, dict) and "owner" in plain:
        return msgspec.json.encode(plain | {"owner": _NOBODY})
    return definition


async def _blobs(
    store: JournalStore, info: RunInfo, snapshot: Snapshot | None, rows: Iterable[Row]
) -> dict[str, bytes]:
    """The large values that are named by their hashes. Raises StorageError if one is gone, CorruptStoreError if it is damaged."""
    places = [info.definition, snapshot.data if snapshot else b""]
    places += [part for row in rows for part in (row.payload, row.delta or b"")]
    digests = sorted({found.decode() for place in places for found in _BLOB.findall(place)})
    blobs = {digest: await store.blob(digest) for digest in digests}
    for digest, value in blobs.items():
        if digest_of(value) != digest:
            raise CorruptStoreError(f"the stored value {digest} does not have the content that its hash says")
    return blobs
