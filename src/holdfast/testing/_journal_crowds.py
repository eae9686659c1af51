"""Many at once: tasks, threads, loops, store objects."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from holdfast.errors import FencedError, PositionError, RunBusyError
from holdfast.ports import Batch, JournalStore, Session
from holdfast.testing._journal_base import (
    NOW,
    SECOND,
    JournalSuite,
    make_info,
    make_mark,
    open_run,
    positions,
    written,
)


async def _fill(store: JournalStore, session: Session, batches: int) -> None:
    for n in range(batches):
        await store.append(written(session, 2 * n + 1, 2 * n + 2))


class CrowdsConformance(JournalSuite):
    """Nothing is lost, mixed up or written twice, whoever else is at work."""

    async def test_fifty_tasks_append_to_fifty_runs(self) -> None:
        async with self.opened() as store:
            sessions = await asyncio.gather(*(open_run(store) for _ in range(50)))
            await asyncio.gather(*(_fill(store, session, 10) for session in sessions))
            for session in sessions:
                assert await positions(store, session) == list(range(1, 21))
                await store.close_session(session)

    async def test_eight_threads_append_without_a_loop(self) -> None:
        async with self.opened() as store:
            together = threading.Barrier(8)

            def work(owner: str) -> Session:
                session = store.open_now(make_info(), owner=owner, now_us=NOW, hold_until_us=NOW + SECOND)
                together.wait(timeout=30)
                for n in range(1, 26):
                    store.append_now(written(session, n, n))
                return session

            with ThreadPoolExecutor(8) as pool:
                sessions = list(pool.map(work, map(str, range(8))))
            for session in sessions:
                assert await positions(store, session) == list(range(1, 26))

    async def test_threads_and_tasks_share_a_store(self) -> None:
        async with self.opened() as store:
            sessions = [await open_run(store) for _ in range(6)]

            def work(session: Session) -> None:
                for n in range(1, 21):
                    store.append_now(written(session, n, n))

            await asyncio.gather(
                *(asyncio.to_thread(work, session) for session in sessions[:3]),
                *(_fill(store, session, 10) for session in sessions[3:]),
            )
            for session in sessions:
                assert await positions(store, session) == list(range(1, 21))

    async def test_several_loops_share_a_store(self) -> None:
        async with self.opened() as store:

            async def work() -> Session:
                session = await open_run(store)
                await _fill(store, session, 10)
                assert await positions(store, session) == list(range(1, 21))
                return session

            sessions = await asyncio.gather(*(asyncio.to_thread(asyncio.run, work()) for _ in range(3)), work())
            assert len({session.fence for session in sessions}) == 4

    async def test_a_refused_batch_does_not_spoil_those_beside_it(self) -> None:
        async with self.opened() as store:
            sessions = [await open_run(store) for _ in range(10)]
            late = await open_run(store, make_info("overtaken"))
            await open_run(store, make_info("overtaken"))
            batches = [written(session, 1, 2) for session in sessions]
            batches[3] = written(sessions[3], 2, 3)
            batches.insert(5, written(late, 1, 1))
            outcomes = await asyncio.gather(*map(store.append, batches), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes if outcome] == [PositionError, FencedError]
            assert isinstance(outcomes[3], PositionError)
            assert isinstance(outcomes[5], FencedError)
            for n, session in enumerate(sessions):
                assert await positions(store, session) == ([] if n == 3 else [1, 2])

    async def test_sessions_that_were_overtaken_elsewhere_do_not_spoil_those_beside_them(self) -> None:
        async with self.opened_twice() as (store, twin):
            sessions = [await open_run(store) for _ in range(10)]
            await asyncio.gather(*(store.append(written(session, 1, 2)) for session in sessions))
            for session in sessions[2:4]:
                await open_run(twin, make_info(session.root_run_id))
            await twin.delete(sessions[5].root_run_id, now_us=NOW + 3600 * SECOND)
            batches = [written(session, 3, 4) for session in sessions]
            outcomes = await asyncio.gather(*map(store.append, batches), return_exceptions=True)
            refused = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, FencedError)]
            assert refused == [2, 3, 5], outcomes
            for n, session in enumerate(sessions):
                if n != 5:
                    assert await positions(store, session) == ([1, 2] if n in refused else [1, 2, 3, 4])

    async def test_batches_of_one_session_that_are_under_way_together_are_stored_in_order(self) -> None:
        async with self.opened() as store:
            session, _ = await open_run(store), await open_run(store)  # two, so that none is alone
            await store.append(written(session, 1, 1))
            batches = [written(session, 2, 3), Batch(session, marks=(make_mark(3),)), written(session, 4, 4)]
            batches += [written(session, 5, 5, hold_until_us=0), written(session, 6, 6)]
            outcomes = await asyncio.gather(*map(store.append, batches), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes if outcome] == [FencedError], outcomes
            assert await positions(store, session) == [1, 2, 3, 4, 5]

    async def test_an_unstorable_batch_fails_alone(self) -> None:
        async with self.opened() as store:
            sessions = [await open_run(store) for _ in range(6)]
            batches = [written(session, 1, 2) for session in sessions]
            batches[2] = written(sessions[2], 1, 2, status="\ud800", blobs=(("a" * 64, b"x"),))
            outcomes = await asyncio.gather(*map(store.append, batches), return_exceptions=True)
            failed = [n for n, outcome in enumerate(outcomes) if outcome is not None]
            assert failed in ([], [2])  # memory may keep a text that cannot be encoded
            for n, session in enumerate(sessions):
                assert await positions(store, session) == ([] if n in failed else [1, 2])

    async def test_one_of_many_racing_to_open_wins(self) -> None:
        async with self.opened_twice() as (store, twin):
            for _ in range(5):
                info = make_info()
                attempts = [open_run(which, info, owner=f"owner {n}") for n, which in enumerate((store, twin) * 4)]
                outcomes = await asyncio.gather(*attempts, return_exceptions=True)
                won = [outcome for outcome in outcomes if isinstance(outcome, Session)]
                lost = [outcome for outcome in outcomes if isinstance(outcome, RunBusyError)]
                assert (len(won), len(lost)) == (1, 7), outcomes

    async def test_threads_of_two_stores_racing_for_a_lapsed_hold_are_fenced(self) -> None:
        async with self.opened_twice() as (store, twin):
            info = make_info()
            await open_run(store, info, seconds=1)
            together = threading.Barrier(4)

            def grab(which: JournalStore, owner: str) -> Session | None:
                together.wait(timeout=30)
                now = NOW + 10 * SECOND
                try:
                    return which.open_now(info, owner=owner, now_us=now, hold_until_us=now + SECOND)
                except RunBusyError:
                    return None

            with ThreadPoolExecutor(4) as pool:
                grabs = [pool.submit(grab, which, str(n)) for n, which in enumerate((store, twin) * 2)]
                won = [session for grab in grabs if (session := grab.result())]
            assert len(won) == 1
            assert won[0].incarnation == 2

    async def test_two_writers_of_one_session_never_write_one_position_twice(self) -> None:
        async with self.opened_twice() as (store, twin):
            session = await open_run(store)
            outcomes = await asyncio.gather(
                *(which.append(written(session, 1, 1)) for which in (store, twin) * 4), return_exceptions=True
            )
            assert outcomes.count(None) == 1
            assert sum(isinstance(outcome, PositionError) for outcome in outcomes) == 7
            assert await positions(twin, session) == [1]

    async def test_an_append_that_is_cancelled_while_it_is_stored_is_stored_when_it_returns(self) -> None:
        async with self.opened() as store:
            sessions = [await open_run(store) for _ in range(10)]
            tasks = [asyncio.create_task(store.append(written(session, 1, 3))) for session in sessions]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert outcomes[1::2] == [None] * 5
            for session in sessions:
                assert await positions(store, session) == [1, 2, 3]

    async def test_closing_finishes_what_is_queued(self) -> None:
        store = self.make_store()
        sessions = [await open_run(store) for _ in range(5)]
        tasks = [asyncio.create_task(store.append(written(session, 1, 2))) for session in sessions]
        await asyncio.sleep(0)
        twin = self.make_twin(store)
        await store.aclose()
        assert await asyncio.gather(*tasks) == [None] * 5
        if twin is not None:
            for session in sessions:
                assert await positions(twin, session) == [1, 2]
            await twin.aclose()

    async def test_no_thread_is_left_after_closing(self) -> None:
        before = _store_threads()
        async with self.opened() as store:
            sessions = [await open_run(store) for _ in range(3)]
            await asyncio.gather(*(_fill(store, session, 3) for session in sessions))
            assert await positions(store, sessions[0])
        left = _store_threads() - before
        for thread in left:
            thread.join(5)  # told to go, it may be on its last line
        assert {thread.name for thread in left if thread.is_alive()} == set()


def _store_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("holdfast-")}
