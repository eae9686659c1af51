"""Branches, prune, delete."""

from __future__ import annotations

import pytest

from holdfast.errors import PositionError, RunBusyError, StorageError
from holdfast.ports import Batch, BranchInfo, JournalStore, Session, Snapshot
from holdfast.testing._journal_base import (
    NOW,
    SECOND,
    JournalSuite,
    make_info,
    make_mark,
    make_row,
    make_rows,
    open_run,
    positions,
    written,
)


async def fork_and_open(
    store: JournalStore, session: Session, branch: str, at_seq: int, parent: str = "main"
) -> Session:
    await store.fork(session.root_run_id, branch=branch, parent=parent, at_seq=at_seq, now_us=NOW)
    return await open_run(store, make_info(session.root_run_id), branch=branch)


class ShapeConformance(JournalSuite):
    """What changes the shape of a journal."""

    async def test_s1_16_a_fork_shares_everything_up_to_its_position(self) -> None:
        async with self.opened() as store:
            main = await open_run(store)
            root = main.root_run_id
            rows = make_rows(1, 5)
            await store.append(Batch(main, rows))
            forked = await store.fork(root, branch="b", parent="main", at_seq=3, now_us=NOW + 7)
            assert forked == BranchInfo("b", "main", 3, 3, NOW + 7)
            session = await open_run(store, make_info(root), branch="b")
            assert (session.branch, session.head) == ("b", 3)
            await store.append(written(session, 4, 6))
            on_branch = [row async for row in store.read(root, branch="b")]
            assert on_branch[:3] == list(rows[:3])
            assert [row.seq for row in on_branch] == [1, 2, 3, 4, 5, 6]
            assert on_branch[3] != rows[3]
            assert [row async for row in store.read(root)] == list(rows)
            assert await store.branches(root) == [
                BranchInfo("main", None, 0, 5, NOW),
                BranchInfo("b", "main", 3, 6, NOW + 7),
            ]

    async def test_s1_16_a_fork_of_a_fork_reads_through_both_parents(self) -> None:
        async with self.opened() as store:
            main = await open_run(store)
            await store.append(Batch(main, make_rows(1, 10, type="main")))
            b = await fork_and_open(store, main, "b", 6)
            await store.append(Batch(b, make_rows(7, 12, type="b")))
            c = await fork_and_open(store, main, "c", 9, parent="b")
            await store.append(Batch(c, make_rows(10, 11, type="c")))
            d = await fork_and_open(store, main, "d", 4, parent="c")  # a position that c has from main
            await store.append(Batch(d, make_rows(5, 5, type="d")))
            kinds = {
                name: [(row.seq, row.type) async for row in store.read(main.root_run_id, branch=name)] for name in "cd"
            }
            assert kinds["c"] == [
                *((n, "main") for n in range(1, 7)),
                *((n, "b") for n in (7, 8, 9)),
                (10, "c"),
                (11, "c"),
            ]
            assert kinds["d"] == [*((n, "main") for n in range(1, 5)), (5, "d")]
            assert await positions(store, main, branch="c", after=5, upto=10) == [6, 7, 8, 9, 10]

    async def test_s1_16_forks_that_cannot_be_are_refused(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            root = session.root_run_id
            await store.append(written(session, 1, 5))
            await store.fork(root, branch="b", parent="main", at_seq=0, now_us=NOW)
            for branch, parent, at_seq in (("b", "main", 3), ("main", "b", 0), ("c", "main", 6), ("c", "none", 1)):
                with pytest.raises(StorageError):
                    await store.fork(root, branch=branch, parent=parent, at_seq=at_seq, now_us=NOW)
            with pytest.raises(StorageError):
                await store.fork(root, branch="c", parent="main", at_seq=-1, now_us=NOW)
            with pytest.raises(StorageError):
                await store.fork("none", branch="c", parent="main", at_seq=0, now_us=NOW)
            assert [branch.name for branch in await store.branches(root)] == ["main", "b"]

    async def test_s1_16_snapshots_are_found_across_branches(self) -> None:
        async with self.opened() as store:
            main = await open_run(store)
            root = main.root_run_id
            await store.append(written(main, 1, 9, snapshot=Snapshot(4, b"main 4")))
            await store.append(Batch(main, snapshot=Snapshot(8, b"main 8")))
            b = await fork_and_open(store, main, "b", 6)
            assert await store.last_snapshot(root, branch="b") == Snapshot(4, b"main 4")
            with pytest.raises(PositionError):
                await store.append(Batch(b, snapshot=Snapshot(5, b"not its own")))
            await store.append(Batch(b, snapshot=Snapshot(6, b"b 6, edited")))
            await store.append(written(b, 7, 9, snapshot=Snapshot(9, b"b 9")))
            assert await store.last_snapshot(root, branch="b") == Snapshot(9, b"b 9")
            assert await store.last_snapshot(root, branch="b", upto=8) == Snapshot(6, b"b 6, edited")
            assert await store.last_snapshot(root, branch="b", upto=5) == Snapshot(4, b"main 4")
            assert await store.last_snapshot(root, upto=7) == Snapshot(4, b"main 4")
            await store.fork(root, branch="c", parent="b", at_seq=8, now_us=NOW)
            assert await store.last_snapshot(root, branch="c") == Snapshot(6, b"b 6, edited")

    async def test_s1_16_a_session_on_one_branch_is_fenced_by_one_on_another(self) -> None:
        async with self.opened() as store:
            main = await open_run(store)
            await store.append(written(main, 1, 2))
            b = await fork_and_open(store, main, "b", 1)
            with pytest.raises(StorageError):
                await store.append(written(main, 3, 3))
            await store.append(written(b, 2, 2))

    async def test_prune_without_a_snapshot_drops_marks_only(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            marks = tuple(make_mark(seq) for seq in (2, 4))
            await store.append(written(session, 1, 5, marks=marks))
            assert await store.prune(session.root_run_id, keep_marks=[marks[1].id]) == 0
            assert [mark.id for mark in await store.marks()] == [marks[1].id]
            assert await positions(store, session) == [1, 2, 3, 4, 5]

    async def test_prune_keeps_what_the_head_and_kept_marks_are_restored_from(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            root = session.root_run_id
            for snapshot in (3, 6, 9, 12):
                await store.append(
                    Batch(
                        session,
                        make_rows(snapshot - 2, snapshot, payload=b"p" * 10, delta=b"d" * 5),
                        snapshot=Snapshot(snapshot, b"s" * 100),
                    )
                )
            await store.append(written(session, 13, 14))
            kept = make_mark(7)
            await store.append(Batch(session, marks=(kept, make_mark(2))))
            freed = await store.prune(root, keep_marks=[kept.id, "unknown"])
            assert await positions(store, session) == [7, 13, 14]
            assert await store.last_snapshot(root, upto=7) == Snapshot(6, b"s" * 100)
            assert await store.last_snapshot(root) == Snapshot(12, b"s" * 100)
            assert await store.last_snapshot(root, upto=5) is None
            assert freed == 11 * 15 + 2 * 100
            assert [mark.id for mark in await store.marks()] == [kept.id]
            assert await store.prune(root, keep_marks=[kept.id]) == 0

    async def test_a_run_goes_on_after_all_its_rows_were_pruned(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            root = session.root_run_id
            await store.append(written(session, 1, 6, snapshot=Snapshot(6, b"six")))
            await store.prune(root, keep_marks=[])
            assert await positions(store, session) == []
            with pytest.raises(PositionError):
                await store.append(written(session, 1, 1))
            await store.append(written(session, 7, 7))
            assert (await open_run(store, make_info(root))).head == 7
            assert (await store.branches(root))[0].head == 7

    async def test_s1_16_prune_never_orphans_a_branch(self) -> None:
        async with self.opened() as store:
            main = await open_run(store)
            root = main.root_run_id
            await store.append(written(main, 1, 4, snapshot=Snapshot(4, b"main 4")))
            b = await fork_and_open(store, main, "b", 6 - 1 - 1)
            await store.append(written(b, 5, 7))
            again = await open_run(store, make_info(root))
            await store.append(written(again, 5, 8, snapshot=Snapshot(8, b"main 8")))
            await fork_and_open(store, main, "c", 6, parent="b")
            await store.prune(root, keep_marks=[])
            assert await positions(store, root) == []
            assert await store.last_snapshot(root) == Snapshot(8, b"main 8")
            assert await store.last_snapshot(root, branch="b") == Snapshot(4, b"main 4")
            assert await positions(store, root, branch="b") == [5, 6, 7]
            assert await store.last_snapshot(root, branch="c") == Snapshot(4, b"main 4")
            assert await positions(store, root, branch="c") == [5, 6]

    async def test_prune_keeps_the_point_where_a_branch_left_its_parent(self) -> None:
        async with self.opened() as store:
            main = await open_run(store)
            root = main.root_run_id
            await store.append(written(main, 1, 6))
            b = await fork_and_open(store, main, "b", 3)
            await store.append(written(b, 4, 5, snapshot=Snapshot(5, b"b 5")))
            again = await open_run(store, make_info(root))
            await store.append(Batch(again, snapshot=Snapshot(6, b"main 6")))
            await store.prune(root, keep_marks=[])
            assert await positions(store, root) == [1, 2, 3]
            assert await positions(store, root, branch="b") == [1, 2, 3]
            await store.fork(root, branch="c", parent="b", at_seq=3, now_us=NOW)
            with pytest.raises(StorageError, match="pruned"):
                await store.fork(root, branch="d", parent="main", at_seq=5, now_us=NOW)

    async def test_marks_that_stay_follow_the_nearest_that_stays(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            ids = [f"mark {n}" for n in range(4)]
            marks = tuple(make_mark(n + 1, id=ids[n], parent_id=ids[n - 1] if n else None) for n in range(4))
            await store.append(written(session, 1, 4, marks=marks))
            await store.prune(session.root_run_id, keep_marks=[ids[0], ids[3]])
            assert [(mark.id, mark.parent_id) for mark in await store.marks()] == [(ids[3], ids[0]), (ids[0], None)]

    async def test_prune_drops_values_that_nothing_mentions_and_no_other_run_uses(self) -> None:
        async with self.opened() as store:
            session, other = await open_run(store), await open_run(store)
            old, new, shared, kept = (letter * 64 for letter in "abcd")
            blobs = tuple((digest, digest.encode()) for digest in (old, new, shared, kept))
            rows = (
                make_row(1, payload=b'{"$blob":"%s"}' % old.encode(), delta=b'["%s"]' % shared.encode()),
                make_row(2, delta=b'[{"$blob":"%s"}]' % new.encode()),
            )
            await store.append(Batch(session, rows, blobs, Snapshot(1, b'["%s"]' % kept.encode())))
            await store.append(Batch(other, (make_row(1),), ((shared, b"x"),)))
            assert await store.prune(session.root_run_id, keep_marks=[]) == len(rows[0].payload) + len(
                rows[0].delta or b""
            ) + len(old)
            for digest in (new, shared, kept):
                assert await store.blob(digest) == digest.encode()
            with pytest.raises(StorageError):
                await store.blob(old)

    async def test_pruning_what_is_not_there_is_an_error(self) -> None:
        async with self.opened() as store:
            with pytest.raises(StorageError):
                await store.prune("none", keep_marks=[])

    async def test_deleting_forgets_a_run_and_leaves_others(self) -> None:
        async with self.opened() as store:
            gone, stays = await open_run(store), await open_run(store)
            only, shared = "a" * 64, "b" * 64
            for session in (gone, stays):
                mark = make_mark(2)
                blobs = ((shared, b"both"),) + (((only, b"one"),) if session is gone else ())
                batch = written(session, 1, 3, blobs=blobs, snapshot=Snapshot(3, b"{}"), marks=(mark,))
                await store.append(batch)
            await store.fork(gone.root_run_id, branch="b", parent="main", at_seq=2, now_us=NOW)
            await store.close_session(gone)
            await store.delete(gone.root_run_id, now_us=NOW)
            await store.delete(gone.root_run_id, now_us=NOW)
            assert await store.run(gone.root_run_id) is None
            assert await store.branches(gone.root_run_id) == []
            assert {mark.root_run_id for mark in await store.marks()} == {stays.root_run_id}
            assert await store.blob(shared) == b"both"
            with pytest.raises(StorageError):
                await store.blob(only)
            assert await positions(store, stays) == [1, 2, 3]
            anew = await open_run(store, make_info(gone.root_run_id))
            assert (anew.incarnation, anew.head) == (1, 0)
            assert await store.last_snapshot(gone.root_run_id) is None

    async def test_a_held_run_is_not_deleted_until_its_hold_runs_out(self) -> None:
        async with self.opened() as store:
            session = await open_run(store, seconds=10)
            await store.append(written(session, 1, 1))
            with pytest.raises(RunBusyError):
                await store.delete(session.root_run_id, now_us=NOW + 10 * SECOND - 1)
            assert await positions(store, session) == [1]
            await store.delete(session.root_run_id, now_us=NOW + 10 * SECOND)

    async def test_the_size_of_a_run_is_that_of_its_rows_snapshots_and_large_values_on_every_branch(self) -> None:
        async with self.opened() as store:
            assert await store.size("none") == 0
            main = await open_run(store)
            assert await store.size(main.root_run_id) == 0
            rows = make_rows(1, 3, payload=b"p" * 10, delta=b"d" * 5)
            await store.append(Batch(main, rows, snapshot=Snapshot(3, b"s" * 100)))
            b = await fork_and_open(store, main, "b", 2)
            await store.append(Batch(b, make_rows(3, 3, payload=b"p" * 10), blobs=(("digest", b"v" * 1000),)))
            other = await open_run(store)
            await store.append(Batch(other, make_rows(1, 1, payload=b"p" * 7), blobs=(("digest", b"v" * 1000),)))
            assert await store.size(main.root_run_id) == 3 * 15 + 100 + 10 + 1000
            assert await store.size(other.root_run_id) == 7 + 1000
