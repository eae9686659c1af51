"""Process trees under a keeper: all of a tree ends, whatever it does, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.resources.killing import heard, owner
from tests.resources.trees import (
    CHAIN,
    HOSTILE,
    SETSID,
    STDERR_FLOOD,
    STDOUT_FLOOD,
    is_alive,
    left,
    no_file_is_left,
    plant,
    program_that_does_not_open,
    shell,
)
from tests.runs.support import until

from holdfast.errors import ManagerClosedError, PlatformError, SpawnError, StuckError, UsageError
from holdfast.resources import Command, Keeper, KeptProcess, SystemProcessTable, _cgroup, _idle, _kept
from holdfast.resources._stub import RLIMIT_LOCKS
from holdfast.testing._audit import outlast, started_here


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE.keys())
async def test_s3_2_the_end_of_a_process_is_the_end_of_all_its_children(keeper: Keeper, script: str) -> None:
    process = await plant(keeper, script)
    pids = [use.pid for use in process.processes()]
    await process.end(grace=0.05)
    assert process.is_gone
    assert process.processes() == []
    assert [pid for pid in pids if is_alive(pid)] == []
    assert left(keeper) == []


async def test_a_tree_of_more_processes_than_select_can_count_is_ended(
    keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    many = "import os, signal\nfor _ in range(1100):\n if not os.fork(): signal.pause()\nprint('ready', flush=True)\nsignal.pause()"
    async with await keeper.spawn(Command((sys.executable, "-I", "-S", "-c", many))) as process:
        assert await process.readline() == b"ready\n"
    assert process.is_gone
    assert caplog.text == ""  # the stub did it, and did not break over it


async def test_a_tree_is_listed_with_its_memory(keeper: Keeper) -> None:
    process = await plant(keeper, CHAIN)
    uses = process.processes()
    assert [use.name for use in uses][:2] == ["sh", "sh"]
    assert len(uses) == 3
    assert uses[0].pid == process.pid
    assert all(use.memory_bytes > 0 for use in uses)
    await process.end()


async def test_what_is_written_comes_back_in_order_with_backpressure(keeper: Keeper) -> None:
    async with await keeper.spawn(Command(("cat",))) as process:
        sent = os.urandom(3_000_000)

        async def write() -> None:
            for start in range(0, len(sent), 100_000):
                await process.write(sent[start : start + 100_000])
            process.close_stdin()

        writing = asyncio.create_task(write())
        got = b""
        while part := await process.read():
            got += part
        await writing
        assert got == sent
        assert await process.wait() == 0
        await process.gone()


async def test_a_flood_on_standard_output_waits_for_its_reader(keeper: Keeper) -> None:
    process = await plant(keeper, STDOUT_FLOOD)
    reader = process._reader(0)
    await until(lambda: reader.is_crowded)
    assert len(reader._buffer) < 4_000_000
    assert set(await process.read(100)) == {ord("y"), ord("\n")}
    await process.end(0.05)


async def test_a_flood_on_standard_error_never_stops_the_process_and_its_last_bytes_are_kept(keeper: Keeper) -> None:
    process = await plant(keeper, STDERR_FLOOD)
    await until(lambda: process._ring.total > 1_000_000)
    assert len(process.stderr_tail()) == 64 * 1024
    await process.end(0.05)


async def test_what_waited_until_nothing_more_was_read_is_poured_out_and_so_is_all_that_follows(keeper: Keeper) -> None:
    came = bytearray()
    async with await keeper.spawn(Command(("head", "-c", "5000000", "/dev/zero"), stderr="pipe")) as process:
        await until(lambda: process._reader(0).is_crowded)
        await asyncio.wait_for(process.pour(came.extend, came.extend), 20)
    assert len(came) == 5_000_000


async def test_standard_error_can_be_read_or_go_with_standard_output(keeper: Keeper) -> None:
    async with await keeper.spawn(Command(("sh", "-c", "echo oops >&2"), stderr="pipe")) as process:
        assert await process.read_stderr() == b"oops\n"
    async with await keeper.spawn(Command(("sh", "-c", "echo oops >&2"), stderr="stdout")) as process:
        assert await process.readline() == b"oops\n"
        with pytest.raises(UsageError, match="stderr='pipe'"):
            await process.read_stderr()


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -KILL $$", -9), ("kill -TERM $$", -15)])
async def test_the_exit_status_is_the_one_of_the_first_process(keeper: Keeper, script: str, code: int) -> None:
    async with await keeper.spawn(shell(script)) as process:
        assert await process.wait() == code
        assert process.returncode == code


async def test_the_first_process_may_leave_while_others_stay_and_hold_its_pipes(keeper: Keeper) -> None:
    process = await plant(keeper, HOSTILE["leader_exits"])
    assert await process.wait() == 0
    assert not process.is_gone
    assert len(process.processes()) == 2
    await process.end(0.05)


async def test_a_well_behaved_process_gets_to_say_goodbye(keeper: Keeper) -> None:
    script = "trap 'exit 3' TERM; echo ready; while read line; do echo got $line; done; exit 3"
    process = await plant(keeper, script)

    async def close() -> None:
        await process.write(b"bye\n")
        assert await process.readline() == b"got bye\n"

    process.goodbye = close
    await process.end(grace=20)
    assert process.returncode == 3


@pytest.mark.parametrize("grace", [float("inf"), 1e9])
async def test_a_process_may_have_all_the_time_it_wants_to_say_goodbye(keeper: Keeper, grace: float) -> None:
    process = await plant(keeper, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    await process.end(grace)
    assert process.returncode == 3


async def test_a_goodbye_that_fails_or_hangs_does_not_stop_the_end(keeper: Keeper) -> None:
    async def breaks() -> None:
        raise OSError("gone")

    async def hangs() -> None:
        await asyncio.Event().wait()

    for close in (breaks, hangs):
        process = await plant(keeper, CHAIN)
        process.goodbye = close
        await process.end(grace=0.05)
        assert process.is_gone


async def test_ending_twice_and_at_once_is_fine_and_the_shorter_grace_counts(keeper: Keeper) -> None:
    process = await plant(keeper, HOSTILE["ignores_term"])
    await asyncio.gather(process.end(grace=50), process.end(grace=0.05), process.end(grace=50))
    await process.end()


async def test_what_a_stub_said_is_heard_although_it_was_killed_without_reading_our_last_word(keeper: Keeper) -> None:
    process = await plant(keeper, "trap 'exit 3' USR1; echo ready; sleep 1000 & wait")
    assert process.keeper is not None
    os.kill(process.pid, signal.SIGUSR1)
    assert select.select([process._channel], [], [], 10)[0]  # how the first process ended; not read yet
    os.kill(process.keeper.pid, signal.SIGSTOP)
    process._tell("end 0")
    os.kill(process.keeper.pid, signal.SIGKILL)
    outlast(process.keeper.pid, 10)  # its word lies in the channel, behind an error
    assert await process.wait() == 3
    await process.gone()
    await process.end()


async def test_input_that_nobody_reads_does_not_stop_the_end(keeper: Keeper) -> None:
    process = await plant(keeper, "echo ready; sleep 1000")
    writing = asyncio.create_task(process.write(b"x" * 1_000_000))
    await asyncio.sleep(0)
    await process.end(0.05)
    with pytest.raises(ConnectionError):
        await writing


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (Command(("no-such-command",), env={"PATH": "/usr/bin:/bin"}), "no such command; install it"),
        (Command(("true",), cwd="/no/such/folder"), "in /no/such/folder: No such file"),
        (Command(("/etc/passwd",)), "Permission denied"),
        (Command(("echo", "a\0b")), "Invalid argument; see that no word holds a null character"),
        (Command(("true",), env={"PATH": "/usr/bin:/bin", "A=B": "C"}), "no variable's name an equals sign"),
        (Command(("true", "x" * 2_000_000)), "Argument list too long; give it less"),
    ],
)
async def test_s3_3_a_command_that_cannot_start_says_why_and_leaves_nothing(
    keeper: Keeper, command: Command, message: str
) -> None:
    with pytest.raises(SpawnError, match=message):
        await keeper.spawn(command)
    assert left(keeper) == []


@pytest.mark.parametrize("broken", ["not_executable", "a_folder", "without_interpreter", "of_no_format"])
async def test_what_cannot_be_run_hides_no_command_in_a_later_folder_of_the_path(
    keeper: Keeper, tmp_path: Path, broken: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\necho there\n")
        (folder / "tool").chmod(0o755)
    match broken:
        case "not_executable":
            (first / "tool").chmod(0o644)
        case "a_folder":
            (first / "tool").unlink()
            (first / "tool").mkdir()
        case "without_interpreter":
            (first / "tool").write_text("#!/no/such/interpreter\n")
        case _:
            (first / "tool").write_text("echo there\n")
    async with await keeper.spawn(Command(("tool",), env={"PATH": f"{first}:{second}"})) as process:
        assert await process.readline() == b"there\n"


async def test_a_relative_folder_is_relative_to_ours_not_the_keepers(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    async with await keeper.spawn(Command(("pwd", "-P"), cwd="folder")) as process:
        assert await process.readline() == f"{(tmp_path / 'folder').resolve()}\n".encode()


async def test_an_empty_command_is_refused(keeper: Keeper) -> None:
    with pytest.raises(UsageError, match="at least the name"):
        await keeper.spawn(Command(()))


async def test_command_environment_and_folder_arrive_as_given_however_large(keeper: Keeper) -> None:
    env = {"PATH": os.environ["PATH"], "LARGE": "ü" * 60_000, "EMPTY": ""}
    words = ("sh", "-c", 'printf "%s|%s|%s|%s" "$PWD" "$#" "${#LARGE}" "${EMPTY-unset}"', "sh", *["x" * 1000] * 300)
    async with await keeper.spawn(Command(words, env=env, cwd="/usr")) as process:
        assert await process.read() in (b"/usr|300|60000|", b"/usr|300|120000|")


async def test_bytes_that_are_no_text_arrive_as_given(keeper: Keeper) -> None:
    odd = os.fsdecode(b"odd \xff")
    env = {"PATH": os.environ["PATH"], "ODD": odd}
    async with await keeper.spawn(Command(("sh", "-c", 'printf "%s|%s" "$1" "$ODD"', "sh", odd), env=env)) as process:
        assert await process.read() == b"odd \xff|odd \xff"


@pytest.mark.parametrize(
    "command",
    [Command(("echo", "\ud800")), Command(("\ud800",)), Command(("true",), env={"A": "\ud800"}), Command(("true",), cwd="\ud800")],
    ids=["argument", "program", "environment", "folder"],
)  # fmt: skip
async def test_text_that_has_no_bytes_is_refused_in_words(keeper: Keeper, command: Command) -> None:
    with pytest.raises(UsageError, match=r"cannot hold '\\ud800', which is half a character"):
        await keeper.spawn(command)
    assert keeper._live == set()


@pytest.mark.parametrize("standing", [1, 2, 3])
async def test_a_cancelled_spawn_returns_when_nothing_is_left(keeper: Keeper, standing: int) -> None:
    await (await plant(keeper, CHAIN)).end(0)
    for _ in range(5):
        assert left(keeper) == []
        spawning = asyncio.create_task(keeper.spawn(shell("sleep 1000")))
        await asyncio.sleep(0)
        await until(lambda: len(started_here()) >= standing or spawning.done())  # noqa: B023 (zygote, stub, leader)
        spawning.cancel()
        done, _ = await asyncio.wait({spawning})
        if not spawning.cancelled():  # it was faster
            await done.pop().result().end(0)
        assert [found for found in started_here() if "sleep" in found.command] == []
    assert keeper._live == set()


async def test_a_process_may_be_used_from_another_loop_than_its_own(keeper: Keeper) -> None:
    process = await keeper.spawn(Command(("cat",)))

    async def elsewhere() -> bytes:
        await process.write(b"over there\n")
        line = await process.readline()
        await process.end()
        return line

    assert await asyncio.to_thread(asyncio.run, elsewhere()) == b"over there\n"
    assert process.is_gone


async def test_no_signal_that_the_keeper_ignores_is_ignored_by_what_it_starts(keeper: Keeper) -> None:
    show = "import signal; print([s.name for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN])"
    async with await keeper.spawn(Command((sys.executable, "-I", "-S", "-c", show))) as process:
        assert await process.read() == b"['SIGPIPE', 'SIGXFSZ']\n"  # Python's own doing


async def test_a_child_gets_no_file_of_ours_but_its_three(keeper: Keeper) -> None:
    async with await keeper.spawn(shell("ls /proc/self/fd")) as process:
        assert (await process.read()).split() == [b"0", b"1", b"2", b"3"]  # the last is the folder being listed


async def test_s3_5_killing_a_stub_by_hand_ends_its_tree_and_only_that(keeper: Keeper) -> None:
    hit, other = await plant(keeper, SETSID), await plant(keeper, SETSID)
    pids = [use.pid for use in hit.processes()]
    assert hit.keeper is not None
    os.kill(hit.keeper.pid, signal.SIGKILL)
    await hit.gone()
    assert await hit.wait() == -signal.SIGKILL
    assert [pid for pid in pids if is_alive(pid)] == []
    assert len(other.processes()) >= 3
    await hit.end()
    await other.end(0.05)


async def test_s3_5_killing_the_zygote_by_hand_stops_neither_trees_nor_later_spawns(keeper: Keeper) -> None:
    before = await plant(keeper, CHAIN)
    assert keeper.pid is not None
    os.kill(keeper.pid, signal.SIGKILL)
    outlast(keeper.pid, 10)
    after = await plant(keeper, CHAIN)
    for process in (before, after):
        await process.end(0.05)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stubs wait for the next command also where the machine is busy."""
    monkeypatch.setattr(_idle, "LINGER_SECONDS", 1.5)


