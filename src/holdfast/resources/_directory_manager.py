"""`DirectoryManager`: temporary directories that go with the run that asked for them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.errors import ResourceError, StuckError
from holdfast.ports import Ledger, LedgerRow, ProcessTable
from holdfast.resources._entries import Limits
from holdfast.resources._pool import PooledManager

PREFIX = "holdfast-"


class DirectorySpec(Struct, frozen=True):
    """A directory of one's own, new and empty."""

    name: str = "scratch"
    parent: str | None = None
    """where to make it; None for the system's place for temporary files"""

    def key(self) -> Hashable:
        return (self.name, self.parent)


class DirectoryManager(PooledManager[DirectorySpec, Path]):
    """Directories, one for each lease, removed with all they hold when it is released."""

    kind = "directory"

    def __init__(
        self, ledger: Ledger, *, table: ProcessTable | None = None, total: int = 1000, clock: Clock | None = None
    ) -> None:
        limits = Limits(total=total, per_key=total, sharing=1)  # never kept: another run would find what is in it
        super().__init__(ledger, table=table, limits=limits, clock=clock)

    def intend(self, spec: DirectorySpec, row: LedgerRow) -> LedgerRow:
        # Resolved: where the place for temporary files is a link, the link may point elsewhere when the sweep comes.
        parent = os.path.realpath(spec.parent or tempfile.gettempdir())
        return replace(row, path=os.path.join(parent, PREFIX + row.id))

    async def make(self, spec: DirectorySpec, row: LedgerRow) -> tuple[Path, LedgerRow]:
        try:
            os.mkdir(row.path, 0o700)
        except OSError as error:
            raise ResourceError(f"{row.path} cannot be made: {error.strerror}; see to the folder it is in") from error
        return Path(row.path), row

    async def is_healthy(self, resource: Path) -> bool:
        return await asyncio.to_thread(resource.is_dir)

    async def end(self, resource: Path) -> None:
        if problem := await asyncio.to_thread(remove_tree, resource):
            raise StuckError(f"{resource} cannot be removed: {problem}; remove it by hand")

    async def end_orphan(self, row: LedgerRow) -> str:
        return await end_directory_row(row)


async def end_directory_row(row: LedgerRow) -> str:
    """Remove the directory of a row, if its name is the one that only we give."""
    if os.path.basename(row.path) != PREFIX + row.id:
        return f"{row.path!r} is not a name that we give"
    return await asyncio.to_thread(remove_tree, Path(row.path))


def remove_tree(path: Path) -> str:
    """Remove a directory and all in it, without following a link. Returns why it is still there, or nothing."""
    if path.is_symlink():
        return f"{path} is a link, which we never make"
    try:
        try:
            shutil.rmtree(path)
        except PermissionError:
            _unlock(path)
            shutil.rmtree(path)
    except FileNotFoundError:
        return ""
    except RecursionError:  # a program may make folders in folders without an end
        return _remove_deep(path)
    except OSError as error:
        return str(error)
    return ""


def _remove_deep(path: Path) -> str:
    """By `rm`, which goes down any number of folders, and follows no link either."""
    try:
        done = subprocess.run(["rm", "-rf", "--", path], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.decode(errors="replace").strip()[:500]


def _unlock(path: Path) -> None:
    """Give ourselves back the right to change folders that a program locked."""
    _allow(str(path))
    for folder, names, _ in os.walk(path):
        for name in names:
            _allow(os.path.join(folder, name))


def _allow(folder: str) -> None:
    with suppress(OSError):  # a link, or not ours: removing it tells
        if not hasattr(os, "O_PATH"):  # macOS, which can change the mode of a link itself
            os.chmod(folder, 0o700, follow_symlinks=False)
            return
        handle = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
