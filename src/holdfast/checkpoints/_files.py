"""Whole files: written so that no crash leaves half of one, read no further than needed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.checkpoints._document import CHECKSUM, HEAD_LINES, Head, decode_document, decode_head
from holdfast.errors import CorruptStoreError, StorageError, StoreUnavailableError

_LONGEST_LINE = 65_536
_TAIL = len(CHECKSUM) + 64 + len(b'"\n}\n')


def write_file(path: Path, data: bytes) -> None:
    """Put a file in its place, whole and on disk, replacing one that is there. Raises StoreUnavailableError if it cannot."""
    with _storage_errors(path):
        while not _written(path, data):
            pass  # swept in the moment before it was locked, or its folder was: its last file was pruned


def _written(path: Path, data: bytes) -> bool:
    """Write aside, then rename. Locked meanwhile: the aside file of a process that died is one that is not."""
    _make_folders(path.parent)
    aside = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        with open(aside, "xb", opener=_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(data)
            file.flush()
            _sync(file.fileno())
            os.replace(aside, path)
    except FileNotFoundError:
        return False
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def sweep(folder: Path) -> None:
    """Remove what writers that died have left."""
    for aside in folder.glob(".*.json.*.tmp"):
        with suppress(OSError), open(aside, "rb") as file:  # locked, or just renamed: somebody is at work
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            aside.unlink()


def remove_file(path: Path) -> bool:
    """Remove a file, and its folder if that was the last. False if it was gone before."""
    with _storage_errors(path):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        with suppress(OSError):  # not empty
            path.parent.rmdir()
        return True


def read_document(path: Path) -> bytes:
    """A checkpoint document. Raises CorruptStoreError or StorageError, naming the file, for what is none, as `read_file` does."""
    document = read_file(path)
    try:
        decode_document(document)
    except CorruptStoreError as error:
        raise CorruptStoreError(f"{path}: {error}") from error
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from error
    return document


def read_file(path: Path) -> bytes:
    with _storage_errors(path):
        return path.read_bytes()


def read_head(path: Path) -> tuple[Head, int]:
    """A document's head and its file's size. As long as it is as we wrote it, only its first and last lines are read.

    Raises StorageError if it is damaged or no document.
    """
    with open(path, "rb") as file:
        lines = b"".join(file.readline(_LONGEST_LINE) for _ in range(HEAD_LINES))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL, 0))
        is_whole = file.read().startswith(CHECKSUM)
    head = decode_head(lines) if is_whole else None
    return head or decode_document(path.read_bytes()).head, size


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(
            f"{path}: {error.strerror or error}; see to the path, its permissions and the room on the disk"
        ) from error


def _make_folders(folder: Path) -> None:
    """Missing folders, for their owner's eyes only, each on disk in its own parent."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(place.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        _sync(handle)
    finally:
        os.close(handle)


def _sync(handle: int) -> None:
    """Onto the disk. On macOS `fsync` alone leaves it in the drive's own cache; not every volume there can do better."""
    with suppress(AttributeError, OSError):
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined,unused-ignore]
        return
    os.fsync(handle)