async def said_by(keeper: Keeper, command: Command) -> tuple[bytes, int]:
    """What a command says, and who kept it."""
    async with await keeper.spawn(command) as process:
        assert process.keeper is not None
        said = await process.readline()
        await process.gone()
        return said, process.keeper.pid


@pytest.mark.usefixtures("patience")
async def test_commands_that_follow_each_other_are_kept_by_the_same_stub(keeper: Keeper) -> None:
    stubs = {(await said_by(keeper, Command(("echo", "there"))))[1] for _ in range(3)}
    assert len(stubs) == 1
    assert left(keeper) == []


async def test_a_stub_leaves_when_no_more_commands_come(keeper: Keeper) -> None:
    _, stub = await said_by(keeper, Command(("echo", "there")))
    await until(lambda: not is_alive(stub))


async def test_a_stub_leaves_by_itself_when_its_owner_does_not_say_so(keeper: Keeper) -> None:
    _, stub = await said_by(keeper, Command(("echo", "there")))
    assert outlast(stub, 1.5)  # the loop stands still, as in a test that looks who is left
    said, other = await said_by(keeper, Command(("echo", "there")))
    assert (said, other != stub) == (b"there\n", True)


def test_stubs_whose_loop_has_ended_take_nobodys_place() -> None:
    idle, pairs = _idle.IdleStubs(), [socket.socketpair() for _ in range(_idle.MOST)]

    async def give(line: _idle.Line) -> None:
        idle.give(line, since=time.monotonic() - _idle.LINGER_SECONDS)

    for ours, _ in pairs:
        asyncio.run(give(_idle.Line(ours)))
    assert idle.take() is None
    for ours, theirs in pairs:
        assert ours.fileno() == -1
        theirs.close()


