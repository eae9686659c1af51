"""What comes back."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.errors import StorageError
from holdfast.ids import new_id
from holdfast.ports import Batch, JournalStore, Mark, Origin, Snapshot
from holdfast.testing._journal_base import (
    NOW,
    SECOND,
    JournalSuite,
    make_info,
    make_mark,
    make_row,
    make_rows,
    marked,
    open_run,
    positions,
    written,
)

PLAIN_IDS = ("a-step", "", "ä", "018F0000-0000-7000-8000-00000000ABCD", "018f00000000700080000000abcdefff", "0" * 36)


def told(batch: Batch) -> list[Mark]:
    """The marks of a batch as they are read."""
    session = batch.session
    return [
        msgspec.structs.replace(mark, branch=session.branch, root_run_id=session.root_run_id) for mark in batch.marks
    ]


async def check_marks(store: JournalStore, root_run_id: str, expected: list[Mark]) -> None:
    """Just these are there, the oldest first, in whichever way they are asked for."""
    assert await store.marks(root_run_id) == expected[::-1]
    assert [mark for mark in await store.marks() if mark.root_run_id == root_run_id] == expected[::-1]
    assert [await store.mark(mark.id) for mark in expected] == expected


class ReadingConformance(JournalSuite):
    """Rows, snapshots, blobs, marks, lists."""

    async def test_s1_7_a_row_comes_back_as_it_was_with_every_column(self) -> None:
        full = make_row(
            1,
            payload=b'{"text":"\xc3\xa4\\u0000"}',
            delta=b"[]",
            parent_event_id=new_id(),
            triggered_by_event_id=new_id(),
            started_event_id=new_id(),
            origin=Origin("flow", new_id(), "Größe", new_id(), "write", new_id(), "writer"),
        )
        bare = make_row(2, payload=b"")
        async with self.opened() as store:
            session = await open_run(store)
            await store.append(Batch(session, (full, bare)))
            assert [row async for row in store.read(session.root_run_id)] == [full, bare]

    async def test_ids_need_not_be_uuids_and_keep_their_spelling(self) -> None:
        async with self.opened() as store:
            for plain in PLAIN_IDS:
                session = await open_run(store, make_info(f"run {plain}"))
                row = make_row(
                    1,
                    event_id=plain,
                    run_id=plain,
                    parent_event_id=plain,
                    origin=Origin(source_id=plain, task_id=plain),
                )
                mark = make_mark(1, id=f"mark {plain}", parent_id=plain)
                await store.append(Batch(session, (row,), marks=(mark,)))
                assert [back async for back in store.read(session.root_run_id)] == [row]
                stored = await store.mark(mark.id)
                assert stored is not None
                assert stored.parent_id == plain
                known = await store.run(session.root_run_id)
                assert known is not None
                assert known.root_run_id == session.root_run_id

    async def test_reading_can_start_after_and_stop_at_a_position(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            await store.append(written(session, 1, 9))
            assert await positions(store, session, after=3, upto=6) == [4, 5, 6]
            assert await positions(store, session, after=9) == []
            assert await positions(store, session, after=6, upto=3) == []
            assert await positions(store, session, upto=100) == list(range(1, 10))

    async def test_s1_13_ten_thousand_rows_come_back_in_order(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            for first in range(1, 10_001, 2_500):
                await store.append(written(session, first, first + 2_499))
            assert await positions(store, session) == list(range(1, 10_001))
            assert await positions(store, session, after=9_990) == list(range(9_991, 10_001))

    async def test_a_reader_may_stop_early(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            await store.append(written(session, 1, 1_000))
            reading = store.read(session.root_run_id)
            assert (await anext(reading)).seq == 1
            await reading.aclose()  # type: ignore[attr-defined]
            await store.append(written(session, 1_001, 1_001))

    async def test_rows_appended_while_reading_are_seen_or_not_but_never_out_of_order(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            await store.append(written(session, 1, 600))
            seen: list[int] = []
            async for row in store.read(session.root_run_id):
                seen.append(row.seq)
                if row.seq == 300:
                    await store.append(written(session, 601, 700))
            assert seen[:600] == list(range(1, 601))
            assert seen == list(range(1, len(seen) + 1))

    async def test_large_rows_come_back_whole(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            rows = make_rows(1, 12, payload=b"x" * 1_000_000)
            await store.append(Batch(session, rows))
            assert [len(row.payload) async for row in store.read(session.root_run_id)] == [1_000_000] * 12

    async def test_unknown_runs_and_branches_are_errors_to_read_and_nothing_to_list(self) -> None:
        async with self.opened() as store:
            assert await store.run("none") is None
            assert await store.branches("none") == []
            assert await store.marks("none") == []
            assert await store.mark("none") is None
            assert await store.runs() == []
            with pytest.raises(StorageError):
                await positions(store, "none")
            with pytest.raises(StorageError):
                await store.last_snapshot("none")
            session = await open_run(store)
            with pytest.raises(StorageError):
                await positions(store, session, branch="none")
            with pytest.raises(StorageError):
                await store.last_snapshot(session.root_run_id, branch="none")

    async def test_runs_are_listed_the_last_changed_first(self) -> None:
        async with self.opened() as store:
            sessions = [await open_run(store, now_us=NOW + n) for n in range(3)]
            ids = [session.root_run_id for session in sessions]
            assert [run.root_run_id for run in await store.runs()] == ids[::-1]
            await store.append(Batch(sessions[0], (make_row(1, at_us=NOW + 50),), status="failed"))
            assert [run.root_run_id for run in await store.runs()] == [ids[0], ids[2], ids[1]]
            assert [run.root_run_id for run in await store.runs(limit=1)] == [ids[0]]
            assert [run.root_run_id for run in await store.runs(status="failed")] == [ids[0]]
            assert [run.root_run_id for run in await store.runs(status="running")] == [ids[2], ids[1]]
            assert await store.runs(status="completed") == []

    async def test_s1_14_the_newest_snapshot_at_or_before_a_position_is_found(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            root = session.root_run_id
            assert await store.last_snapshot(root) is None
            await store.append(written(session, 1, 4, snapshot=Snapshot(4, b"four")))
            await store.append(written(session, 5, 9, snapshot=Snapshot(8, b"eight")))
            assert await store.last_snapshot(root) == Snapshot(8, b"eight")
            assert await store.last_snapshot(root, upto=8) == Snapshot(8, b"eight")
            assert await store.last_snapshot(root, upto=7) == Snapshot(4, b"four")
            assert await store.last_snapshot(root, upto=3) is None
            await store.append(Batch(session, snapshot=Snapshot(8, b"again")))
            assert await store.last_snapshot(root) == Snapshot(8, b"again")

    async def test_s1_14_a_blob_is_written_once_and_shared_by_runs(self) -> None:
        async with self.opened() as store:
            digest, data = "b" * 64, bytes(range(256)) * 1_000
            session, other = await open_run(store), await open_run(store)
            await store.append(written(other, 1, 1, blobs=((digest, data),)))
            await store.append(written(session, 1, 1, blobs=((digest, data),)))
            await store.append(written(session, 2, 2, blobs=((digest, b"not this"), (digest, b"nor this"))))
            assert await store.blob(digest) == data
            with pytest.raises(StorageError, match="c" * 64):
                await store.blob("c" * 64)

    async def test_marks_are_listed_newest_first_over_one_run_or_all(self) -> None:
        async with self.opened() as store:
            one, two = await open_run(store), await open_run(store)
            marks = [make_mark(1, at_us=NOW + at) for at in (5, 1, 9, 9)]
            await store.append(written(one, 1, 1, marks=tuple(marks[:2])))
            await store.append(written(two, 1, 1, marks=tuple(marks[2:])))
            ids = [mark.id for mark in marks]
            assert [mark.id for mark in await store.marks()] == [ids[3], ids[2], ids[0], ids[1]]
            assert [mark.id for mark in await store.marks(one.root_run_id)] == [ids[0], ids[1]]
            assert [mark.id for mark in await store.marks(limit=1)] == [ids[3]]

    async def test_of_marks_with_one_id_in_one_batch_the_last_stays(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            mark = make_mark(1)
            await store.append(written(session, 1, 2, marks=(mark, make_mark(2, id=mark.id, trigger="again"))))
            (stored,) = await store.marks(session.root_run_id)
            assert (stored.seq, stored.trigger) == (2, "again")

    async def test_a_mark_with_a_known_id_is_replaced(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            mark = make_mark(1)
            await store.append(written(session, 1, 2, marks=(mark,)))
            await store.append(Batch(session, marks=(make_mark(2, id=mark.id, trigger="again"),)))
            (stored,) = await store.marks(session.root_run_id)
            assert (stored.seq, stored.trigger) == (2, "again")

    async def test_marks_named_after_their_rows_are_found_while_the_session_is_open_and_when_it_is_closed(self) -> None:
        async with self.opened_twice() as (store, twin):
            for end in (store.close_session, lambda session: store.append(Batch(session, hold_until_us=0))):
                session = await open_run(store)
                first, second = marked(written(session, 1, 2)), marked(written(session, 3, 4), trigger="other")
                await store.append(first)
                await store.append(second)
                marks = told(first) + told(second)
                await check_marks(twin, session.root_run_id, marks)
                assert await twin.marks(session.root_run_id, limit=3) == marks[:0:-1]
                await end(session)
                await check_marks(twin, session.root_run_id, marks)

    async def test_marks_named_after_their_rows_outlive_a_session_that_nobody_closed(self) -> None:
        async with self.opened() as store:
            dead = await open_run(store, owner="dead")
            root, batch = dead.root_run_id, marked(written(dead, 1, 2))
            await store.append(batch)
            await store.fork(root, branch="other", parent="main", at_seq=1, now_us=NOW)
            session = await open_run(store, make_info(root), branch="other", now_us=NOW + 3600 * SECOND)
            await check_marks(store, root, told(batch))
            more = marked(Batch(session, make_rows(2, 3, at_us=NOW + 10)))
            await store.append(more)
            await check_marks(store, root, told(batch) + sorted(told(more), key=lambda mark: mark.id))
            await store.close_session(session)
            await check_marks(store, root, told(batch) + sorted(told(more), key=lambda mark: mark.id))

    async def test_a_long_session_has_all_its_marks_named_after_rows(self) -> None:
        async with self.opened_twice() as (store, twin):
            session = await open_run(store)
            batches = [marked(written(session, seq, seq + 1)) for seq in range(1, 400, 2)]
            for batch in batches:
                store.append_now(batch)
            await check_marks(twin, session.root_run_id, [mark for batch in batches for mark in told(batch)])

    async def test_a_mark_named_after_its_row_is_replaced_by_one_elsewhere(self) -> None:
        async with self.opened_twice() as (store, twin):
            for close in (False, True):
                one, two = await open_run(store), await open_run(twin)
                batch = marked(written(one, 1, 2))
                await store.append(batch)
                await twin.append(written(two, 1, 3))
                if close:
                    await store.close_session(one)
                again = Batch(two, marks=(make_mark(3, id=batch.marks[0].id),))
                await twin.append(again)
                if not close:
                    await store.close_session(one)
                await check_marks(store, one.root_run_id, told(batch)[1:])
                await check_marks(store, two.root_run_id, told(again))

    async def test_marks_named_after_their_rows_are_pruned_while_the_session_is_open_and_stay_away(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            batch, more = marked(written(session, 1, 3)), marked(written(session, 4, 4))
            await store.append(batch)
            kept = batch.marks[1].id
            await store.prune(session.root_run_id, keep_marks=[kept])
            await store.append(more)
            for _ in range(2):
                assert [mark.id for mark in await store.marks(session.root_run_id)] == [more.marks[0].id, kept]
                assert await store.mark(batch.marks[0].id) is None
                await store.close_session(session)
