"""Schema versions. A migration is a numbered file, `sql/<engine>/NNN_what.sql`, applied once, in order, in one transaction."""

from __future__ import annotations

import re
import sqlite3
from importlib import resources
from typing import NamedTuple

from holdfast.errors import StorageError

TABLE = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL)"
_FILE = re.compile(r"(\d{3})_(\w+)\.sql")


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


def migrations(engine: str) -> list[Migration]:
    """All of an engine's migrations, oldest first."""
    folder = resources.files("holdfast.stores") / "sql" / engine
    found = [(match, file) for file in folder.iterdir() if (match := _FILE.fullmatch(file.name))]
    return sorted(Migration(int(match[1]), match[2], file.read_text("utf-8")) for match, file in found)


def pending(engine: str, present: int, where: str) -> list[Migration]:
    """The migrations a store at version `present` lacks. Raises StorageError if it is newer than this program."""
    known = migrations(engine)
    newest = known[-1].version
    if present > newest:
        raise StorageError(
            f"{where} was written by a newer Holdfast (schema {present}; this one knows {newest}): upgrade Holdfast"
        )
    return [migration for migration in known if migration.version > present]


def schema_version(connection: sqlite3.Connection) -> int:
    """The version of an SQLite database; 0 when it has no schema of ours."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'").fetchone():
        return 0
    return int(connection.execute("SELECT ifnull(max(version), 0) FROM schema_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Bring an SQLite database up to date. The caller holds the write transaction."""
    for version, name, sql in pending("sqlite", schema_version(connection), where):
        connection.execute(TABLE)
        for statement in statements(sql):
            connection.execute(statement)
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", (version, name))


def statements(sql: str) -> list[str]:
    """The statements of a script, one by one: `executescript` would commit the caller's transaction."""
    found, part = [], ""
    for line in sql.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found
