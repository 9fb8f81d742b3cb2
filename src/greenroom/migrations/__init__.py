"""The schema's history: brings a database to where the code is, or says why it can't.

Alembic revisions ship in the package. A database behind the code is upgraded under a lock; one
that is ahead is used only if every newer revision says of itself that it merely adds.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, inspect, select
from sqlalchemy.engine import make_url

from greenroom.errors import PersistenceError, SchemaError
from greenroom.persistence.sql import (
    FileLock,
    immediately,
    open_engine,
    switch_to_wal,
    translated,
)
from greenroom.persistence.tables import meta, slice_table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from greenroom.settings import Settings

_log = logging.getLogger("greenroom.migrations")

VERSION_TABLE = "greenroom_alembic_version"
REVISION = "revision:"
"""Prefix of the rows in `greenroom_meta` where each revision says whether it merely adds."""
POSTGRESQL_SLICES = 64
_LOCK = 0x67726E72_6D696772
"""Key of the advisory lock held while migrating ("grnrmigr")."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One step of the schema's history."""

    revision: str
    summary: str
    applied: bool


def prepare(settings: Settings) -> None:
    """Bring the database to where the code is, as the settings allow.

    Raises:
        SchemaError: It is behind and `GREENROOM_MIGRATE=off`, or ahead in a way that the code
            can't know.
        PersistenceError: It can't be opened or written.
    """
    with _opened(settings.database_url) as engine:
        if engine.dialect.name == "sqlite":
            switch_to_wal(engine)
        state = _state(engine)
        if state.is_ahead:
            _check_newer_only_add(engine, state)
        elif state.current != state.head or not state.has_slices:
            if settings.migrate == "off" and state.current != state.head:
                raise SchemaError(
                    f"The database is at revision {state.current or 'none'}, the code needs "
                    f"{state.head}. Run `greenroom db upgrade`, or set GREENROOM_MIGRATE=auto."
                )
            _upgrade(engine, settings, state)


def upgrade(settings: Settings) -> str:
    """Bring the database to the code's newest revision; returns that."""
    with _opened(settings.database_url) as engine:
        if engine.dialect.name == "sqlite":
            switch_to_wal(engine)
        state = _state(engine)
        if state.is_ahead:
            raise SchemaError(
                f"The database is at revision {state.current}, which is newer than the code "
                f"({state.head}). Install the newer greenroom."
            )
        if state.current != state.head or not state.has_slices:
            _upgrade(engine, settings, state)
    return state.head


def current(settings: Settings) -> str | None:
    """The revision the database is at; None when it was never set up."""
    with _opened(settings.database_url) as engine:
        return _state(engine).current


def history(settings: Settings) -> list[Revision]:
    """Every revision the code knows, the oldest first."""
    at = current(settings)
    scripts = ScriptDirectory.from_config(_config())
    known = list(scripts.walk_revisions())[::-1]
    names = [script.revision for script in known]
    reached = names.index(at) if at in names else (len(names) if at else -1)
    return [
        Revision(script.revision, script.doc, place <= reached)
        for place, script in enumerate(known)
    ]


@dataclass(frozen=True, slots=True)
class _State:
    current: str | None
    head: str
    known: frozenset[str]
    has_slices: bool

    @property
    def is_ahead(self) -> bool:
        return self.current is not None and self.current not in self.known


def _state(engine: Engine) -> _State:
    scripts = ScriptDirectory.from_config(_config())
    head = scripts.get_current_head()
    assert head is not None
    known = frozenset(script.revision for script in scripts.walk_revisions())
    with translated(), engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        at = context.get_current_revision()
        has_slices = False
        if inspect(connection).has_table(meta.name):
            query = select(meta.c.value).where(meta.c.name == "slices")
            has_slices = connection.execute(query).scalar() is not None
    return _State(at, head, known, has_slices)


def _check_newer_only_add(engine: Engine, state: _State) -> None:
    with translated(), engine.connect() as connection:
        rows = connection.execute(select(meta).where(meta.c.name.startswith(REVISION))).all()
    newer = {row.name[len(REVISION) :]: row.value for row in rows}
    unknown = {name: value for name, value in newer.items() if name not in state.known}
    if not unknown or any(value != "additive" for value in unknown.values()):
        raise SchemaError(
            f"The database is at revision {state.current}, which this code ({state.head}) does "
            "not know and can't use. Install the newer greenroom."
        )


def _upgrade(engine: Engine, settings: Settings, before: _State) -> None:
    with translated(), _locked(engine, settings) as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        _set_up(connection, settings)
    if before.current is None:
        _log.info("The database was set up, at revision %s", before.head)
    else:
        _log.info("The database was upgraded from revision %s to %s", before.current, before.head)


@contextmanager
def _locked(engine: Engine, settings: Settings) -> Iterator[Connection]:
    """One transaction for everything, while no other process migrates.

    On SQLite nobody else may own the file either: its owner would find other tables under its
    hands. (On PostgreSQL old and new processes run side by side while a service is rolled out.)
    """
    file = settings.sqlite_file
    lock = None if file is None else FileLock(file)
    with immediately(engine) as connection:
        if lock is None:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield connection
            return
        # Within the transaction: of two processes that begin together, one waits for the
        # transaction instead of being refused.
        lock.take()
        try:
            yield connection
        finally:
            lock.free()


def _set_up(connection: Connection, settings: Settings) -> None:
    """What is decided once, when the database is created."""
    stored: Any = connection.execute(select(meta.c.value).where(meta.c.name == "slices")).scalar()
    if stored is not None:
        return
    default = 1 if connection.dialect.name == "sqlite" else POSTGRESQL_SLICES
    slices = settings.slices or default
    connection.execute(
        insert(meta),
        [
            {"name": "slices", "value": str(slices)},
            {"name": "peer_secret", "value": secrets.token_hex(32)},
        ],
    )
    connection.execute(insert(slice_table), [{"slice": number} for number in range(slices)])


@contextmanager
def _opened(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    try:
        with translated():
            yield engine
    except PersistenceError as error:
        # Which database is meant is the first thing one wants to know; never its password.
        error.args = (f"{make_url(url).render_as_string(hide_password=True)}: {error}",)
        raise
    finally:
        engine.dispose()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    return config
