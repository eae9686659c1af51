"""Every provider keeps every promise of the port."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from holdfast.checkpoints import JournalProvider, JsonProvider, PostgresProvider, SqliteProvider
from holdfast.ports import CheckpointProvider
from holdfast.stores import PostgresStore
from holdfast.testing.checkpoint_conformance import CheckpointProviderConformance

_numbers = count(1)


class OnFiles(CheckpointProviderConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path


class TestJsonProvider(OnFiles):
    def make_provider(self) -> CheckpointProvider:
        return JsonProvider(self.folder / f"checkpoints {next(_numbers)}")

    def make_twin(self, provider: CheckpointProvider) -> CheckpointProvider:
        assert isinstance(provider, JsonProvider)
        return JsonProvider(provider.directory)

    def twin_source(self, provider: CheckpointProvider) -> str:
        assert isinstance(provider, JsonProvider)
        return f"from holdfast.checkpoints import JsonProvider; provider = JsonProvider({str(provider.directory)!r})"


class TestSqliteProvider(OnFiles):
    def make_provider(self) -> CheckpointProvider:
        return SqliteProvider(self.folder / f"journal {next(_numbers)}.db")

    def make_twin(self, provider: CheckpointProvider) -> CheckpointProvider:
        assert isinstance(provider, SqliteProvider)
        return SqliteProvider(provider.journal.path)

    def twin_source(self, provider: CheckpointProvider) -> str:
        assert isinstance(provider, SqliteProvider)
        return f"from holdfast.checkpoints import SqliteProvider; provider = SqliteProvider({str(provider.journal.path)!r})"


class TestPostgresProvider(CheckpointProviderConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: str) -> None:
        self.dsn = postgres

    def make_provider(self) -> CheckpointProvider:
        return PostgresProvider(self.dsn, schema=f"checkpoints_{next(_numbers)}")

    def make_twin(self, provider: CheckpointProvider) -> CheckpointProvider:
        return PostgresProvider(self.dsn, schema=_store(provider).schema)

    def twin_source(self, provider: CheckpointProvider) -> str:
        place = f"{self.dsn!r}, schema={_store(provider).schema!r}"
        return f"from holdfast.checkpoints import PostgresProvider; provider = PostgresProvider({place})"


def _store(provider: CheckpointProvider) -> PostgresStore:
    assert isinstance(provider, JournalProvider)
    assert isinstance(provider.journal, PostgresStore)
    return provider.journal
