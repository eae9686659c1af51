"""From a document into a journal."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checkpoints._document import Document, Part, decode_document
from holdfast.errors import FencedError, PositionError, RunBusyError, StorageError
from holdfast.ids import new_id
from holdfast.ports import Batch, JournalStore, Mark, Row, RunInfo, Snapshot

TRIES = 20
BATCH_ROWS = 2_000
MOST_FILLERS = 1_000_000
INCOMPLETE = "cancelled"  # until all of it is there, the run is one that nobody takes up


async def import_checkpoint(store: JournalStore, document: bytes, *, now_us: int, branch: str | None = None) -> Mark:
    """Put a document into a journal, and return the mark it can be resumed from.

    A run that the store does not know is made, held by nobody, with the status the document gives; what was running can be
    recovered. A known run gets what it lacks: the mark, rows that follow what it has, branches. With `branch` the mark goes to the
    beginning of a new branch of that name, so that a resume leaves all others as they are. The same document again changes nothing.
    What is half there after a crash is no checkpoint, and is completed by the next import.

    Raises CorruptStoreError or StorageError for a document that cannot be read, StorageError if the store's rows differ from it or
    the new branch is called like one it stands on, RunBusyError if it would add to a run that somebody holds.
    """
    found = decode_document(document)
    if branch is not None:
        found = found.on_branch(branch, now_us)
    for _ in range(TRIES):
        try:
            return await _place(store, found, now_us)
        except (FencedError, PositionError):
            continue  # another import of the same run came in between; look again at what is lacking
    raise RunBusyError(f"run {found.info.root_run_id} is being changed all the time; import the checkpoint later")


async def _place(store: JournalStore, document: Document, now_us: int) -> Mark:
    known = await store.run(document.info.root_run_id)
    if known is None:
        return await _create(store, document, now_us)
    return await _add(store, document, known, now_us)


class _Lack(Struct, frozen=True):
    """What the store lacks of one part of a document."""

    part: Part
    is_known: bool
    """whether the store has the branch"""
    rows: tuple[Row, ...]
    snapshot: Snapshot | None

    @property
    def is_something(self) -> bool:
        return bool(self.rows or self.snapshot or not self.is_known)


# -- a run that is new to the store --------------------------------------------------------------------------------------------


async def _create(store: JournalStore, document: Document, now_us: int) -> Mark:
    owners = _snapshot_owners(document)
    filled = _filled(document)
    lacks = [
        _Lack(part, False, _rows_of(filled, part), document.snapshot if part.branch.name in owners else None)
        for part in filled.parts()
    ]
    began = min(document.branches[0].created_us, now_us)
    writer = _Writer(store, document, replace(document.info, status=INCOMPLETE), began)
    await writer.write(lacks, document.info.status)
    if filled is not document:
        await store.prune(document.info.root_run_id, keep_marks=[document.mark.id])
    return document.mark


def _snapshot_owners(document: Document) -> set[str]:
    """The branches to give the document's snapshot. If nothing is left before it, all that reach it begin with it."""
    if document.snapshot is None or document.first == 1:
        return {document.snapshot_branch}
    seq = document.snapshot.seq
    return {part.branch.name for part in document.parts() if part.branch.fork_seq <= seq <= part.upto}


def _filled(document: Document) -> Document:
    """Rows follow one another from 1 on: stand-ins for those that were pruned, until the import prunes them again."""
    missing = document.first - 1
    if not missing:
        return document
    if missing > MOST_FILLERS:
        raise StorageError(
            f"checkpoint {document.mark.id} begins at position {missing}, too far on for a store that does not know its run"
        )
    root, at_us = document.info.root_run_id, document.info.created_us
    fillers = tuple(Row(seq, "pruned", f"pruned {seq}", at_us, root, b"{}") for seq in range(1, missing + 1))
    return replace(document, rows=fillers + document.rows)


def _rows_of(document: Document, part: Part, head: int | None = None) -> tuple[Row, ...]:
    """The document's rows of a part, after a head that the store has already."""
    after = part.branch.fork_seq if head is None else head
    return document.rows[max(after + 1 - document.first, 0) : max(part.upto + 1 - document.first, 0)]


# -- a run that the store knows ------------------------------------------------------------------------------------------------


async def _add(store: JournalStore, document: Document, known: RunInfo, now_us: int) -> Mark:
    mark = document.mark
    lacks = await _Comparison(store, document).lacks()
    if not any(lack.is_something for lack in lacks) and _is_there(await store.mark(mark.id), mark):
        return mark
    if known.held_until_us > now_us:
        raise RunBusyError(
            f"run {known.root_run_id} is held by a live process, so nothing can be added to it; wait until it ends"
        )
    moved = lacks[-1].is_known and lacks[-1].rows
    broken_off = known.status == INCOMPLETE and not await store.marks(known.root_run_id, limit=1)
    writer = _Writer(store, document, known, now_us)
    await writer.write(lacks, document.info.status if moved or broken_off else None)
    return mark


def _is_there(stored: Mark | None, mark: Mark) -> bool:
    place = (mark.root_run_id, mark.branch, mark.seq)
    return stored is not None and (stored.root_run_id, stored.branch, stored.seq) == place


