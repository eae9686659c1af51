"""`JsonProvider`: each checkpoint a file of its own, which any machine can restore from."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from holdfast.checkpoints._document import Head, decode_document
from holdfast.checkpoints._files import read_document, read_head, remove_file, sweep, write_file
from holdfast.checkpoints._pruning import check_asked, newest_first, select_old
from holdfast.errors import ClosedError, StorageError
from holdfast.logs import get_logger
from holdfast.ports import CheckpointInfo
from holdfast.ports._checkpoints import Infos
from holdfast.stores._closing import Closing

log = get_logger("checkpoints")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch


class JsonProvider(Closing):
    """Checkpoints as files: `DIRECTORY/RUN/TIME_ID.json`, each whole and self-contained, for its owner's eyes only.

    A file is as large as its run is long: for long runs take `SqliteProvider`, which stores what changed. Runs that use this
    provider keep their journal in memory and go on from a file or the id of a checkpoint; the id of a run means nothing here.
    A file that cannot be written is told of by a `CheckpointFailedEvent`, and its run goes on. Any document put into the
    directory, or one folder below, is listed; what is none is skipped with a warning. Several processes may share the directory.
    """

    journal = None

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).expanduser().absolute()
        self._closed = False

    def __repr__(self) -> str:
        return f"JsonProvider({str(self.directory)!r})"

    # -- the port --------------------------------------------------------------------------------------------------

    def write(self, document: bytes) -> str:
        self._check_open()
        mark = decode_document(document).mark
        at = (_EPOCH + timedelta(microseconds=mark.at_us)).strftime("%Y%m%dT%H%M%S.%fZ")
        path = self.directory / _plain(mark.root_run_id) / f"{at}_{_plain(mark.id)}.json"
        write_file(path, document)
        return str(path)

    def read(self, where: str) -> bytes:
        self._check_open()
        return read_document(self._find(where))

    def list(self, *, run_id: str | None = None, limit: int = 1000) -> Infos:
        self._check_open()
        return self._infos(run_id)[:limit]

    def prune(self, *, run_id: str | None = None, keep: int | None = None, before_us: int | None = None) -> int:
        self._check_open()
        check_asked(keep, before_us)
        old = select_old(self._infos(run_id), keep, before_us)
        removed = sum(remove_file(Path(info.location)) for info in old)
        for folder in self._folders():
            sweep(folder)
        return removed

    async def awrite(self, document: bytes) -> str:
        return await asyncio.to_thread(self.write, document)

    async def aread(self, where: str) -> bytes:
        return await asyncio.to_thread(self.read, where)

    async def alist(self, *, run_id: str | None = None, limit: int = 1000) -> Infos:
        return await asyncio.to_thread(self.list, run_id=run_id, limit=limit)

    async def aprune(self, *, run_id: str | None = None, keep: int | None = None, before_us: int | None = None) -> int:
        return await asyncio.to_thread(self.prune, run_id=run_id, keep=keep, before_us=before_us)

    def close(self) -> None:
        self._closed = True

    async def aclose(self) -> None:
        self._closed = True

    # -- how -------------------------------------------------------------------------------------------------------

    def _find(self, where: str) -> Path:
        """A path inside the directory, or the newest file of an id. Raises StorageError if there is neither."""
        path = (self.directory / where).resolve()
        if where.endswith(".json") and path.is_relative_to(self.directory.resolve()) and path.is_file():
            return path
        found = [file for file in self._files() if file.name.endswith(f"_{_plain(where)}.json")]
        if not found:
            raise StorageError(f"no checkpoint in {self.directory} is called {where!r}; list() says what there is")
        return max(found, key=lambda file: file.name)

    def _folders(self) -> Iterator[Path]:
        yield self.directory
        yield from (Path(entry) for entry in _scan(self.directory) if entry.is_dir(follow_symlinks=False))

    def _files(self) -> Iterator[Path]:
        for folder in self._folders():
            for entry in _scan(folder):
                if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                    yield Path(entry)

    def _infos(self, run_id: str | None) -> Infos:
        found = [entry for file in self._files() if (entry := _entry(file)) is not None]
        mine = [(info, head) for info, head in found if run_id in (None, info.root_run_id)]
        return newest_first(_relinked(mine))

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self!r} was closed; make a new one")


def _plain(text: str) -> str:
    """An id as part of a file's name. Ours stay as they are; one with a slash or a dot in it leads nowhere."""
    return text if _PLAIN(text) else f"x{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):  # not made yet, or just removed
        return []


def _entry(file: Path) -> tuple[CheckpointInfo, Head] | None:
    """What a list says of a file; None, with a warning, if it is no document of ours."""
    try:
        head, size = read_head(file)
    except FileNotFoundError:
        return None  # pruned a moment ago
    except (StorageError, OSError) as error:
        log.warning("%s is not listed: %s", file, error)
        return None
    mark, run = head.checkpoint, head.run
    info = CheckpointInfo(
        id=mark.id,
        root_run_id=mark.root_run_id,
        branch=mark.branch,
        parent_id=mark.parent_id,
        trigger=mark.trigger,
        at_us=mark.at_us,
        size=size,
        kind=run.kind,
        name=run.name,
        status=run.status,
        location=str(file),
    )
    return info, head


def _relinked(entries: Iterable[tuple[CheckpointInfo, Head]]) -> list[CheckpointInfo]:
    """Let a checkpoint whose parent is gone follow the nearest before it, as a journal's prune does."""
    entries = list(entries)
    there = {info.id for info, _ in entries}
    places: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for info, head in entries:
        places[info.root_run_id, info.branch].append((head.checkpoint.seq, info.id))
    for found in places.values():
        found.sort()
    return [
        info if info.parent_id in there else replace(info, parent_id=_nearest(head, places)) for info, head in entries
    ]


def _nearest(head: Head, places: dict[tuple[str, str], list[tuple[int, str]]]) -> str | None:
    """The checkpoint before one, on its branch or those that it stands on."""
    before = (head.checkpoint.seq, head.checkpoint.id)
    for branch in reversed(head.branches):
        found = places.get((head.run.root_run_id, branch.name), [])
        at = bisect_right(found, before) - (before in found)
        if at > 0:
            return found[at - 1][1]
        before = (branch.fork_seq, "\U0010ffff")
    return None