@pytest.mark.usefixtures("patience")
async def test_s3_2_a_stub_that_kept_another_tree_before_keeps_a_hostile_one_as_well(keeper: Keeper) -> None:
    _, first = await said_by(keeper, Command(("echo", "there")))
    process = await plant(keeper, SETSID)
    assert process.keeper is not None
    assert process.keeper.pid == first
    pids = [use.pid for use in process.processes()]
    assert len(pids) >= 3
    await process.end(grace=0.05)
    assert [pid for pid in pids if is_alive(pid)] == []
    assert await said_by(keeper, Command(("echo", "again"))) == (b"again\n", first)


@pytest.mark.usefixtures("patience")
async def test_s3_5_killing_a_stub_that_waits_stops_no_later_spawn(keeper: Keeper) -> None:
    _, waiting = await said_by(keeper, Command(("echo", "there")))
    os.kill(waiting, signal.SIGKILL)
    assert outlast(waiting, 10)
    said, other = await said_by(keeper, Command(("echo", "there")))
    assert (said, other != waiting) == (b"there\n", True)
    assert left(keeper) == []


@pytest.mark.usefixtures("patience")
async def test_s3_5_no_stub_waits_without_its_zygote_which_would_let_it_go_on(keeper: Keeper) -> None:
    _, waiting = await said_by(keeper, Command(("echo", "there")))
    busy = await plant(keeper, "echo ready; read line")
    assert keeper.pid is not None
    assert busy.keeper is not None
    assert busy.keeper.pid == waiting
    _, other = await said_by(keeper, Command(("echo", "there")))
    os.kill(other, signal.SIGSTOP)
    os.kill(keeper.pid, signal.SIGKILL)
    assert outlast(other, 10)
    busy.close_stdin()
    await busy.gone()
    assert outlast(waiting, 1)
    assert (await said_by(keeper, Command(("echo", "there"))))[0] == b"there\n"


