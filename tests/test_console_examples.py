"""Pages that show a terminal are followed in an empty folder: each command is run, and says what the page says it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "\n```console\n" in page.read_text()]
VARYING = {
    "uuid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "time": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    "size": r"[\d.]+ k?B\b",
    "age": r"\d+[smh] ago",
    "id": r"\b[0-9a-f]{8}\b",
}
TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in VARYING.items()))


class Reader:
    """Does what a page says. Ids on the page stand for those that came up in their place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ids: dict[str, str] = {}

    def type_in(self, command: str) -> str:
        """What a command says, without what the shell says of a process that was killed."""
        for shown, real in self.ids.items():
            command = command.replace(shown, real)
        inherited = {name: value for name, value in os.environ.items() if name not in ("HOLDFAST_HOME", "COLUMNS")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env={**inherited, "PATH": path, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=40, check=False,
        )  # fmt: skip
        lines = (line.rstrip() for line in (done.stdout + done.stderr).splitlines() if not line.startswith("bash: "))
        return "\n".join(lines).strip()

    def check(self, shown: str, said: str) -> None:
        """Fail if a command did not say what is shown; else learn the ids that are new."""
        parts: list[str] = []
        at = 0
        for token in TOKEN.finditer(shown):
            parts += [re.escape(shown[at : token.start()]), self._expected(token, parts)]
            at = token.end()
        found = re.fullmatch("".join(parts) + re.escape(shown[at:]), said)
        assert found is not None, f"the page shows\n{shown}\nbut it is\n{said}"
        self.ids |= {name.removeprefix("id_"): real for name, real in found.groupdict().items()}

    def _expected(self, token: re.Match[str], before: list[str]) -> str:
        kind, text = str(token.lastgroup), token[0]
        if kind != "id":
            return VARYING[kind]
        if text in self.ids:
            return self.ids[text]
        named = f"(?P<id_{text}>[0-9a-f]{{8}})"
        return f"(?P=id_{text})" if named in before else named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_that_shows_a_terminal_is_true_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        if kind == "python" and (named := re.match(r"# (\w+\.py)\n", block)):
            (tmp_path / named[1]).write_text(block)
        elif kind == "console":
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                reader.check(shown.strip(), reader.type_in(command))
