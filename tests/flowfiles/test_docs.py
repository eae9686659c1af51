"""The flows that the documentation shows load, and nothing is found wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.flowfiles.support import Folder

DOCS = Path(__file__).resolve().parents[2] / "docs"
SHOWN = [
    (page.relative_to(DOCS), name, text)
    for page in sorted(DOCS.rglob("*.md"))
    for text, name in re.findall(
        r"^```yaml\n(# (\S+\.flow\.yaml)\n.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
    )
]


@pytest.mark.parametrize(("page", "name", "text"), SHOWN, ids=[f"{page}:{name}" for page, name, _ in SHOWN])
def test_a_flow_in_the_documentation_loads(folder: Folder, page: Path, name: str, text: str) -> None:
    assert folder.findings(text, name) == []


def test_there_is_one() -> None:
    assert SHOWN