@pytest.mark.usefixtures("patience")
async def test_a_command_that_may_gain_privileges_is_not_kept_by_a_stub_that_gave_up_its_own(keeper: Keeper) -> None:
    show = ("grep", "NoNewPrivs", "/proc/self/status")
    assert (await said_by(keeper, Command(show)))[0] == b"NoNewPrivs:\t1\n"
    assert (await said_by(keeper, Command(show, may_gain_privileges=True)))[0] == b"NoNewPrivs:\t0\n"
    assert (await said_by(keeper, Command(show)))[0] == b"NoNewPrivs:\t1\n"


@pytest.mark.usefixtures("patience")
async def test_an_end_that_was_asked_for_too_late_does_not_hit_the_next_tree(keeper: Keeper) -> None:
    process = await keeper.spawn(Command(("echo", "there")))
    channel = process._channel
    await process.gone()
    channel.send(b"end 0.0")
    said, stub = await said_by(keeper, shell("sleep 0.05; echo there"))
    assert process.keeper is not None
    assert (said, stub) == (b"there\n", process.keeper.pid)
    await process.end()


@pytest.mark.usefixtures("patience")
async def test_a_command_that_cannot_run_leaves_its_stub_fit_for_the_next(keeper: Keeper) -> None:
    _, first = await said_by(keeper, Command(("echo", "there")))
    for broken in (Command(("no-such-command",)), Command(("echo",), cwd="/no/such/folder")):
        with pytest.raises(SpawnError):
            await keeper.spawn(broken)
    assert await said_by(keeper, Command(("echo", "there"))) == (b"there\n", first)


