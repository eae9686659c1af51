"""Programs that a test runs in processes of their own: `python crash.py NAME PATH …`."""

from __future__ import annotations

import os
import resource
import sys

from holdfast.errors import RunBusyError, StoreUnavailableError
from holdfast.stores import PostgresStore, SqliteStore
from holdfast.testing._journal_base import NOW, SECOND, make_info, written


def append_for_ever(path: str) -> None:
    """Append batches of three rows, and say so after each one."""
    store = SqliteStore(path)
    session = store.open_now(make_info("victim"), owner=str(os.getpid()), now_us=NOW, hold_until_us=NOW)
    seq = session.head
    while True:
        store.append_now(written(session, seq + 1, seq + 3))
        seq += 3
        os.write(1, b"%d\n" % seq)


def append_beside(path: str, name: str, batches: str) -> None:
    """One of several processes that fill runs of their own."""
    store = SqliteStore(path)
    session = store.open_now(make_info(name), owner=name, now_us=NOW, hold_until_us=NOW + SECOND)
    for seq in range(1, int(batches) + 1):
        store.append_now(written(session, seq, seq))
    store.close()


def open_held(path: str) -> None:
    """Find a run held by the process that started this one."""
    store = SqliteStore(path)
    try:
        store.open_now(make_info("held"), owner="child", now_us=NOW, hold_until_us=NOW + SECOND)
    except RunBusyError:
        sys.stdout.write("busy\n")
    store.close()


def fill_the_disk(path: str) -> None:
    """Append under a limit on file size until it is refused, then without the limit."""
    store = SqliteStore(path)
    session = store.open_now(make_info("full"), owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    seq = 0
    refused = 0
    while refused < 3:
        try:
            store.append_now(written(session, seq + 1, seq + 5, blobs=((f"{seq:064}", b"x" * 10_000),)))
            seq += 5
        except StoreUnavailableError:
            refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.append_now(written(session, seq + 1, seq + 5))
    store.close()
    sys.stdout.write(f"{seq + 5}\n")


def lose_the_right_to_write(path: str) -> None:
    """Go on as a user who may read the file only."""
    store = SqliteStore(path)
    session = store.open_now(make_info("read"), owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
    store.append_now(written(session, 1, 2))
    store.close()
    os.chmod(path, 0o444)
    os.chmod(os.path.dirname(path), 0o555)
    os.setgid(65534)
    os.setuid(65534)
    store = SqliteStore(path)
    try:
        store.append_now(written(session, 3, 3))
    except StoreUnavailableError as error:
        sys.stdout.write(f"{type(error).__name__}\n")
    store.close()


def fork_in_the_middle(path: str) -> None:
    """Parent and child go on with one store object, each with a run of its own; the parent leaves first."""
    store = SqliteStore(path)
    session = store.open_now(make_info("parent"), owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
    store.append_now(written(session, 1, 2))
    told, tell = os.pipe()
    if os.fork():
        store.append_now(written(session, 3, 4))
        store.close()
        os.write(tell, b"x")
        os.wait()
        return
    mine = store.open_now(make_info("child"), owner="two", now_us=NOW, hold_until_us=NOW + SECOND)
    for seq in range(1, 50):
        store.append_now(written(mine, seq, seq))
    os.read(told, 1)  # the parent has closed its connections, and what it thought was the last one
    for seq in range(50, 101):
        store.append_now(written(mine, seq, seq))
    os._exit(0)  # without closing: what was acknowledged is on disk


def fork_from_postgres(dsn: str, schema: str) -> None:
    """Parent and child go on with one store object, each with a run of its own."""
    store = PostgresStore(dsn, schema=schema)
    session = store.open_now(make_info("parent"), owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
    store.append_now(written(session, 1, 2))
    if child := os.fork():
        for seq in range(3, 30):
            store.append_now(written(session, seq, seq))
        os.waitpid(child, 0)
        store.append_now(written(session, 30, 30))
        store.close()
        return
    mine = store.open_now(make_info("child"), owner="two", now_us=NOW, hold_until_us=NOW + SECOND)
    for seq in range(1, 31):
        store.append_now(written(mine, seq, seq))
    store.close()
    os._exit(0)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
