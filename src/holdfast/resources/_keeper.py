"""`Keeper`: starts process trees that die with this process, however it dies."""

from __future__ import annotations

import asyncio
import marshal
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from errno import EBADF, ECONNRESET, EMFILE, ENFILE, ENOTCONN, EPIPE
from functools import partial
from types import TracebackType
from typing import Self

from msgspec import Struct

from holdfast.context import Forks
from holdfast.errors import ManagerClosedError, SpawnError, UsageError
from holdfast.logs import get_logger
from holdfast.ports import ProcessTable
from holdfast.resources._bubblewrap import enclose
from holdfast.resources._idle import IdleStubs, Line, rest_seconds
from holdfast.resources._kept import WAKE_SECONDS, Command, KeptProcess, Stdio
from holdfast.resources._loops import surely
from holdfast.resources._means import Means, find_means
from holdfast.resources._sandbox import Sandbox
from holdfast.resources._table import SystemProcessTable

log = get_logger("resources")

CLOSE_SECONDS = 5.0
GONE = (EPIPE, ECONNRESET, ENOTCONN, EBADF)
"""What sending says when the zygote is gone, or was closed. Anything else is a lack on our side."""


def new_tag() -> int:
    """A number for a tree's processes to carry: large enough that nobody else's limit is the same."""
    return secrets.randbits(62) | 1 << 61


class Keeper:
    """Starts process trees under keepers of their own. One for a process is enough; close it when done.

    On Linux it raises PlatformError where /proc is missing; elsewhere it does what can be done, which is less.
    """

    def __init__(self, table: ProcessTable | None = None) -> None:
        self._means = find_means()
        self.table: ProcessTable = table or SystemProcessTable()
        self._closed = False
        self._begin_process()

    def _begin_process(self) -> None:
        """Start with nothing: in a forked child the zygote is the parent's."""
        self._generation = Forks.generation
        self._lock = threading.Lock()
        self._zygote: _Zygote | None = None
        self._idle = IdleStubs()
        self._live: set[socket.socket] = set()
        """The channels to the trees that live."""

    async def spawn(self, command: Command, *, tag: int = 0) -> KeptProcess:
        """Start a command. Its pipes belong to the running loop. Raises SpawnError if it cannot run, SandboxError if it cannot be
        confined as it says; then nothing is left. Text is turned into bytes as `subprocess` does, by os.fsencode().

        `tag` is what its processes carry, made before if it was written down before.
        """
        if not command.argv:
            raise UsageError("a command needs at least the name of a program")
        try:
            return await self._spawn(command, tag or new_tag())
        except OSError as error:
            raise _lacking(command, error) from error
        except UnicodeEncodeError as error:
            raise _unsayable(error) from error

    async def _spawn(self, command: Command, tag: int) -> KeptProcess:
        self._running()  # refused before there is anything to clean up
        if command.sandbox is not None:
            self._means.check_sandboxes()
        spec = await _spec(command, tag)
        pipes = _Pipes.make(command)
        try:
            line = await self._order(command, spec, pipes)
            give_back = partial(self._idle.give, line) if self._means.has_stubs else None
            process = KeptProcess(command, tag, line.channel, self._live, self.table, give_back)
            pipes.close_theirs()
            try:
                await process.open(pipes.ours, self._wake)
            except BaseException:
                await surely(process.end(grace=0))
                raise
        finally:
            pipes.close_theirs()
            pipes.ours.close()
        return process

    async def _order(self, command: Command, spec: bytes, pipes: _Pipes) -> Line:
        """Have a stub start it that waits, or have the zygote fork one. The channel to it. Raises SpawnError."""
        handles = [self._means.hold(spec), *pipes.theirs]
        try:
            line = None if command.may_gain_privileges else self._idle.take()  # it gave up what they need
            if line is not None and line.send(handles):
                return line
            return await self._order_fork(command, handles)
        finally:
            os.close(handles[0])

    async def _order_fork(self, command: Command, handles: list[int]) -> Line:
        channel, theirs = self._means.channel_pair()
        channel.setblocking(False)
        try:
            with theirs:  # if no stub has it, closing it says so
                for _ in range(2):
                    zygote = self._running()
                    if await zygote.order([theirs.fileno(), *handles]):
                        return Line(channel)
                    self._drop(zygote)
        except BaseException:
            channel.close()
            raise
        channel.close()
        raise SpawnError(f"cannot start {command.argv[0]}: the keeper does not stay alive; see its process's limits")

    def _running(self) -> _Zygote:
        if self._generation != Forks.generation:
            self._begin_process()
        with self._lock:
            if self._closed:
                raise ManagerClosedError("this Keeper was closed and starts nothing more; make another one")
            if self._zygote is None:
                self._zygote = _Zygote(self._means)
            return self._zygote

    def _wake(self) -> None:
        if (zygote := self._zygote) is not None:
            zygote.wake()

    def _drop(self, zygote: _Zygote) -> None:
        with self._lock:
            if self._zygote is not zygote:  # somebody else did, or closes all
                return
            self._zygote = None
        zygote.close()

    @property
    def pid(self) -> int | None:
        """Of the zygote, if it runs."""
        return self._zygote.pid if self._zygote else None

    def close(self) -> None:
        """Start nothing more, end what is left, and wait for it. Twice is fine."""
        with self._lock:
            self._closed = True
            zygote, self._zygote = self._zygote, None
        self._idle.close()
        if zygote is not None and self._generation == Forks.generation:
            for channel in list(self._live):
                with suppress(OSError):  # its tree is gone just now, and another thread closed it
                    channel.shutdown(socket.SHUT_WR)  # its stub takes that for our end, and still says when it is gone
            zygote.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_zygote", None) is not None and self._generation == Forks.generation:
            warnings.warn(f"{self!r} was never closed", ResourceWarning, stacklevel=2, source=self)