def memory_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.usefixtures("patience")
async def test_a_stub_keeps_nothing_of_the_commands_that_it_could_not_run(keeper: Keeper) -> None:
    _, stub = await said_by(keeper, Command(("echo", "there")))
    for _ in range(20):
        with pytest.raises(SpawnError, match="Argument list too long"):
            await keeper.spawn(Command(("true", "x" * 2_000_000)))
    assert await said_by(keeper, Command(("echo", "there"))) == (b"there\n", stub)
    assert memory_of(stub) < 40_000_000


async def test_many_commands_at_once_are_all_run(keeper: Keeper) -> None:
    async def run(number: int) -> bytes:
        async with await keeper.spawn(Command(("echo", str(number)))) as process:
            return await process.readline()

    said = await asyncio.gather(*map(run, range(40)))
    assert said == [f"{number}\n".encode() for number in range(40)]


STOPS_ITS_STUB = "(setsid sleep 1000 &) ; kill -STOP $PPID; echo ready; sleep 1000"
STOPS_ITS_KEEPERS = "read _ _ _ zygote _ < /proc/$PPID/stat; kill -STOP $zygote; " + STOPS_ITS_STUB


async def test_a_tree_that_has_stopped_its_stub_is_ended_and_the_stub_leaves(keeper: Keeper) -> None:
    process = await plant(keeper, STOPS_ITS_STUB)
    pids = [use.pid for use in process.processes()]
    await process.end(grace=0)
    assert [pid for pid in pids if is_alive(pid)] == []
    assert left(keeper) == []


