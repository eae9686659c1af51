"""The page that comes with the package: served as it is, and what its sources build."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.server.site import Site

ROOT = Path(__file__).resolve().parent.parent.parent
STATIC = ROOT / "src" / "holdfast" / "web" / "static"
VITE = ROOT / "web" / "node_modules" / ".bin" / "vite"


async def test_the_page_and_all_it_needs_come_from_here(site: Site) -> None:
    client = await site.client(None)
    page = await client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    needed = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert sorted(needed) == ["./assets/app.js", "./assets/index.css", "data:,"]
    for name in ("app.js", "index.css"):
        answer = await client.get(f"/assets/{name}")
        assert (answer.status_code, answer.text) == (200, (STATIC / "assets" / name).read_text())
    assert "<style" not in page.text
    assert re.findall(r"<script(?![^>]* src=)", page.text) == []
    for path in ("/assets/", "/assets/../index.html", "/assets/%2e%2e/index.html", "/assets/none.js"):
        assert (await client.get(path)).status_code == 404


def test_the_page_is_small_enough_for_a_slow_line() -> None:
    sent = sum(len(gzip.compress(path.read_bytes())) for path in STATIC.rglob("*") if path.is_file())
    assert sent <= 120_000


@pytest.mark.skipif(
    shutil.which("npm") is None or not VITE.exists(),
    reason="NOT RUN: this needs Node with npm, and what `make test` or `make web` has it install, once, from the network",
)
def test_what_is_committed_is_what_the_sources_build(tmp_path: Path) -> None:
    built = tmp_path / "static"
    subprocess.run([VITE, "build", "--outDir", built], cwd=ROOT / "web", check=True, capture_output=True, timeout=50)
    files = {path.relative_to(built): path.read_bytes() for path in built.rglob("*") if path.is_file()}
    assert files == {path.relative_to(STATIC): path.read_bytes() for path in STATIC.rglob("*") if path.is_file()}, (
        "run `make web`, and commit what it builds"
    )
