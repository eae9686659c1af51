"""`KeptProcess`: a process tree under its keeper."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Any, Literal, Self

from msgspec import Struct

from holdfast.clock import check_seconds
from holdfast.context import Forks
from holdfast.errors import PlatformError, SpawnError, StuckError, UsageError
from holdfast.logs import get_logger
from holdfast.ports import ProcessIdentity, ProcessTable, ProcessUse
from holdfast.resources._cgroup import find_groups, kill, remove
from holdfast.resources._loops import on_loop
from holdfast.resources._pipes import InPipe, OutPipe, Ring
from holdfast.resources._sandbox import Sandbox
from holdfast.resources._table import has_pidfs

log = get_logger("resources")

GRACE = 2.0
PATIENCE = 5.0
"""How long the keeper gets to answer that everything is gone, after the grace."""
WAKE_SECONDS = 1.0
"""After how long without an answer the keeper is woken, in case that somebody has stopped it."""

LACKS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
ADVICE = {
    errno.E2BIG: "give it less on its command line and in its environment",
    errno.EINVAL: "see that no word holds a null character, and no variable's name an equals sign",
    **dict.fromkeys(LACKS, "see to the limits of processes, memory and open files here"),
}

Feed = Callable[[bytes], None]
CloseHook = Callable[[], Awaitable[object]]


class Command(Struct, frozen=True):
    """What to run, and how."""

    argv: tuple[str, ...]
    env: dict[str, str] | None = None
    """all of its environment; None for that of this process, of which a sandbox passes on language, time zone and PATH only"""
    cwd: str | None = None
    stderr: Literal["ring", "pipe", "stdout"] = "ring"
    """drained, and its last 64 KB kept; to be read by the caller; or sent where standard output goes"""
    may_gain_privileges: bool = False
    """whether `sudo` and the like work in it; what they start may be impossible to end"""
    grace: float = GRACE
    """seconds between SIGTERM and SIGKILL, unless `end()` says otherwise"""
    sandbox: Sandbox | None = None
    """what to confine it to; where that cannot be done it is not run"""
    stdin: Literal["pipe", "nothing"] = "pipe"
    """to be written by the caller, or at its end from the start"""

    def __post_init__(self) -> None:
        check_seconds(grace=self.grace)

    def key(self) -> Hashable:
        """Equal for commands that are the same in every respect."""
        env = None if self.env is None else tuple(sorted(self.env.items()))
        how = (self.cwd, self.stdin, self.stderr, self.may_gain_privileges, self.grace, self.sandbox)
        return (self.argv, env, *how)


class Stdio(Struct):
    """Our ends of a tree's pipes, until they are taken."""

    handles: list[int]
    """standard input and error, if they have pipes of their own, and output between them"""

    def take(self) -> int:
        return self.handles.pop(0)

    def close(self) -> None:
        while self.handles:
            os.close(self.take())