async def test_a_tree_that_has_stopped_all_its_keepers_is_ended(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kept, "PATIENCE", 0.1)
    process = await plant(keeper, STOPS_ITS_KEEPERS)
    pids = [use.pid for use in process.processes()]
    await process.end(grace=0)
    assert process.is_gone
    assert [pid for pid in pids if is_alive(pid)] == []
    assert left(keeper) == []


async def test_a_stub_that_is_stopped_for_good_goes_with_its_tree(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kept, "PATIENCE", 0.1)
    process = await plant(keeper, CHAIN)
    assert process.keeper is not None
    assert keeper.pid is not None
    os.kill(keeper.pid, signal.SIGKILL)  # which would let it go on
    assert outlast(keeper.pid, 10)
    os.kill(process.keeper.pid, signal.SIGSTOP)
    await process.end(grace=0)
    assert process.is_gone
    assert left(keeper) == []


@pytest.mark.usefixtures("patience")
async def test_s3_5_stopping_a_stub_that_waits_stops_no_later_spawn(keeper: Keeper) -> None:
    _, waiting = await said_by(keeper, Command(("echo", "there")))
    os.kill(waiting, signal.SIGSTOP)
    assert await asyncio.wait_for(said_by(keeper, Command(("echo", "there"))), 20) == (b"there\n", waiting)


async def test_s3_5_stopping_the_zygote_stops_no_later_spawn(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kept, "WAKE_SECONDS", 0.05)
    zygote = keeper._running().pid
    os.kill(zygote, signal.SIGSTOP)
    assert (await asyncio.wait_for(said_by(keeper, Command(("echo", "there"))), 20))[0] == b"there\n"
    assert keeper.pid == zygote


async def test_s3_5_a_zygote_that_was_stopped_leaves_with_its_keeper(caplog: pytest.LogCaptureFixture) -> None:
    with Keeper() as keeper:
        process = await plant(keeper, CHAIN)
        zygote = keeper.pid
        assert zygote is not None
        os.kill(zygote, signal.SIGSTOP)
    await process.end()
    assert not is_alive(zygote)
    assert caplog.text == ""


@pytest.mark.usefixtures("nothing_is_heard_of_children")
async def test_the_end_of_a_process_is_told_although_its_owner_blocks_signals(keeper: Keeper) -> None:
    process = await keeper.spawn(Command(("cat",)))
    process.close_stdin()
    assert await asyncio.wait_for(process.wait(), 20) == 0
    await process.end()


@pytest.fixture
def nothing_is_heard_of_children() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def test_a_spawn_is_cancelled_although_the_program_does_not_open(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_kept, "PATIENCE", 0.1)
    with program_that_does_not_open(tmp_path) as program:
        spawning = asyncio.create_task(keeper.spawn(Command((str(program),))))
        await until(lambda: len(started_here()) == 3)  # zygote, stub, leader
        spawning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await spawning
        assert left(keeper) == []


async def many_that_wait(keeper: Keeper) -> list[asyncio.Task[KeptProcess]]:
    """More commands at once than the zygote's socket holds, while the zygote is stopped."""
    zygote = keeper._running()
    zygote._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    os.kill(zygote.pid, signal.SIGSTOP)
    spawning = [asyncio.create_task(keeper.spawn(Command(("true",)))) for _ in range(20)]
    await asyncio.sleep(0)
    return spawning


