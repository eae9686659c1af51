"""Who may write, and what a batch is."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.errors import ClosedError, FencedError, PositionError, RunBusyError, StorageError
from holdfast.ids import new_id
from holdfast.ports import Batch, Snapshot
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


class WritingConformance(JournalSuite):
    """Sessions, fences, batches."""

    async def test_s1_6_a_new_run_starts_at_incarnation_one_and_an_empty_main(self) -> None:
        async with self.opened() as store:
            info = make_info()
            session = await open_run(store, info)
            assert (session.root_run_id, session.branch, session.incarnation, session.head) == (
                info.root_run_id,
                "main",
                1,
                0,
            )
            assert session.fence > 0
            stored = await store.run(info.root_run_id)
            assert stored == msgspec.structs.replace(info, incarnation=1, held_until_us=NOW + 60 * SECOND)

    async def test_s1_6_a_known_run_keeps_its_birthday_and_takes_the_rest_from_info(self) -> None:
        async with self.opened() as store:
            first = make_info()
            await store.close_session(await open_run(store, first))
            later = make_info(
                first.root_run_id, kind="crew", name="New", fingerprint="f2", definition=b"{}", created_us=NOW + 5
            )
            session = await open_run(store, later, now_us=NOW + 9)
            assert session.incarnation == 2
            assert await store.run(first.root_run_id) == msgspec.structs.replace(
                later, incarnation=2, created_us=NOW, updated_us=NOW + 9, held_until_us=NOW + 9 + 60 * SECOND
            )

    async def test_s1_6_opening_a_branch_that_is_not_there_is_refused_and_holds_nothing(self) -> None:
        async with self.opened() as store:
            with pytest.raises(StorageError):
                await open_run(store, make_info("new"), branch="other")
            assert await store.run("new") is None
            session = await open_run(store, make_info("known"))
            await store.close_session(session)
            with pytest.raises(StorageError, match="main"):
                await open_run(store, make_info("known"), branch="other")
            assert (await open_run(store, make_info("known"), owner="two")).incarnation == 2

    async def test_s1_6_a_run_is_busy_until_the_hold_runs_out(self) -> None:
        async with self.opened_twice() as (store, twin):
            info = make_info()
            first = await open_run(store, info, owner="one", seconds=10)
            with pytest.raises(RunBusyError):
                await open_run(twin, info, owner="two", now_us=NOW + 10 * SECOND - 1)
            second = await open_run(twin, info, owner="two", now_us=NOW + 10 * SECOND)
            assert second.incarnation == first.incarnation + 1
            assert second.fence > first.fence

    async def test_s1_6_a_heartbeat_prolongs_the_hold_and_a_closed_session_gives_it_up(self) -> None:
        async with self.opened() as store:
            info = make_info()
            session = await open_run(store, info, owner="one", seconds=10)
            await store.append(Batch(session, hold_until_us=NOW + 100 * SECOND))
            with pytest.raises(RunBusyError):
                await open_run(store, info, owner="two", now_us=NOW + 50 * SECOND)
            await store.close_session(session)
            known = await store.run(info.root_run_id)
            assert known is not None
            assert known.held_until_us == 0
            await open_run(store, info, owner="two", now_us=NOW + 50 * SECOND)

    async def test_s1_6_the_same_owner_may_take_over_from_itself(self) -> None:
        async with self.opened() as store:
            info = make_info()
            first = await open_run(store, info, owner="one")
            await store.append(written(first, 1, 2))
            second = await open_run(store, info, owner="one")
            assert (second.incarnation, second.head) == (2, 2)
            with pytest.raises(FencedError):
                await store.append(written(first, 3, 3))
            await store.append(written(second, 3, 3))

    async def test_s1_6_an_overtaken_session_stores_nothing_of_its_batch(self) -> None:
        async with self.opened_twice() as (store, twin):
            info = make_info()
            late = await open_run(store, info, owner="one", seconds=1)
            present = await open_run(twin, info, owner="two", now_us=NOW + 5 * SECOND)
            mark = make_mark(1)
            batch = Batch(
                late,
                make_rows(1, 2),
                (("d" * 64, b"large"),),
                Snapshot(2, b"{}"),
                (mark,),
                status="completed",
                hold_until_us=NOW + 99 * SECOND,
            )
            with pytest.raises(FencedError):
                await store.append(batch)
            with pytest.raises(FencedError):
                store.append_now(batch)
            assert await positions(store, info.root_run_id) == []
            assert await store.last_snapshot(info.root_run_id) is None
            assert await store.mark(mark.id) is None
            with pytest.raises(StorageError):
                await store.blob("d" * 64)
            known = await store.run(info.root_run_id)
            assert known is not None
            assert (known.status, known.held_until_us) == ("running", NOW + 65 * SECOND)
            await twin.append(written(present, 1, 1))

    async def test_an_overtaken_session_gives_up_nothing_when_it_closes(self) -> None:
        async with self.opened() as store:
            info = make_info()
            late = await open_run(store, info, owner="one", seconds=1)
            present = await open_run(store, info, owner="two", now_us=NOW + 5 * SECOND)
            await store.close_session(late)
            store.close_session_now(late)
            with pytest.raises(RunBusyError):
                await open_run(store, info, owner="three", now_us=NOW + 6 * SECOND)
            await store.append(written(present, 1, 1))

    async def test_a_closed_session_may_not_write_and_may_be_closed_again(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            await store.close_session(session)
            await store.close_session(session)
            with pytest.raises(FencedError):
                await store.append(written(session, 1, 1))

    async def test_the_last_batch_closes_its_session_whichever_way_it_is_written(self) -> None:
        async with self.opened() as store:
            for number in range(3):
                info = make_info()
                session = await open_run(store, info, owner="one", seconds=10)
                last = written(session, 1, 1, status="completed", hold_until_us=0)
                if number == 0:
                    await store.append(last)
                elif number == 1:
                    store.append_now(last)
                elif not store.append_at_once(last):
                    await store.append(last)
                with pytest.raises(FencedError):
                    await store.append(written(session, 2, 2))
                await store.close_session(session)
                other = await open_run(store, info, owner="two")
                assert (other.head, await positions(store, other)) == (1, [1])

    async def test_a_session_from_before_a_deletion_cannot_write_into_the_run_made_anew(self) -> None:
        async with self.opened() as store:
            info = make_info()
            late = await open_run(store, info, seconds=1)
            await store.delete(info.root_run_id, now_us=NOW + 5 * SECOND)
            with pytest.raises(FencedError):
                await store.append(written(late, 1, 1))
            anew = await open_run(store, info)
            assert anew.fence > late.fence
            with pytest.raises(FencedError):
                await store.append(written(late, 1, 1))

    async def test_s1_6_gaps_and_repeats_are_refused_and_store_nothing(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            await store.append(written(session, 1, 3))
            wrong = [(3, 3), (5, 5), (2, 4), (0, 0)]
            for first, last in wrong:
                with pytest.raises(PositionError):
                    await store.append(written(session, first, last))
            for rows in (
                (make_row(4), make_row(6)),
                (make_row(4), make_row(4)),
                (make_row(5), make_row(4)),
            ):
                with pytest.raises(PositionError):
                    store.append_now(Batch(session, rows))
            assert await positions(store, session) == [1, 2, 3]
            await store.append(written(session, 4, 4))

    async def test_appending_at_once_stores_all_of_a_batch_or_says_that_it_stored_nothing(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            stored = store.append_at_once(written(session, 1, 2))
            assert await positions(store, session) == ([1, 2] if stored else [])
            await store.close_session(session)
            if stored:
                with pytest.raises(FencedError):
                    store.append_at_once(written(session, 3, 3))

    async def test_rows_are_the_same_whether_their_ids_were_expected_or_not(self) -> None:
        expected = [new_id(), "no uuid", new_id().upper(), new_id(), new_id()]
        async with self.opened() as store:
            session = await open_run(store)
            store.expect(session, expected)  # before anything is known of it
            rows = [make_row(n, event_id=each) for n, each in enumerate([*expected[:3], new_id()], 1)]
            await store.append(Batch(session, (rows[0],)))
            store.expect(session, expected)
            store.append_now(marked(Batch(session, (rows[1], rows[2]))))
            store.expect(session, expected)
            store.expect(session, [])
            await store.append(Batch(session, (rows[3],)))
            assert [row async for row in store.read(session.root_run_id)] == rows
            await store.close_session(session)
            store.expect(session, expected)
            with pytest.raises(FencedError):
                await store.append(Batch(session, (make_row(5, event_id=expected[4]),)))

    async def test_snapshots_and_marks_beyond_the_head_are_refused(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            for batch in (
                written(session, 1, 2, snapshot=Snapshot(3, b"{}")),
                written(session, 1, 2, marks=(make_mark(3),)),
            ):
                with pytest.raises(PositionError):
                    await store.append(batch)
            assert await positions(store, session) == []

    async def test_s1_14_a_batch_is_stored_as_a_whole(self) -> None:
        async with self.opened_twice() as (store, twin):
            session = await open_run(store)
            root = session.root_run_id
            mark = make_mark(2, branch="ignored", trigger="task_completed", parent_id=new_id(), size=77)
            rows = make_rows(1, 2)
            await store.append(
                Batch(session, rows, (("a" * 64, b"\x00\xff"),), Snapshot(2, b'{"s":1}'), (mark,), status="waiting")
            )
            assert [row async for row in twin.read(root)] == list(rows)
            assert await twin.last_snapshot(root) == Snapshot(2, b'{"s":1}')
            assert await twin.blob("a" * 64) == b"\x00\xff"
            assert await twin.mark(mark.id) == msgspec.structs.replace(mark, branch="main", root_run_id=root)
            known = await twin.run(root)
            assert known is not None
            assert (known.status, known.updated_us) == ("waiting", NOW + 2)

    async def test_blocking_twins_do_the_same(self) -> None:
        async with self.opened() as store:
            info = make_info()
            session = store.open_now(info, owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
            store.append_now(written(session, 1, 2))
            assert await positions(store, session) == [1, 2]
            with pytest.raises(RunBusyError):
                store.open_now(info, owner="two", now_us=NOW, hold_until_us=NOW + SECOND)
            store.close_session_now(session)
            assert store.open_now(info, owner="two", now_us=NOW, hold_until_us=NOW + SECOND).head == 2

    async def test_an_empty_batch_is_fine(self) -> None:
        async with self.opened() as store:
            session = await open_run(store)
            await store.append(Batch(session))
            assert await positions(store, session) == []

    async def test_closing_twice_is_fine_and_using_a_closed_store_says_so(self) -> None:
        store = self.make_store()
        session = await open_run(store)
        await store.append(written(session, 1, 1))
        await store.aclose()
        await store.aclose()
        store.close()
        with pytest.raises(ClosedError):
            await store.append(written(session, 2, 2))
        with pytest.raises(ClosedError):
            store.append_now(written(session, 2, 2))
        with pytest.raises(ClosedError):
            await store.run(session.root_run_id)

    async def test_a_store_that_was_never_used_closes(self) -> None:
        self.make_store().close()
        await self.make_store().aclose()
