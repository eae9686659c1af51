"""`FileDoor`: files an agent reads and writes through us, and only inside the folders it was given.

A path is resolved first, links and all, and must lie inside an allowed folder. Then it is walked from that folder, one name
at a time, without following a link: a link that appears in between is an error, not a way out.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.acp._peer import RefusedError

FILE_BYTES = 16 * 1024 * 1024
"""The largest file that is read or written."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe must not wait for a writer


class FileDoor:
    """What one session may read and write. Its methods block; call them in a thread. Each raises RefusedError with the reason."""

    def __init__(self, readable: tuple[str, ...], writable: tuple[str, ...]) -> None:
        self._writable = tuple(map(os.path.realpath, writable))
        self._readable = (*map(os.path.realpath, readable), *self._writable)

    def read(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, or `limit` lines of it from `line`, counted from 1."""
        with _reported(path), _opened(self._place(path, self._readable)) as (folder, name):
            handle = os.open(name, _FILE, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                _check_file(handle, path)
                text = file.read(FILE_BYTES + 1).decode(errors="replace")
        if line is None and limit is None:
            return text
        begin = max((line or 1) - 1, 0)
        return "".join(text.splitlines(keepends=True)[begin : None if limit is None else begin + limit])

    def write(self, path: str, text: str) -> None:
        """Replace a file as a whole or not at all; it and the folders above it are made if they are not there."""
        data = text.encode(errors="surrogatepass")
        if len(data) > FILE_BYTES:
            raise RefusedError(
                f"{path}: {len(data):,} bytes are more than the {FILE_BYTES:,} that may be written at once"
            )
        with _reported(path), _opened(self._place(path, self._writable), make=0o777) as (folder, name):
            _replace(folder, name, data)

    def check_folder(self, path: str) -> str:
        """The real path of a folder that may be worked in."""
        root, names = self._place(path, self._readable)
        return os.path.join(root, *names)

    def _place(self, path: str, roots: tuple[str, ...]) -> tuple[str, list[str]]:
        """The allowed folder that a path lies in, and the names from there."""
        if not os.path.isabs(path) or "\0" in path:
            raise RefusedError(f"{path!r} is not an absolute path")
        real = os.path.realpath(path)
        for root in roots:
            if real == root:
                return root, []
            if real.startswith(root.rstrip("/") + "/"):
                return root, real[len(root.rstrip("/")) + 1 :].split("/")
        raise RefusedError(f"{path} is outside the folders that this session may use")


@contextmanager
def _opened(place: tuple[str, list[str]], make: int = 0) -> Iterator[tuple[int, str]]:
    """The folder that the last name of a place is in, open, and that name. Folders on the way are made with the mode `make`."""
    root, names = place
    if not names:  # the root itself may be a file that was allowed by name
        root, names = os.path.dirname(root), [os.path.basename(root)]
    folder = os.open(root, _FOLDER)
    try:
        for name in names[:-1]:
            folder = _step(folder, name, make)
        yield folder, names[-1]
    finally:
        os.close(folder)


def _step(folder: int, name: str, make: int) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, make, dir_fd=folder)
    below = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return below


def _replace(folder: int, name: str, data: bytes) -> None:
    """Write beside the file and put it in its place: a reader sees the old or the new, and a link is replaced, not followed."""
    mode = _mode(folder, name)
    beside = f".{name[:100]}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(beside, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(handle, mode)
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(beside, dir_fd=folder)
        raise


def _mode(folder: int, name: str) -> int | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
        raise RefusedError(f"{name} is no regular file")
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None


def _check_file(handle: int, path: str) -> None:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError(f"{path} is no regular file")
    if found.st_size > FILE_BYTES:
        raise RefusedError(f"{path} has {found.st_size:,} bytes, more than the {FILE_BYTES:,} that may be read at once")


@contextmanager
def _reported(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RefusedError(f"{path}: {error.strerror or error}") from error
