"""`MemoryStore`: journals that end with the process. For tests, and for runs whose checkpoints are files."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from holdfast.ports import Batch, BranchInfo, Mark, Row, RunInfo, Session, Snapshot
from holdfast.stores import _rules as rules
from holdfast.stores._closing import Closing


class _Branch:
    """A branch: what is known of it, and what was written on it alone."""

    def __init__(self, info: BranchInfo) -> None:
        self.info = info
        self.rows: dict[int, Row] = {}
        self.snapshots: dict[int, Snapshot] = {}


class _Journal:
    """All of one root run."""

    def __init__(self, info: RunInfo) -> None:
        self.info = info
        self.owner = ""
        self.fence = 0
        self.branches: dict[str, _Branch] = {}
        self.digests: set[str] = set()
        self.changed = 0

    def infos(self) -> dict[str, BranchInfo]:
        return {name: branch.info for name, branch in self.branches.items()}

    def positions(self) -> dict[str, list[int]]:
        return {name: list(branch.snapshots) for name, branch in self.branches.items()}

    def size(self) -> int:
        rows = (row for branch in self.branches.values() for row in branch.rows.values())
        snapshots = (snapshot for branch in self.branches.values() for snapshot in branch.snapshots.values())
        return sum(len(row.payload) + len(row.delta or b"") for row in rows) + sum(len(s.data) for s in snapshots)

    def mentions(self, digest: bytes) -> bool:
        if digest in self.info.definition:
            return True
        return any(
            digest in data
            for branch in self.branches.values()
            for data in (
                *(snapshot.data for snapshot in branch.snapshots.values()),
                *(part for row in branch.rows.values() for part in (row.payload, row.delta or b"")),
            )
        )


class MemoryStore(Closing):
    """Journals in this process' memory. One lock, no copies: what is stored is frozen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._journals: dict[str, _Journal] = {}
        self._blobs: dict[str, bytes] = {}
        self._marks: dict[str, Mark] = {}
        self._fence = 0
        self._changes = 0
        self._closed = False

    # -- writing ---------------------------------------------------------------------------------------------------

    async def open(
        self, info: RunInfo, *, branch: str = "main", owner: str, now_us: int, hold_until_us: int
    ) -> Session:
        return self.open_now(info, branch=branch, owner=owner, now_us=now_us, hold_until_us=hold_until_us)

    def open_now(self, info: RunInfo, *, branch: str = "main", owner: str, now_us: int, hold_until_us: int) -> Session:
        with self._lock:
            self._check_open()
            journal = self._journals.get(info.root_run_id)
            if journal is None:
                journal = self._new(info, branch, now_us)
            else:
                rules.check_free(info.root_run_id, owner, journal.owner, journal.info.held_until_us, now_us)
                if branch not in journal.branches:
                    raise rules.no_branch(info.root_run_id, branch, journal.branches)
            self._fence += 1
            journal.fence, journal.owner = self._fence, owner
            journal.info = msgspec.structs.replace(
                info,
                incarnation=journal.info.incarnation + 1,
                created_us=journal.info.created_us,
                updated_us=now_us,
                held_until_us=hold_until_us,
            )
            self._touch(journal)
            head = journal.branches[branch].info.head
            return Session(info.root_run_id, branch, journal.info.incarnation, self._fence, head)

    def _new(self, info: RunInfo, branch: str, now_us: int) -> _Journal:
        if branch != rules.MAIN:
            raise rules.no_branch(info.root_run_id, branch)
        journal = _Journal(msgspec.structs.replace(info, incarnation=0))
        journal.branches[rules.MAIN] = _Branch(BranchInfo(rules.MAIN, None, 0, 0, now_us))
        self._journals[info.root_run_id] = journal
        return journal

    async def append(self, batch: Batch) -> None:
        self.append_now(batch)

    def expect(self, session: Session, event_ids: Sequence[str]) -> None: ...

    def append_at_once(self, batch: Batch) -> bool:
        self.append_now(batch)
        return True

    def append_now(self, batch: Batch) -> None:
        with self._lock:
            self._check_open()
            session = batch.session
            journal = self._journals.get(session.root_run_id)
            rules.check_fence(session, journal.fence if journal else None)
            assert journal is not None
            branch = journal.branches[session.branch]
            rules.check_batch(batch, branch.info.head, branch.info.fork_seq)
            self._write(journal, branch, batch)

    def _write(self, journal: _Journal, branch: _Branch, batch: Batch) -> None:
        branch.rows.update((row.seq, row) for row in batch.rows)
        branch.info = msgspec.structs.replace(branch.info, head=branch.info.head + len(batch.rows))
        for digest, data in batch.blobs:
            self._blobs.setdefault(digest, data)
            journal.digests.add(digest)
        if batch.snapshot is not None:
            branch.snapshots[batch.snapshot.seq] = batch.snapshot
        self._marks.update((mark.id, mark) for mark in rules.own_marks(batch))
        info = journal.info
        journal.info = msgspec.structs.replace(
            info,
            status=batch.status or info.status,
            updated_us=max(info.updated_us, rules.changed_at(batch)),
            held_until_us=info.held_until_us if batch.hold_until_us is None else batch.hold_until_us,
        )
        if batch.hold_until_us == 0:
            journal.fence, journal.owner = 0, ""
        self._touch(journal)

    def _touch(self, journal: _Journal) -> None:
        self._changes += 1
        journal.changed = self._changes

    async def close_session(self, session: Session) -> None:
        self.close_session_now(session)

    def close_session_now(self, session: Session) -> None:
        with self._lock:
            self._check_open()
            journal = self._journals.get(session.root_run_id)
            if journal is not None and journal.fence == session.fence:
                journal.fence, journal.owner = 0, ""
                journal.info = msgspec.structs.replace(journal.info, held_until_us=0)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def run(self, root_run_id: str) -> RunInfo | None:
        with self._lock:
            self._check_open()
            journal = self._journals.get(root_run_id)
            return journal.info if journal else None

    async def runs(self, *, status: str | None = None, limit: int = 100) -> list[RunInfo]:
        with self._lock:
            self._check_open()
            found = [j for j in self._journals.values() if status is None or j.info.status == status]
            found.sort(key=lambda journal: (journal.info.updated_us, journal.changed), reverse=True)
            return [journal.info for journal in found[:limit]]

    async def read(
        self, root_run_id: str, *, branch: str = "main", after: int = 0, upto: int | None = None
    ) -> AsyncIterator[Row]:
        for segment in rules.reading(self._lineage(root_run_id, branch, upto), after):
            while page := self._page(root_run_id, segment):
                for row in page:
                    yield row
                segment = segment._replace(after=page[-1].seq)

    def _lineage(self, root_run_id: str, branch: str, upto: int | None) -> list[rules.Segment]:
        with self._lock:
            self._check_open()
            journal = self._known(root_run_id)
            if branch not in journal.branches:
                raise rules.no_branch(root_run_id, branch, journal.branches)
            return rules.lineage(journal.infos(), branch, upto)

    def _page(self, root_run_id: str, segment: rules.Segment) -> list[Row]:
        with self._lock:
            journal = self._journals.get(root_run_id)
            if journal is None:
                return []
            branch = journal.branches[segment.branch]
            last = branch.info.head if segment.upto is None else min(segment.upto, branch.info.head)
            found: list[Row] = []
            for seq in range(segment.after + 1, last + 1):
                if row := branch.rows.get(seq):
                    found.append(row)
                if len(found) == rules.PAGE_ROWS:
                    break
            return found

    def rows_now(self, root_run_id: str) -> list[Row]:
        """What was written on the branch that a run took last; nothing of one that is not there."""
        with self._lock:
            journal = self._journals.get(root_run_id)
            return [*[*journal.branches.values()][-1].rows.values()] if journal else []

    async def last_snapshot(
        self, root_run_id: str, *, branch: str = "main", upto: int | None = None
    ) -> Snapshot | None:
        segments = self._lineage(root_run_id, branch, upto)
        with self._lock:
            journal = self._known(root_run_id)
            base = rules.basis(segments, journal.positions())
            return journal.branches[base[0]].snapshots[base[1]] if base else None

    async def blob(self, digest: str) -> bytes:
        return self.blob_now(digest)

    def blob_now(self, digest: str) -> bytes:
        with self._lock:
            self._check_open()
            if digest not in self._blobs:
                raise rules.no_blob(digest)
            return self._blobs[digest]

    async def marks(self, root_run_id: str | None = None, *, limit: int = 1000) -> list[Mark]:
        with self._lock:
            self._check_open()
            found = self._marks_of(root_run_id)
            found.reverse()  # of equal times the later written comes first
            found.sort(key=lambda mark: mark.at_us, reverse=True)
            return found[:limit]

    def _marks_of(self, root_run_id: str | None) -> list[Mark]:
        return [mark for mark in self._marks.values() if root_run_id in (None, mark.root_run_id)]

    async def mark(self, mark_id: str) -> Mark | None:
        with self._lock:
            self._check_open()
            return self._marks.get(mark_id)

    async def branches(self, root_run_id: str) -> list[BranchInfo]:
        with self._lock:
            self._check_open()
            journal = self._journals.get(root_run_id)
            return list(journal.infos().values()) if journal else []

    async def size(self, root_run_id: str) -> int:
        with self._lock:
            self._check_open()
            journal = self._journals.get(root_run_id)
            if journal is None:
                return 0
            return journal.size() + sum(len(self._blobs[digest]) for digest in journal.digests)

    # -- changing shape --------------------------------------------------------------------------------------------

    async def fork(self, root_run_id: str, *, branch: str, parent: str, at_seq: int, now_us: int) -> BranchInfo:
        with self._lock:
            self._check_open()
            journal = self._known(root_run_id)
            rules.check_fork(root_run_id, journal.infos(), branch, parent, at_seq)
            for name, after, upto in rules.needed(rules.lineage(journal.infos(), parent, at_seq), journal.positions()):
                assert upto is not None
                found = sum(1 for seq in range(after + 1, upto + 1) if seq in journal.branches[name].rows)
                rules.check_restorable(root_run_id, at_seq, upto - after, found)
            info = BranchInfo(branch, parent, at_seq, at_seq, now_us)
            journal.branches[branch] = _Branch(info)
            return info

    async def prune(self, root_run_id: str, *, keep_marks: Iterable[str]) -> int:
        with self._lock:
            self._check_open()
            journal = self._known(root_run_id)
            marks = self._marks_of(root_run_id)
            plan = rules.plan_prune(journal.infos(), journal.positions(), marks, keep_marks)
            freed = 0
            for name, first, last in plan.rows:
                for seq in range(first, last + 1):
                    if row := journal.branches[name].rows.pop(seq, None):
                        freed += len(row.payload) + len(row.delta or b"")
            for name, seq in plan.snapshots:
                freed += len(journal.branches[name].snapshots.pop(seq).data)
            for mark_id in plan.marks:
                del self._marks[mark_id]
            for mark_id, parent in plan.parents.items():
                self._marks[mark_id] = msgspec.structs.replace(self._marks[mark_id], parent_id=parent)
            unused = {digest for digest in journal.digests if not journal.mentions(digest.encode())}
            return freed + self._drop_blobs(journal, unused)

    def _drop_blobs(self, journal: _Journal, unused: set[str]) -> int:
        journal.digests -= unused
        elsewhere: dict[str, bool] = defaultdict(bool)
        for other in self._journals.values():
            elsewhere.update(dict.fromkeys(other.digests & unused, True))
        return sum(len(self._blobs.pop(digest, b"")) for digest in unused if not elsewhere[digest])

    async def delete(self, root_run_id: str, *, now_us: int) -> None:
        with self._lock:
            self._check_open()
            journal = self._journals.get(root_run_id)
            if journal is None:
                return
            rules.check_free(root_run_id, "", journal.owner, journal.info.held_until_us, now_us)
            del self._journals[root_run_id]
            for mark in self._marks_of(root_run_id):
                del self._marks[mark.id]
            self._drop_blobs(journal, set(journal.digests))

    def _known(self, root_run_id: str) -> _Journal:
        journal = self._journals.get(root_run_id)
        if journal is None:
            raise rules.no_run(root_run_id)
        return journal

    def _check_open(self) -> None:
        if self._closed:
            raise rules.store_closed("this store")

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        with self._lock:
            self._journals.clear()
            self._marks.clear()
            self._blobs.clear()
