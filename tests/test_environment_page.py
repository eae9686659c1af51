"""The page of environment variables names those that the code reads and sets."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "reference" / "environment.md").read_text()


def test_every_variable_that_the_code_spells_out_is_on_the_page() -> None:
    code = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    spelled = set(re.findall(r'"(HOLDFAST_[A-Z_]*[A-Z]_?)"', code))
    assert "HOLDFAST_HOME" in spelled
    assert {name for name in spelled if name not in PAGE} == set()
