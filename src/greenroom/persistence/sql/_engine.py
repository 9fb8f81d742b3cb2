"""Engines: how connections are opened, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import QueuePool

from greenroom.errors import ConfigurationError

BUSY_SECONDS = 5
"""How long a SQLite connection waits for a lock that another one holds."""
READERS = 8
IDLE_MS = 5_000
"""PostgreSQL ends a session that does nothing for so long inside a transaction.

A process that was frozen, or whose machine is gone, would otherwise hold its locks for ever.
(A batch of the journal is written in a pipeline, after which this is not counted; whoever takes
over ends that one: `_postgres_ownership.py`.)
"""
PG_ARGUMENTS: dict[str, Any] = {
    "application_name": "greenroom",
    "connect_timeout": 5,
    # A machine that is gone says nothing; so it is asked.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_SESSION = (
    f"-c idle_in_transaction_session_timeout={IDLE_MS} "
    # The server asks too: a session whose client is gone would keep its locks for two hours.
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 "
    "-c tcp_user_timeout=10000"
)
BEGIN = "greenroom_begin"
"""Execution option: how a transaction begins on SQLite (`BEGIN IMMEDIATE` locks at once)."""


def open_engine(url: str) -> Engine:
    """An engine whose transactions begin as this package needs them.

    Raises:
        ConfigurationError: The URL can't be used, or the driver is not installed.
    """
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(url)
        return _postgres(parsed)
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigurationError(f"GREENROOM_DATABASE_URL can't be used: {error}") from error
    except ValueError as error:
        # Not with its text, which may show a part of the password.
        raise ConfigurationError(
            "GREENROOM_DATABASE_URL can't be used: its port is no number. Write "
            "postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of "
            "the password percent-encoded."
        ) from error
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "PostgreSQL needs its driver: pip install 'greenroom[postgresql]'."
        ) from error


def _postgres(url: URL) -> Engine:
    # What the URL says counts.
    arguments = {name: value for name, value in PG_ARGUMENTS.items() if name not in url.query}
    options = url.query.get("options", "")
    arguments["options"] = (
        f"{_SESSION} {options if isinstance(options, str) else ' '.join(options)}"
    )
    return create_engine(
        url,
        pool_size=READERS,
        max_overflow=READERS,
        pool_pre_ping=True,
        connect_args=arguments,
    )


def _sqlite(url: str) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=READERS,
        max_overflow=READERS,
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver must not begin transactions by itself: it would begin them too late
        # (only before the first write) and never for a read.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        # With group commit a full flush costs no more than a lazy one (docs/benchmarks.md).
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA temp_store=MEMORY")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        how = connection.get_execution_options().get(BEGIN, "BEGIN")
        connection.exec_driver_sql(how)

    return engine


@contextmanager
def immediately(engine: Engine) -> Iterator[Connection]:
    """A transaction that will write.

    On SQLite it takes the write lock now. One that began by reading can't wait for the lock: it
    fails at once if another one has written meanwhile.
    """
    options = {BEGIN: "BEGIN IMMEDIATE"}
    with engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection


def for_reading(engine: Engine) -> Engine:
    """The same connections, in transactions that see the database at one moment."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ")


def switch_to_wal(engine: Engine) -> None:
    """Write-ahead logging, so that readers and the writer do not wait for each other.

    It is a property of the file, so once is enough; a file that can't be written keeps what
    it has.
    """
    with engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        try:
            raw.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error):
                raise