async def test_more_commands_at_once_than_the_zygotes_socket_holds_are_all_run(keeper: Keeper) -> None:
    spawning = await many_that_wait(keeper)
    assert keeper.pid is not None
    os.kill(keeper.pid, signal.SIGCONT)
    for process in await asyncio.wait_for(asyncio.gather(*spawning), 20):
        assert await process.wait() == 0
        await process.end()


async def test_commands_that_wait_for_the_zygote_are_refused_when_its_keeper_is_closed(keeper: Keeper) -> None:
    spawning = await many_that_wait(keeper)
    zygote = keeper.pid
    assert zygote is not None
    closing = asyncio.create_task(keeper.aclose())
    await until(lambda: keeper.pid is None)
    os.kill(zygote, signal.SIGCONT)
    await closing
    outcomes = await asyncio.wait_for(asyncio.gather(*spawning, return_exceptions=True), 20)
    for process in (outcome for outcome in outcomes if isinstance(outcome, KeptProcess)):
        await process.end()
    assert {type(outcome) for outcome in outcomes} == {KeptProcess, ManagerClosedError}


async def test_a_keeper_is_closed_although_another_thread_closed_a_channel_just_now(keeper: Keeper) -> None:
    process = await plant(keeper, SETSID)
    channel = socket.socket()
    keeper._live.add(channel)  # as seen by close() before the loop's thread took it away
    channel.close()
    await keeper.aclose()
    await process.end()


@pytest.mark.parametrize("spare", range(12))
async def test_s3_3_a_lack_of_open_files_is_told_and_leaves_nothing(keeper: Keeper, spare: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, hard))
    try:
        await (await keeper.spawn(Command(("true",)))).end()
    except SpawnError as error:
        assert "raise the limit of open files" in str(error)  # noqa: PT017
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    keeper.close()
    assert os.dup(0) == lowest
    os.close(lowest)


