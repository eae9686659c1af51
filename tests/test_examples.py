"""Every example that is shown is run: the demonstration, the README, the docs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runs.support import run_script

from holdfast.testing import process_audit

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.is_file()]


def blocks() -> Iterator[Any]:
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            yield pytest.param(match[1], id=f"{page.relative_to(ROOT)}:{line}")


def test_the_demonstration_is_killed_goes_on_and_leaves_nothing() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py")]
    with process_audit():
        done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "killed with SIGKILL in the kitchen" in done.stdout
    assert re.search(r"ran once +plan, paint hall, paint attic\n", done.stdout)
    assert re.search(r"processes left +0\n", done.stdout)
    assert "\033" not in done.stdout


def test_the_example_of_a_crew_dies_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "crew.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False, cwd=tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "died of signal 9" in done.stdout
    assert done.stdout.endswith("It is out. (5 requests)\n")
    assert done.stdout.count("tool_usage_finished depth") == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("block", list(blocks()))
def test_an_example_runs_as_it_is_printed_in_an_empty_folder(block: str, tmp_path: Path) -> None:
    done = run_script(block, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(300)  # a minute where `make check` has not filled the cache
def test_the_examples_are_typed_as_strictly_as_their_readers_may_be(tmp_path: Path) -> None:
    """Whoever copies one into a program that is checked by `mypy --strict` is told of no error."""
    for example in blocks():
        name = re.sub(r"\W", "_", str(example.id).replace(":", "_line_"))
        (tmp_path / f"example_{name}.py").write_text(example.values[0])
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=290, check=False)
    beyond_strict = "[possibly-undefined]"  # ours only; to switch it off would mean another cache
    assert [line for line in done.stdout.splitlines() if not line.endswith(beyond_strict)] == []
    assert done.stderr == ""


def headings(page: Path) -> set[str]:
    """The anchors that a page has on the web."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
        target = (page.parent / path) if path else page
        assert target.exists(), f"{path} is not there"
        assert not anchor or anchor in headings(target), f"{path} has no heading for #{anchor}"