class _Zygote:
    """The running program and our end of its control socket."""

    def __init__(self, means: Means) -> None:
        self._control, theirs = means.control_pair()
        self._control.setblocking(False)
        with theirs:
            try:
                self._process = means.launch(theirs)
            except OSError:  # too many open files, or processes
                self._control.close()
                raise
        self.pid = self._process.pid

    async def order(self, handles: list[int]) -> bool:
        """Send the ends of a new tree. False if the zygote is gone. Raises OSError if too much is on its way to it."""
        while True:
            try:
                socket.send_fds(self._control, [b"spawn"], handles)
                return True
            except BlockingIOError:
                await _writable(self._control, WAKE_SECONDS)
                self.wake()
            except OSError as error:
                if error.errno not in GONE:  # its trees live
                    raise
                return False

    def wake(self) -> None:
        """Let it go on if somebody stopped it. It does the same for its stubs."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Let it end: it does once its last tree is gone, which it sees to when we hang up."""
        with suppress(OSError):  # it may be gone
            self._control.shutdown(socket.SHUT_RDWR)  # a forked child of ours may have it open
        self._control.close()
        self.wake()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("keeper %s still has processes that it cannot end", self.pid)


class _Pipes(Struct):
    """Both ends of a tree's standard streams."""

    ours: Stdio
    theirs: list[int]

    @classmethod
    def make(cls, command: Command) -> _Pipes:
        ours: list[int] = []
        theirs: list[int] = []
        try:
            if command.stdin == "nothing":
                theirs.append(os.open(os.devnull, os.O_RDONLY))
            else:
                _pipe(theirs, ours)
            _pipe(ours, theirs)
            if command.stderr == "stdout":
                theirs.append(theirs[-1])
            else:
                _pipe(ours, theirs)
        except OSError:  # too many open files
            for handle in {*ours, *theirs}:
                os.close(handle)
            raise
        return cls(Stdio(ours), theirs)

    def close_theirs(self) -> None:
        """Once they were passed on: only the tree's own copies keep the pipes open."""
        for handle in {*self.theirs}:
            os.close(handle)
        self.theirs = []


def _lacking(command: Command, error: OSError) -> SpawnError:
    advice = "raise the limit of open files" if error.errno in (EMFILE, ENFILE) else "see to the limits of this process"
    return SpawnError(f"cannot start {command.argv[0]}: {error}; {advice}")


def _unsayable(error: UnicodeEncodeError) -> UsageError:
    return UsageError(
        f"a command, its environment and its folder cannot hold {error.object[error.start]!a}, which is half a character and has "
        "no bytes; leave it out, or make text from bytes with os.fsdecode()"
    )


def _pipe(readers: list[int], writers: list[int]) -> None:
    reader, writer = os.pipe()
    readers.append(reader)
    writers.append(writer)


async def _spec(command: Command, tag: int) -> bytes:
    """What the stub is told to run."""
    if command.sandbox is None:
        env = os.environb if command.env is None else _encoded(command.env)
        return _encode(command, tag, argv=command.argv, env=dict(env), options=b"", most=0)
    enclosed = await asyncio.to_thread(enclose, command, command.sandbox)
    options = b"".join(os.fsencode(word) + b"\0" for word in enclosed.options)
    return _encode(command, tag, argv=enclosed.argv, env={}, options=options, most=_uncounted(command.sandbox))


def _encoded(env: dict[str, str]) -> dict[bytes, bytes]:
    """As os.fsencode() would, which takes several times as long for a whole environment."""
    encoding, errors = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
    return {name.encode(encoding, errors): value.encode(encoding, errors) for name, value in env.items()}


def _uncounted(sandbox: Sandbox) -> int:
    """How many tasks the keeper has to see to: the kernel lets root start any number. The wrapper's own two do not count."""
    return sandbox.processes + 2 if os.getuid() == 0 else 0


def _encode(
    command: Command, tag: int, *, argv: tuple[str, ...], env: dict[bytes, bytes], options: bytes, most: int
) -> bytes:
    return marshal.dumps(
        {
            "argv": [os.fsencode(word) for word in argv],
            "env": env,
            "cwd": os.fsencode(os.path.abspath(command.cwd or ".")),  # the zygote is elsewhere
            "tag": tag,
            "rest": rest_seconds(),
            "privileges": command.may_gain_privileges,
            "options": options,
            "most": most,
        }
    )


async def _writable(sock: socket.socket, seconds: float) -> None:
    """Wait until a socket takes more, or for so long. Each who waits has a file of its own: the socket may be closed meanwhile."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    with sock.dup() as own, suppress(TimeoutError):
        loop.add_writer(own, ready.set)
        try:
            await asyncio.wait_for(ready.wait(), seconds)
        finally:
            loop.remove_writer(own)
