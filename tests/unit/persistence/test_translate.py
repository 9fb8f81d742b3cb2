"""What databases raise becomes greenroom's errors, row by row."""

import sqlite3

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from greenroom.errors import (
    PersistenceError,
    SchemaError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from greenroom.persistence.sql._translate import (
    is_disconnect,
    is_integrity_violation,
    translate,
    translated,
)

ROWS = [
    (sqlite3.OperationalError("attempt to write a readonly database"), StoreReadOnlyError),
    (sqlite3.OperationalError("database or disk is full"), StoreFullError),
    (sqlite3.OperationalError("disk I/O error"), StoreUnavailableError),
    (sqlite3.OperationalError("database is locked"), StoreUnavailableError),
    (sqlite3.OperationalError("unable to open database file"), StoreUnavailableError),
    (sqlite3.DatabaseError("file is not a database"), StoreUnavailableError),
    (sqlite3.DatabaseError("database disk image is malformed"), StoreUnavailableError),
    (sqlite3.OperationalError("no such table: greenroom_meta"), SchemaError),
    (sqlite3.OperationalError("something new"), PersistenceError),
    (psycopg.errors.ReadOnlySqlTransaction("read-only"), StoreReadOnlyError),
    (psycopg.errors.DiskFull("full"), StoreFullError),
    (psycopg.errors.TooManyConnections("too many"), StoreUnavailableError),
    (psycopg.errors.AdminShutdown("terminating"), StoreUnavailableError),
    (psycopg.errors.SerializationFailure("again"), StoreUnavailableError),
    (psycopg.errors.DeadlockDetected("deadlock"), StoreUnavailableError),
    (psycopg.errors.UndefinedTable("no table"), SchemaError),
    (psycopg.errors.InvalidPassword("wrong"), StoreUnavailableError),
    (psycopg.OperationalError("the connection is lost"), StoreUnavailableError),
    (psycopg.errors.SyntaxError("a bug"), PersistenceError),
]


@pytest.mark.parametrize(("raised", "expected"), ROWS, ids=lambda one: str(one)[:40])
def test_a_drivers_error_becomes_ours(raised: Exception, expected: type[PersistenceError]) -> None:
    """Bare, and as SQLAlchemy wraps it."""
    assert type(translate(raised)) is expected
    wrapped = OperationalError("SELECT 1", {}, raised)
    assert type(translate(wrapped)) is expected
    assert translate(wrapped).__cause__ is wrapped


def test_the_message_says_what_the_database_said() -> None:
    text = str(translate(sqlite3.OperationalError("database is locked")))

    assert "database is locked" in text
    assert "SELECT" not in text


def test_what_is_no_database_error_passes() -> None:
    """A bug of ours must not look like a database that is down."""
    with pytest.raises(KeyError), translated():
        raise KeyError("x")


def test_integrity_violations_are_known() -> None:
    assert is_integrity_violation(sqlite3.IntegrityError("UNIQUE constraint failed"))
    assert is_integrity_violation(psycopg.errors.UniqueViolation("duplicate key"))
    assert not is_integrity_violation(sqlite3.OperationalError("database is locked"))


def test_broken_connections_are_known() -> None:
    assert is_disconnect(psycopg.errors.AdminShutdown("terminating"))
    assert is_disconnect(psycopg.OperationalError("server closed the connection unexpectedly"))
    broken = DBAPIError("x", {}, psycopg.OperationalError("gone"), connection_invalidated=True)
    assert is_disconnect(broken)
    assert not is_disconnect(psycopg.errors.UniqueViolation("duplicate key"))
    assert not is_disconnect(sqlite3.OperationalError("database is locked"))
