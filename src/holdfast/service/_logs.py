"""Live output of jobs in files, one a job, one line of JSON for each piece: whoever follows a job reads its file."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.ports import LogLine

FLUSH_SECONDS = 0.02
MAX_BYTES = 16 * 1024 * 1024
"""What is kept of one job's output."""

logger = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(LogLine).decode


class LogFolder:
    """Where a project keeps the live output of its jobs."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    def path(self, job_id: str) -> Path:
        return self.folder / f"{job_id}.jsonl"

    def writer(self, job_id: str) -> LogWriter:
        """For the process that has the job."""
        path = self.path(job_id)
        try:
            written = path.stat().st_size  # by workers before
        except OSError:  # it is new; if it cannot be written either, that is said then, and the job runs all the same
            written = 0
        return LogWriter(path, self._max_bytes - written)

    def follow(self, job_id: str) -> LogFollower:
        return LogFollower(self.path(job_id))

    def delete(self, job_id: str) -> None:
        self.path(job_id).unlink(missing_ok=True)


class LogWriter:
    """Appends lines, a little later than they come and many at once. Past the bound it drops them, and says so once."""

    def __init__(self, path: Path, room: int) -> None:
        self._path, self._left = path, room
        self._waiting: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._handle: int | None = None
        self._lock = threading.Lock()

    def write(self, line: LogLine) -> None:
        """Keep a line. From any thread: one that has no loop, as that of a step's plain function, writes at once."""
        with self._lock:
            self._keep(line)
        if asyncio._get_running_loop() is None:
            self._flush()
        elif self._timer is None and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def _keep(self, line: LogLine) -> None:
        if self._left <= 0:
            return
        data = msgspec.json.encode(line) + b"\n"
        self._left -= len(data)
        if self._left <= 0:
            last = LogLine(line.at_us, "", "lifecycle", "further output is not kept: the job has written too much")
            data = msgspec.json.encode(last) + b"\n"
        self._waiting.append(data)

    def _flush(self) -> None:
        if asyncio._get_running_loop() is not None:
            self._timer = None
        with self._lock:
            data, self._waiting = b"".join(self._waiting), []
            if data:
                self._append(data)

    def _append(self, data: bytes) -> None:
        try:
            if self._handle is None:
                self._handle = self._open()
            os.write(self._handle, data)
        except OSError as error:  # output is for people only: a full disk must not end the job for it
            self._left = 0
            logger.warning("%s cannot be written, further output is dropped: %s", self._path, error)

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def close(self) -> None:
        """Write what is left. Twice is fine."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class LogFollower:
    """Reads a job's file as it grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._place = path, 0

    def new(self) -> Iterator[LogLine]:
        """What was written since the last call, whole lines only. A line that cannot be read is left out."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._place)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        return
                    self._place += len(raw)
                    try:
                        yield _decode(raw)
                    except msgspec.MsgspecError:
                        continue
        except FileNotFoundError:
            return
