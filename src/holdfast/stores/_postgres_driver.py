"""asyncpg, imported when first needed, and its errors put into words."""

from __future__ import annotations

from typing import Any

from holdfast.errors import StoreUnavailableError, UsageError
from holdfast.stores._migrations import TABLE, pending

LOCK = 0x686F6C64
"""An advisory lock that makers of the schema take in turn: "hold" in ASCII."""
CONNECT_SECONDS = 10.0


def driver() -> Any:
    """asyncpg. Raises UsageError if it is not installed."""
    try:
        import asyncpg  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError("PostgresStore needs asyncpg: pip install 'holdfast[postgres]'") from error
    return asyncpg


def unfit() -> tuple[type[BaseException], ...]:
    """Errors of one value rather than of the storage."""
    errors = driver().exceptions
    return (errors.DataError, errors.IntegrityConstraintViolationError, TypeError, ValueError, OverflowError)


def broken() -> tuple[type[BaseException], ...]:
    """Errors after which nobody knows what the server did."""
    errors = driver().exceptions
    return (
        errors.PostgresConnectionError,
        errors.OperatorInterventionError,
        errors.InterfaceError,
        errors.InternalClientError,  # asyncpg's own state, when the line is cut between two of its steps
        OSError,
        TimeoutError,
    )


def failing() -> tuple[type[BaseException], ...]:
    """All errors of the storage."""
    errors = driver().exceptions
    return (errors.PostgresError, *broken())


def translate(error: BaseException) -> StoreUnavailableError:
    text = str(error) or type(error).__name__
    return StoreUnavailableError(f"PostgreSQL: {text}; see that the server is up, reachable, and has room")


def settings(schema: str) -> dict[str, str]:
    """What every connection of ours insists on, whatever the server's defaults are."""
    return {
        "application_name": "holdfast",
        "default_transaction_isolation": "read committed",
        "search_path": schema,
        "synchronous_commit": "on",
    }


async def make_schema(connection: Any, schema: str) -> None:
    """Bring the schema up to date; several processes may try at once."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        await connection.execute(TABLE)
        present = await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_version")
        for version, name, sql in pending("postgres", present, f"the schema {schema}"):
            await connection.execute(sql)
            await connection.execute("INSERT INTO schema_version VALUES ($1, $2)", version, name)
