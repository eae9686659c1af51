"""A project with two runs in it, made once; tests that change it take a copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.shop import Asking, Checkout, Slow
from tests.cli.support import Project, new_project

from holdfast import Runtime
from holdfast.checkpoints import CheckpointConfig
from holdfast.stores import SqliteStore


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A completed checkout, and three flows that failed: one that asks, another checkout, a slow one. Only to look at."""
    project = new_project(tmp_path_factory.mktemp("project"))
    with Runtime() as runtime, SqliteStore(project.database) as store, pytest.MonkeyPatch.context() as patch:
        config = CheckpointConfig(store)
        Checkout(checkpoint=config, runtime=runtime).kickoff()
        patch.setenv("BROKEN", "1")
        for cls in (Asking, Checkout, Slow):
            with pytest.raises(ConnectionError):
                cls(checkpoint=config, runtime=runtime).kickoff()
    return project


@pytest.fixture
def project(recorded: Project, tmp_path: Path) -> Project:
    """The same, to change."""
    return Project.copy(recorded, tmp_path)
