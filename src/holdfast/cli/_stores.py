"""Which store a command works on: the one that is named, or the project's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from holdfast import stores
from holdfast.errors import ConfigurationError
from holdfast.home import find_home, store_path

if TYPE_CHECKING:
    from holdfast.stores import PostgresStore, SqliteStore

Store: TypeAlias = "SqliteStore | PostgresStore"


def open_store(location: str | None) -> Store:
    """The store that is named, or the project's. Raises ConfigurationError, saying what to do, if there is none."""
    store = make_store(location)
    if isinstance(store, stores.SqliteStore) and not store.path.exists():
        raise ConfigurationError(
            f"there is no store at {store.path}: nothing was recorded there yet, or it is elsewhere; name it with --store"
        )
    return store


def make_store(location: str | None) -> Store:
    """As `open_store`, but a file that does not exist will be made."""
    if location is not None and location.startswith(("postgresql://", "postgres://")):
        return stores.PostgresStore(location)
    return stores.SqliteStore(Path(location) if location is not None else _project_store())


def _project_store() -> Path:
    home = find_home()
    if home is None:
        raise ConfigurationError(
            "there is no .holdfast/ here or in a folder above: go into the project, name its home in HOLDFAST_HOME, "
            "or name a store with --store"
        )
    return store_path(home)
