from __future__ import annotations

from pathlib import Path

import pytest
from tests.flowfiles.support import Folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """An empty directory, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    return Folder(tmp_path)