async def test_s3_3_a_limit_on_the_size_of_files_is_told_and_leaves_nothing(keeper: Keeper) -> None:
    keeper._running()
    before = os.listdir("/proc/self/fd")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(SpawnError, match="File too large; see to the limits"):
            await keeper.spawn(Command(("true",)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir("/proc/self/fd") == before


async def test_a_limit_that_lets_no_process_be_marked_is_told(keeper: Keeper) -> None:
    resource.prlimit(keeper._running().pid, RLIMIT_LOCKS, (1000, 1000))
    with pytest.raises(SpawnError, match="raise the hard limit of file locks"):
        await keeper.spawn(Command(("true",)))
    assert left(keeper) == []


@pytest.fixture
def pids() -> Iterator[Path]:
    """A control group that counts processes."""
    points = [Path(point) for kind, point, _ in _cgroup.hierarchies() if kind == "pids"]
    if not points or not os.access(points[0] / "cgroup.procs", os.W_OK):
        pytest.skip("no control group that counts processes may be made here")
    group = points[0] / f"test-{os.getpid()}"
    group.mkdir()
    yield group
    group.rmdir()


@pytest.mark.parametrize("room", [1, 2])
async def test_s3_3_a_full_process_table_is_told_and_leaves_nothing(pids: Path, room: int) -> None:
    with Keeper() as keeper:
        (pids / "cgroup.procs").write_text(str(keeper._running().pid))
        (pids / "pids.max").write_text(str(room))  # the zygote; the zygote and a stub
        with pytest.raises(SpawnError, match="unavailable; see to the limits of processes"):
            await keeper.spawn(Command(("echo", "there")))
        assert left(keeper) == []
        (pids / "pids.max").write_text("max")
        assert (await said_by(keeper, Command(("echo", "there"))))[0] == b"there\n"


def test_s3_3_an_order_that_cannot_be_sent_is_told_and_harms_no_other_tree() -> None:
    mortal = (
        ("setpriv", "--bounding-set", "-sys_resource,-sys_admin") if os.getuid() == 0 else ()
    )  # else all is allowed
    with owner("overfull", wrapper=mortal) as process:
        said = heard(process)
    assert "Too many references" in said["refused"]
    assert said["said"] == "still here\n"


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("room", [3, 7, 8, 9, 10, 11, 13])
async def test_s3_3_a_stub_without_room_for_files_says_so_or_runs_the_command_with_all_of_them(
    keeper: Keeper, room: int
) -> None:
    _, stub = await said_by(keeper, Command(("echo", "there")))
    await until(lambda: Path(f"/proc/{stub}/comm").read_text() == "holdfast-spare\n")
    resource.prlimit(stub, resource.RLIMIT_NOFILE, (room, room))
    try:
        assert await said_by(keeper, Command(("echo", "there"))) == (b"there\n", stub)
    except SpawnError as error:
        assert "Too many open files" in str(error)  # noqa: PT017
    assert (await said_by(keeper, Command(("echo", "again"))))[0] == b"again\n"


async def test_a_zygote_without_room_for_files_lives_on(keeper: Keeper) -> None:
    await said_by(keeper, Command(("echo", "there")))
    keeper._idle.hang_up()
    before = keeper.pid
    assert before is not None
    limits = resource.prlimit(before, resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with pytest.raises(SpawnError, match="its keeper was killed"):
        await keeper.spawn(Command(("true",)))
    resource.prlimit(before, resource.RLIMIT_NOFILE, limits)
    assert (await said_by(keeper, Command(("echo", "again"))))[0] == b"again\n"
    assert keeper.pid == before


async def test_s3_5_killing_all_keepers_at_once_leaves_nothing(keeper: Keeper) -> None:
    process = await plant(keeper, SETSID)
    assert process.keeper is not None
    assert keeper.pid is not None
    pids = [use.pid for use in process.processes()]
    os.kill(keeper.pid, signal.SIGSTOP)  # so that it cannot help
    os.kill(process.keeper.pid, signal.SIGKILL)
    os.kill(keeper.pid, signal.SIGKILL)
    await process.gone()
    assert [pid for pid in pids if is_alive(pid)] == []
    await process.end()


async def test_what_cannot_be_killed_is_never_said_to_be_gone() -> None:
    class Hopeless(SystemProcessTable):
        """Something with the tag is there, whatever is done about it, until it leaves by itself."""

        def carriers(self, tag: int) -> list[int]:
            return [stranger.pid] if stranger.poll() is None else []

    with Keeper(Hopeless()) as keeper, subprocess.Popen(["sleep", "1000"]) as stranger:  # noqa: ASYNC220
        process = await plant(keeper, CHAIN)
        assert process.keeper is not None
        os.kill(process.keeper.pid, signal.SIGKILL)
        with pytest.raises(StuckError, match=r"sh could not be ended: process \d+ left"):
            await process.end(grace=20)
        assert not process.is_gone
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()
        await process.end(grace=20)
        assert process.is_gone


async def test_what_cannot_be_looked_for_is_not_said_to_be_gone_and_is_looked_for_again(keeper: Keeper) -> None:
    process = await plant(keeper, CHAIN)
    assert process.keeper is not None
    os.kill(process.keeper.pid, signal.SIGKILL)
    with no_file_is_left(), pytest.raises(StuckError, match="unknown left"):
        await process.end(grace=20)
    assert not process.is_gone
    await process.end(grace=20)
    assert process.is_gone


async def test_signals_that_end_a_server_do_not_end_its_keepers(keeper: Keeper) -> None:
    process = await plant(keeper, "echo ready; exec cat")
    assert process.keeper is not None
    assert keeper.pid is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(process.keeper.pid, number)
        os.kill(keeper.pid, number)
    await process.write(b"still here\n")
    assert await process.readline() == b"still here\n"
    await process.end()


async def test_closing_a_keeper_ends_what_was_left_running(keeper: Keeper) -> None:
    process = await plant(keeper, SETSID)
    await keeper.aclose()
    await process.gone()
    await process.end()
    assert left(keeper) == []
    with pytest.raises(ManagerClosedError):
        await keeper.spawn(Command(("true",)))


def test_s3_12_a_system_without_the_means_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.resources._platform.sys.platform", "darwin")
    monkeypatch.setattr("holdfast.resources._portable_ps.PLACES", ())
    with pytest.raises(PlatformError, match="kept processes need the command ps on darwin"):
        Keeper()