class KeptProcess:
    """A running command and everything it started. `end()` it, or use it in `async with`; it never outlives this process.

    Its methods may be called on any event loop; its pipes live on the one it was spawned on.
    """

    def __init__(
        self,
        command: Command,
        tag: int,
        channel: socket.socket,
        live: set[socket.socket],
        table: ProcessTable,
        give_back: Callable[[float], None] | None = None,
    ) -> None:
        """`give_back` takes the channel when the tree is gone, and since when it is; the channel is closed without it."""
        self.command = command
        self.tag = tag
        """Carried by every process of the tree."""
        self.leader: ProcessIdentity | None = None
        self.keeper: ProcessIdentity | None = None
        self.goodbye: CloseHook | None = None
        """A protocol's way to take leave before the end."""
        self._table = table
        self._channel = channel
        self._give_back = give_back or (lambda since: channel.close())
        self._live = live
        live.add(channel)
        self._generation = Forks.generation
        self._loop = asyncio.get_running_loop()
        self._ring = Ring()
        self._in: InPipe | None = None
        self._outs: list[OutPipe] = []
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._stuck: asyncio.Future[list[int]] = self._loop.create_future()
        self._search: asyncio.Task[None] | None = None
        self._loop.add_reader(channel.fileno(), self._hear)

    def __repr__(self) -> str:
        return f"<KeptProcess {self.pid} {' '.join(self.command.argv)[:60]}>"

    async def open(self, stdio: Stdio, wake: Callable[[], None]) -> None:
        """Take over the pipes and wait until the command runs. Raises SpawnError if it cannot. The keeper calls this."""
        if self.command.stdin == "pipe":
            self._in = await InPipe.open(stdio.take())
        self._outs.append(OutPipe(stdio.take()))
        if self.command.stderr != "stdout":
            self._outs.append(OutPipe(stdio.take()))
        if self.command.stderr == "ring":
            self._outs[1].pour(self._ring.feed)
        while not (await asyncio.wait({self._started}, timeout=WAKE_SECONDS))[0]:
            wake()
        self._started.result()

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """Of the first process; 0 before it runs."""
        return self.leader.pid if self.leader else 0

    @property
    def returncode(self) -> int | None:
        """How the first process ended: its code, or minus the signal (in a sandbox 128 more than it); None while it runs."""
        return self._exited.result() if self._exited.done() else None

    @property
    def is_gone(self) -> bool:
        """Whether it is proved that no process of the tree is left."""
        return self._gone.done()

    def processes(self) -> list[ProcessUse]:
        """Every process of the tree now, with its memory."""
        return self._table.tree(self.keeper.pid) if self.keeper and not self.is_gone else []

    def stderr_tail(self) -> bytes:
        """The last of what it wrote to standard error."""
        return self._ring.tail()

    # -- talking to it ---------------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """To its standard input; waits while too much is unread. Raises ConnectionError if nobody reads."""
        if self._in is None:
            raise UsageError("its standard input is empty; spawn the command with stdin='pipe'")
        await on_loop(self._loop, self._in.write(data))

    def close_stdin(self) -> None:
        """Let it see the end of its input, after what was written."""
        if self._in is not None:
            self._loop.call_soon_threadsafe(self._in.close)

    async def read(self, size: int = 65536) -> bytes:
        """Some of its standard output; empty at the end."""
        return await on_loop(self._loop, self._reader(0).read(size))

    async def readline(self) -> bytes:
        """A line of its standard output; what is left without a line feed at the end. Raises ValueError over a megabyte."""
        return await on_loop(self._loop, self._reader(0).readline())

    async def read_stderr(self, size: int = 65536) -> bytes:
        """Some of its standard error, if the command has it as a `pipe`."""
        return await on_loop(self._loop, self._reader(1).read(size))

    def pour(self, out: Feed, error: Feed) -> asyncio.Future[None]:
        """Give all that it writes to `out` and `error`, as it comes; its `stderr` must be a `pipe`. On the loop it was spawned on.

        Done when both are at their end; with what a feed raises as soon as it does, and then that one is read no more.
        """
        both: asyncio.Future[None] = self._loop.create_future()
        open_pipes = {self._reader(0).pour(out), self._reader(1).pour(error)}

        def note(ended: asyncio.Future[None]) -> None:
            open_pipes.discard(ended)
            problem = ended.exception()
            if both.done():
                return
            if problem is not None:
                both.set_exception(problem)
            elif not open_pipes:
                both.set_result(None)

        for ended in open_pipes:
            ended.add_done_callback(note)
        return both

    def _reader(self, number: int) -> OutPipe:
        if number and self.command.stderr != "pipe":
            raise UsageError("standard error is not read by the caller; spawn the command with stderr='pipe'")
        return self._outs[number]

    # -- its end ---------------------------------------------------------------------------------------------------

    async def wait(self) -> int:
        """Wait for the end of the first process and say how it ended, as `returncode` does. Others may be left."""
        return await on_loop(self._loop, _result(self._exited))

    async def gone(self) -> None:
        """Wait until no process of the tree is left, however that comes about."""
        await on_loop(self._loop, _result(self._gone))

    async def end(self, grace: float | None = None) -> None:
        """End the whole tree: `goodbye()`, end of input, SIGTERM to all, `grace` seconds, SIGKILL to all, until it is proved gone.

        The goodbye gets no longer than the grace. Raises StuckError if something cannot be killed. Twice is fine; the
        shorter grace counts. In a forked child it does nothing: the tree is the parent's.
        """
        check_seconds(grace=grace)
        if self._generation == Forks.generation:
            await on_loop(self._loop, self._end(self.command.grace if grace is None else grace))

    async def _end(self, grace: float) -> None:
        if self.goodbye is not None and grace > 0 and not self._exited.done():
            await self._say_goodbye(self.goodbye, grace)
        if not self._gone.done():
            if self._in is not None:
                self._in.abort()
            if not await self._ask_for_end(grace):  # held by a file that does not open, or stopped with its zygote
                await asyncio.shield(self._do_without_keeper("does not answer"))
        if not self._gone.done():
            left = _list(self._stuck.result())
            raise StuckError(f"{self.command.argv[0]} could not be ended: {left} left; end them by hand, as their user")
        for pipe in self._outs:
            pipe.close()

    async def _ask_for_end(self, grace: float) -> bool:
        """Whether there was an answer. There is none from a keeper that was found missing before."""
        if self._search is not None and self._search.done():
            return False
        self._tell(f"end {grace}")
        answers: set[asyncio.Future[Any]] = {self._gone, self._stuck}
        done, _ = await asyncio.wait(answers, timeout=grace + PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)

    async def _say_goodbye(self, goodbye: CloseHook, grace: float) -> None:
        try:
            await asyncio.wait_for(goodbye(), grace)
        except Exception as error:
            log.info("%s took no leave: %s; ending it all the same", self.command.argv[0], repr(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    # -- the keeper's word -----------------------------------------------------------------------------------------

    def _tell(self, message: str) -> None:
        try:
            self._channel.send(message.encode())
        except OSError as error:  # it is gone; `_hear` learns of that by itself
            log.debug("the keeper of %s does not listen: %s", self, error)

    def _hear(self) -> None:
        try:
            word, _, rest = self._receive().decode().partition(" ")
        except BlockingIOError:
            return
        except OSError:
            word, rest = "", ""
        hear = {
            "started": self._on_started,
            "failed": self._on_failed,
            "exit": self._on_exit,
            "stuck": self._on_stuck,
            "crowded": self._on_crowded,
            "alone": self._on_alone,
        }
        if word in hear:
            hear[word](rest)
            return
        if word != "gone":
            self._do_without_keeper("was killed")
            return
        since, *status = rest.split()
        self._stop_hearing()
        self._give_back(float(since))
        if status:
            self._on_exit(status[0])
        self._on_gone()

    def _stop_hearing(self) -> None:
        self._loop.remove_reader(self._channel.fileno())
        self._live.discard(self._channel)

    def _do_without_keeper(self, why: str) -> asyncio.Task[None]:
        """Look for what it kept; again, if something was left the last time. It leaves, if it can, since we hang up."""
        if self._search is None:
            log.warning("the keeper of %s %s; killing what it kept", self, why)
            self._stop_hearing()
            self._channel.close()
        if self._search is None or self._search.done():
            self._stuck = self._loop.create_future() if self._stuck.done() else self._stuck
            self._search = self._loop.create_task(self._find_the_rest())
        return self._search

    def _receive(self) -> bytes:
        try:
            return self._channel.recv(65536)
        except ConnectionResetError:  # it left without reading our last word; its own is still to be read
            return self._channel.recv(65536)

    def _on_started(self, text: str) -> None:
        numbers = [int(word) for word in text.split()]
        place, known = self._table.place(), has_pidfs()
        self.leader, self.keeper = (
            ProcessIdentity(place, pid, started, inode if known else 0)
            for pid, started, inode in (numbers[:3], numbers[3:])
        )
        self._started.set_result(None)

    def _on_failed(self, text: str) -> None:
        number, _, stage = text.partition(" ")
        if not self._started.done():
            self._started.set_exception(SpawnError(_why(self.command, int(number), stage)))
            self._started.exception()  # looked at, also when nobody waits
        else:
            log.error("the keeper of %s broke: %s", self, stage)

    def _on_exit(self, text: str) -> None:
        self._exited.set_result(os.waitstatus_to_exitcode(int(text)))

    def _on_stuck(self, text: str) -> None:
        if not self._stuck.done():
            self._stuck.set_result([int(pid) for pid in text.split()])

    def _on_crowded(self, text: str) -> None:
        log.warning("%s is ended: %s processes and threads are more than its sandbox allows", self, text)

    def _on_alone(self, text: str) -> None:
        log.debug("%s has no control group of its own, which changes nothing: %s", self, text)

    def _on_gone(self) -> None:
        if not self._started.done():
            self._on_failed("0 keeper")
        if not self._exited.done():
            self._exited.set_result(-9)
        self._gone.set_result(None)
        if self._in is not None:
            self._in.abort()

    async def _find_the_rest(self) -> None:
        if not self._exited.done() and self.leader is not None:
            self._exited.set_result(-9)
        try:
            left = await asyncio.to_thread(kill_carriers, self._table, self.tag)
        except (OSError, RuntimeError, PlatformError) as error:  # no room for files or a thread: nothing is proved
            log.error("what %s left cannot be looked for: %s", self, error)
            self._on_stuck("")
            return
        if left:
            self._on_stuck(" ".join(map(str, left)))
        else:
            self._on_gone()


def kill_carriers(table: ProcessTable, tag: int, rounds: int = 200) -> list[int]:
    """Kill whatever carries a tag until two looks in a row find nothing, and remove its control group. Returns what is still there
    after many looks.

    Blocks; for a thread.
    """
    for group in find_groups(tag):
        kill(group, tag)
    clean = 0
    found: list[int] = []
    for _ in range(rounds):
        found = table.carriers(tag)
        clean = 0 if found else clean + 1
        if clean == 2:
            for group in find_groups(tag):
                remove(group)
            return []
        for pid in found:
            table.kill_carrier(pid, tag)
        if found:
            time.sleep(0.005)  # the dying take a moment
    return found


async def _result(future: asyncio.Future[int] | asyncio.Future[None]) -> int:
    return await asyncio.shield(future) or 0


def _why(command: Command, number: int, stage: str) -> str:
    """What went wrong, and what to do."""
    name = command.argv[0]
    if number in LACKS:
        return f"cannot start {name}: {os.strerror(number)}; {ADVICE[number]}"
    if stage == "tag":
        return f"cannot start {name}: its processes cannot be marked; raise the hard limit of file locks (ulimit -x unlimited)"
    if stage == "cwd":
        return f"cannot start {name} in {command.cwd}: {os.strerror(number)}; see to that folder"
    if stage == "command" and number == errno.ENOENT:
        return f"cannot start {name}: there is no such command; install it, or give its full path"
    if stage == "command":
        advice = ADVICE.get(number, "see to the file and its permissions")
        return f"cannot start {name}: {os.strerror(number)}; {advice}"
    detail = os.strerror(number) if number else "its keeper was killed"
    return f"cannot start {name}: {detail} ({stage})"


def _list(pids: list[int]) -> str:
    return f"process {', '.join(map(str, pids)) or 'unknown'}"
