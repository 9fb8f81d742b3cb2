"""What databases and drivers raise → what greenroom raises; known here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from greenroom.errors import (
    PersistenceError,
    SchemaError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from sqlalchemy import Engine

# Read as text: the message of sqlite3 is the only thing that tells these apart on Python 3.11
# in every path (sqlite_errorcode is missing on errors that the driver itself raises).
_SQLITE = (
    ("readonly database", StoreReadOnlyError),
    ("database or disk is full", StoreFullError),
    ("disk i/o error", StoreUnavailableError),
    ("database is locked", StoreUnavailableError),
    ("database table is locked", StoreUnavailableError),
    ("unable to open database", StoreUnavailableError),
    ("closed database", StoreUnavailableError),
    ("file is not a database", StoreUnavailableError),
    ("database disk image is malformed", StoreUnavailableError),
    ("no such table", SchemaError),
    ("no such column", SchemaError),
)
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRESQL = (
    ("25006", StoreReadOnlyError),
    ("25P03", StoreUnavailableError),
    ("53100", StoreFullError),
    ("53", StoreUnavailableError),
    ("08", StoreUnavailableError),
    ("57", StoreUnavailableError),
    ("40", StoreUnavailableError),
    ("55P03", StoreUnavailableError),
    ("42P01", SchemaError),
    ("42703", SchemaError),
    ("3D000", StoreUnavailableError),
    ("28", StoreUnavailableError),
)
_REMEDIES = {
    StoreReadOnlyError: "Make the database file, its folder, or the database writable.",
    StoreFullError: "Free some space; nothing was written.",
    StoreUnavailableError: "Nothing was written; check that the database can be reached.",
    SchemaError: "Run `greenroom db upgrade`.",
}


def is_integrity_violation(error: BaseException) -> bool:
    """Whether a unique key was hit, in whatever way the driver says so."""
    if isinstance(error, IntegrityError):
        return True
    return type(error).__name__ in ("IntegrityError", "UniqueViolation")


def is_about_values(error: BaseException) -> bool:
    """Whether a value can't be stored (a NUL in text, too large, …), whoever else wrote beside it.

    Drivers refuse some values before the database sees them.
    """
    if isinstance(error, UnicodeError | OverflowError):
        return True
    state = str(getattr(error, "sqlstate", None) or "")
    if state:
        return state.startswith(("22", "54"))
    return type(error).__name__ == "DataError"


def is_lock_timeout(error: BaseException) -> bool:
    """Whether another transaction held a lock for longer than one wanted to wait."""
    return getattr(_cause(error), "sqlstate", None) == "55P03"


def is_disconnect(error: BaseException) -> bool:
    """Whether the connection is gone, so that nobody said what became of the transaction."""
    if isinstance(error, DBAPIError):
        return bool(error.connection_invalidated) or is_disconnect(_cause(error))
    state = getattr(error, "sqlstate", None)
    if state is not None:
        # 25P03: the server ended a session that did nothing inside a transaction.
        return str(state).startswith(("08", "57P", "25P03"))
    # psycopg raises OperationalError without a state when the socket broke.
    return type(error).__module__.startswith("psycopg") and "Operational" in type(error).__name__


def translate(error: BaseException, engine: Engine | None = None) -> PersistenceError:
    """The greenroom error for a driver's or SQLAlchemy's; names the database of the engine."""
    if isinstance(error, PersistenceError):
        return error
    cause = _cause(error)
    kind = _kind_of(cause)
    text = str(cause).strip().splitlines()
    first_line = text[0] if text else type(cause).__name__
    remedy = _REMEDIES.get(kind, "")
    # Which database is meant is the first thing one wants to know; never its password.
    where = "" if engine is None else f" {engine.url.render_as_string(hide_password=True)}"
    translated = kind(f"The database{where} said: {first_line.rstrip('.')}. {remedy}".rstrip())
    translated.__cause__ = error
    return translated


def _cause(error: BaseException) -> BaseException:
    original = getattr(error, "orig", None)
    return original if isinstance(original, BaseException) else error


def _kind_of(error: BaseException) -> type[PersistenceError]:
    state = getattr(error, "sqlstate", None)
    if state is not None:
        for prefix, kind in _POSTGRESQL:
            if str(state).startswith(prefix):
                return kind
        return PersistenceError
    message = str(error).lower()
    for part, kind in _SQLITE:
        if part in message:
            return kind
    if is_disconnect(error) or isinstance(error, PoolTimeoutError):
        return StoreUnavailableError
    return PersistenceError


@contextmanager
def translated(engine: Engine | None = None) -> Iterator[None]:
    """Raise greenroom's errors for whatever the database raises inside."""
    try:
        yield
    except PersistenceError:
        raise
    except SQLAlchemyError as error:
        raise translate(error, engine) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] in ("sqlite3", "psycopg"):
            raise translate(error, engine) from error
        raise
