"""The PostgreSQL that the stores' tests use."""

from __future__ import annotations

from tests.stores.conftest import postgres as postgres