class _Comparison:
    """A document beside what the store has of its run."""

    def __init__(self, store: JournalStore, document: Document) -> None:
        self._store = store
        self._document = document
        self._root = document.info.root_run_id

    async def lacks(self) -> list[_Lack]:
        """Raises StorageError if the two differ, or nothing shows that they do not."""
        heads = {branch.name: branch.head for branch in await self._store.branches(self._root)}
        shared = sum([await self._shared(part, heads) for part in self._document.parts()])
        if not shared and any(heads.values()) and self._document.mark.seq and not await self._has_snapshot():
            raise self._apart("the two have no row in common")
        lacks = [self._lack(part, heads.get(part.branch.name)) for part in self._document.parts()]
        await self._check_restorable(lacks[-1], heads)
        return lacks

    async def _shared(self, part: Part, heads: dict[str, int]) -> int:
        """How many rows of a part the store has. Raises StorageError if one is another."""
        if part.branch.name not in heads:
            return 0
        await self._check_snapshot(part)
        name, first = part.branch.name, self._document.first
        shared = 0
        async for row in self._store.read(self._root, branch=name, after=first - 1, upto=part.upto):
            if row.event_id != self._document.rows[row.seq - first].event_id:
                raise self._apart(f"row {row.seq} of branch {name!r} is another one")
            shared += 1
        return shared

    async def _check_snapshot(self, part: Part) -> None:
        """A branch that began with a changed state is the same only if it began with the same one."""
        document = self._document
        began = document.snapshot is not None and document.snapshot.seq == part.branch.fork_seq
        if began and document.snapshot_branch == part.branch.name and not await self._has_snapshot():
            raise self._apart(f"branch {part.branch.name!r} began with another state")

    async def _has_snapshot(self) -> bool:
        snapshot, branch = self._document.snapshot, self._document.snapshot_branch
        if snapshot is None or branch not in {found.name for found in await self._store.branches(self._root)}:
            return False
        return await self._store.last_snapshot(self._root, branch=branch, upto=snapshot.seq) == snapshot

    def _lack(self, part: Part, head: int | None) -> _Lack:
        document, after = self._document, part.branch.fork_seq if head is None else head
        rows = _rows_of(document, part, head)
        if len(rows) < part.upto - after:
            raise self._apart(
                f"branch {part.branch.name!r} ends at {after} here, and there it begins at {document.first}"
            )
        is_new = head is None or (document.snapshot is not None and head < document.snapshot.seq)
        snapshot = document.snapshot if is_new and document.snapshot_branch == part.branch.name else None
        return _Lack(part, head is not None, rows, snapshot)

    async def _check_restorable(self, last: _Lack, heads: dict[str, int]) -> None:
        """A mark needs its rows here too. (`fork` sees to that for a new branch.)"""
        if not last.is_known:
            return
        name = last.part.branch.name
        upto = min(last.part.upto, heads[name])
        base = await self._store.last_snapshot(self._root, branch=name, upto=upto)
        after = base.seq if base else 0
        found = sum([1 async for _ in self._store.read(self._root, branch=name, after=after, upto=upto)])
        if found < upto - after:
            raise self._apart("rows that it needs were pruned here")

    def _apart(self, why: str) -> StorageError:
        return StorageError(
            f"checkpoint {self._document.mark.id} does not fit what this store has of run {self._root}: {why}. Nothing was "
            "changed. Import it into another store, or delete the run here first."
        )


# -- writing -------------------------------------------------------------------------------------------------------------------


class _Writer(Struct):
    """Adds what is lacking, branch by branch. The mark comes last, together with the last rows."""

    store: JournalStore
    document: Document
    info: RunInfo
    now_us: int

    async def write(self, lacks: list[_Lack], status: str | None) -> None:
        owner = f"import {new_id()}"
        for lack in lacks[:-1]:
            if lack.is_something:
                await self._append(lack, owner)
        await self._append(lacks[-1], owner, (self.document.mark,), status)

    async def _fork(self, lack: _Lack) -> None:
        branch = lack.part.branch
        if not lack.is_known and branch.parent is not None:
            await self.store.fork(
                self.info.root_run_id,
                branch=branch.name,
                parent=branch.parent,
                at_seq=branch.fork_seq,
                now_us=branch.created_us,
            )

    async def _append(self, lack: _Lack, owner: str, marks: tuple[Mark, ...] = (), status: str | None = None) -> None:
        await self._fork(lack)
        # held for no time at all: a writer that dies in the middle is in nobody's way, and the fence keeps two apart
        session = await self.store.open(
            self.info, branch=lack.part.branch.name, owner=owner, now_us=self.now_us, hold_until_us=0
        )
        try:
            for batch in self._batches(lack, Batch(session, marks=marks, status=status)):
                await self.store.append(batch)
        finally:
            await self.store.close_session(session)

    def _batches(self, lack: _Lack, last: Batch) -> Iterator[Batch]:
        blobs, rows = tuple(self.document.blobs.items()), lack.rows
        while len(rows) > BATCH_ROWS:
            yield Batch(last.session, rows[:BATCH_ROWS], blobs)
            blobs, rows = (), rows[BATCH_ROWS:]
        yield replace(last, rows=rows, blobs=blobs, snapshot=lack.snapshot)
