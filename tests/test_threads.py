"""The loop thread and the pool: started when needed, reused, let go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar, copy_context

import pytest
from tests.runs.support import run_script

from holdfast.threads import LoopThread, ThreadPool


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread("a-loop")
    yield thread
    thread.stop()


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool("a-pool")
    yield pool
    pool.stop()


async def where() -> str:
    return threading.current_thread().name


def named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


# -- the loop thread ---------------------------------------------------------------------------------------------------


def test_the_loop_thread_starts_with_the_first_call_and_serves_the_next_ones(loop_thread: LoopThread) -> None:
    assert named("a-loop") == []
    assert loop_thread.submit(where()).result(5) == "a-loop"
    assert loop_thread.submit(where()).result(5) == "a-loop"
    assert loop_thread.started
    assert len(named("a-loop")) == 1


def test_the_loop_thread_knows_itself(loop_thread: LoopThread) -> None:
    async def ask() -> bool:
        return loop_thread.is_current()

    assert loop_thread.submit(ask()).result(5) is True
    assert loop_thread.is_current() is False


def test_stopping_twice_or_before_the_start_is_fine_and_a_later_use_starts_anew(loop_thread: LoopThread) -> None:
    loop_thread.stop()
    first = loop_thread.loop
    loop_thread.stop()
    loop_thread.stop()
    assert first.is_closed()
    assert not loop_thread.started
    assert named("a-loop") == []
    assert loop_thread.submit(where()).result(5) == "a-loop"
    assert loop_thread.loop is not first


def test_stopping_cancels_and_awaits_what_runs_on_the_loop(loop_thread: LoopThread) -> None:
    inside = threading.Event()
    notes: list[str] = []

    async def endless() -> None:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            notes.append("stopped")

    future = loop_thread.submit(endless())
    assert inside.wait(5)
    loop_thread.stop()
    assert notes == ["stopped"]
    assert future.cancelled()


def test_only_one_loop_is_made_by_threads_that_come_together(loop_thread: LoopThread) -> None:
    together = threading.Barrier(8, timeout=5)
    loops: list[asyncio.AbstractEventLoop] = []

    def ask() -> None:
        together.wait()
        loops.append(loop_thread.loop)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(loops)) == 1


# -- the pool ----------------------------------------------------------------------------------------------------------


def test_the_pool_grows_rather_than_queues(pool: ThreadPool) -> None:
    meet = threading.Barrier(30, timeout=5)
    futures = [pool.submit(copy_context(), meet.wait) for _ in range(30)]
    assert sorted(future.result(5) for future in futures) == list(range(30))


def test_the_pool_reuses_a_thread_that_is_idle(pool: ThreadPool) -> None:
    for _ in range(50):
        pool.submit(copy_context(), threading.get_ident).result(5)
    # a call may come before the thread of the last one is back; not every time
    assert 1 <= len(pool.thread_names) <= 5


def test_a_call_runs_in_the_context_it_was_given(pool: ThreadPool) -> None:
    colour: ContextVar[str] = ContextVar("colour", default="none")
    context = copy_context()
    context.run(colour.set, "green")
    assert pool.submit(context, colour.get).result(5) == "green"
    assert pool.submit(copy_context(), colour.get).result(5) == "none"


def test_what_a_call_raises_is_in_its_future_and_the_thread_goes_on(pool: ThreadPool) -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        pool.submit(copy_context(), leave).result(5)
    assert pool.submit(copy_context(), int, "7").result(5) == 7


def test_an_idle_thread_leaves_by_itself() -> None:
    pool = ThreadPool("brief", idle_seconds=0.01)
    pool.submit(copy_context(), int).result(5)
    for thread in named("brief"):
        thread.join(5)
    assert pool.thread_names == []


def test_stop_lets_the_threads_go_and_a_later_call_starts_anew(pool: ThreadPool) -> None:
    busy, let_go = threading.Event(), threading.Event()

    def work() -> bool:
        busy.set()
        return let_go.wait(5)

    call = pool.submit(copy_context(), work)
    pool.submit(copy_context(), int).result(5)
    assert busy.wait(5)
    threads = named("a-pool")
    pool.stop()
    let_go.set()
    assert call.result(5) is True
    for thread in threads:
        thread.join(5)
    assert pool.thread_names == []
    assert pool.submit(copy_context(), int, "7").result(5) == 7


def test_stop_waits_until_idle_threads_are_gone(pool: ThreadPool) -> None:
    # regression: it returned when they had stopped waiting for work, a moment before they had left
    for _ in range(20):
        meet = threading.Barrier(4, timeout=5)
        for call in [pool.submit(copy_context(), meet.wait) for _ in range(4)]:
            call.result(5)
        pool.stop()
        assert pool.thread_names == []


def test_where_no_thread_can_be_had_the_caller_is_told_and_the_call_is_never_made(
    pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # regression: it stayed in the queue, and the next call's thread made it
    made: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse_to_start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.submit(copy_context(), made.append, "refused")
    assert pool.thread_names == []
    for n in range(3):
        pool.submit(copy_context(), made.append, str(n)).result(5)
    assert made == ["0", "1", "2"]


def refuse_to_start(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_loop_that_gets_no_thread_is_closed_and_the_next_call_tries_again(
    loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    new_loop = asyncio.new_event_loop

    def note() -> asyncio.AbstractEventLoop:
        made.append(new_loop())
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse_to_start)
        patch.setattr(asyncio, "new_event_loop", note)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            _ = loop_thread.loop
    assert [loop.is_closed() for loop in made] == [True]
    assert loop_thread.submit(where()).result(5) == "a-loop"


def test_a_call_that_never_returns_does_not_keep_the_interpreter_from_exiting() -> None:
    done = run_script(
        """
    import threading
    from contextvars import copy_context
    from holdfast.threads import LoopThread, ThreadPool

    pool, loop_thread = ThreadPool(), LoopThread()
    inside = threading.Event()
    pool.submit(copy_context(), lambda: (inside.set(), threading.Event().wait()))
    loop_thread.loop
    inside.wait()
    print("bye")
    """,
        timeout=10,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("bye\n", "", 0)
