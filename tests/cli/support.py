"""The command as a user runs it, in a project of its own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

from tests.cli import shop

COMMAND = [sys.executable, "-W", "error", "-m", "holdfast"]


class Project:
    """A folder with a `.holdfast/` and the module `shop`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / ".holdfast" / "holdfast.db"

    @classmethod
    def copy(cls, other: Project, folder: Path) -> Project:
        shutil.copytree(other.folder, folder, dirs_exist_ok=True)
        return cls(folder)

    def environment(self, **variables: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in ("HOLDFAST_HOME", "COLUMNS")}
        return {**inherited, "TERM": "xterm-256color", **variables}

    def __call__(self, *arguments: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run it in a pipe, with that on stdin."""
        return subprocess.run(
            [*COMMAND, *arguments], cwd=self.folder, env=self.environment(**variables),
            input=given, capture_output=True, text=True, timeout=40, check=False,
        )  # fmt: skip

    def json(self, *arguments: str, **variables: str) -> Any:
        """What it says with `--json`; nothing else may be on stdout, and nothing at all on stderr."""
        done = self(*arguments, "--json", **variables)
        assert (done.stderr, done.returncode) == ("", 0)
        return json.loads(done.stdout)

    def on_terminal(self, *arguments: str, columns: int = 80) -> str:
        """What it shows on a terminal of that width. Fails if it does not end with 0."""
        primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen([*COMMAND, *arguments], cwd=self.folder, stdout=secondary, env=self.environment())
        os.close(secondary)
        shown = b""
        while chunk := _read(primary):
            shown += chunk
        os.close(primary)
        assert process.wait(40) == 0
        return shown.decode().replace("\r\n", "\n")


def new_project(folder: Path) -> Project:
    (folder / ".holdfast").mkdir(parents=True)
    shutil.copy(str(shop.__file__), folder / "shop.py")
    return Project(folder)


def _read(primary: int) -> bytes:
    try:
        return os.read(primary, 65536)
    except OSError:  # the other end is closed
        return b""
