"""The store on SQLAlchemy Core: SQLite and PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.persistence.sql._engine import immediately, open_engine, switch_to_wal
from greenroom.persistence.sql._journal import SqlJournal
from greenroom.persistence.sql._ownership import SqlOwnership
from greenroom.persistence.sql._postgres_ownership import PostgresOwnership
from greenroom.persistence.sql._sqlite_ownership import FileLock, SqliteOwnership
from greenroom.persistence.sql._translate import translated

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from greenroom.clock import Clock
    from greenroom.settings import Settings

__all__ = [
    "FileLock",
    "SqlStore",
    "immediately",
    "open_engine",
    "open_store",
    "switch_to_wal",
    "translated",
]


class SqlStore:
    """An open database; see the `Store` port."""

    def __init__(self, engine: Engine, ownership: SqlOwnership, clock: Clock) -> None:
        self._engine = engine
        self.ownership = ownership
        self.journal = SqlJournal(engine, ownership, clock)

    def ping(self) -> None:
        """Raises a `PersistenceError` when the database can't be asked."""
        with translated(self._engine), self._engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")

    def close(self) -> None:
        """Close every connection and release the file."""
        self.journal.close()
        self.ownership.close()
        self._engine.dispose()


def open_store(settings: Settings, clock: Clock) -> SqlStore:
    """Open a database that has been set up (`greenroom.migrations.prepare`).

    Raises:
        SchemaError: It was not set up.
        PersistenceError: It can't be opened.
    """
    engine = open_engine(settings.database_url)
    file = settings.sqlite_file
    try:
        with translated(engine):
            ownership: SqlOwnership = (
                PostgresOwnership(engine) if file is None else SqliteOwnership(engine, file)
            )
            return SqlStore(engine, ownership, clock)
    except BaseException:
        # Nobody will close what was opened half.
        engine.dispose()
        raise
