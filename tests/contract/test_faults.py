"""What goes wrong with a database: a typed error that says what, where and what to do."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from greenroom.errors import (
    CommitUnknownError,
    PersistenceError,
    SchemaError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from greenroom.migrations import prepare
from greenroom.persistence import Store, open_store
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.journals import (
    CART,
    a_write,
    an_event,
    commit_ok,
    commit_one,
    fresh,
    open_journal,
    payloads,
)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="nowhere"):
        prepare(Settings(database_url=f"sqlite:///{tmp_path}/nowhere/greenroom.db"))


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("These are my notes, and there are many of them. " * 50)

    with pytest.raises(PersistenceError, match=r"notes\.db.*not a database"):
        prepare(Settings(database_url=f"sqlite:///{tmp_path}/notes.db"))


def test_a_database_that_was_never_set_up_is_told(database_url: str) -> None:
    with pytest.raises(SchemaError, match="greenroom db upgrade"):
        open_store(Settings(database_url=database_url), ManualClock())


@pytest.mark.postgresql
def test_an_unreachable_server_is_told_without_its_password(postgres_url: str) -> None:
    host = postgres_url.split("@")[1].split("/", maxsplit=1)[0]
    url = f"postgresql+psycopg://someone:secret-word@{host}/no_such_database"
    with pytest.raises(StoreUnavailableError, match="no_such_database") as caught:
        prepare(Settings(database_url=url))

    assert "secret-word" not in str(caught.value)


def test_a_full_database_takes_nothing_and_goes_on_when_there_is_room(sqlite_url: str) -> None:
    with open_journal(sqlite_url) as (store, _):
        head = commit_ok(store, CART, fresh(), a_write(an_event("before")))
        raw = store.journal._writer._raw  # type: ignore[attr-defined]
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
        raw.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(StoreFullError, match="Free some space"):
            commit_one(store, CART, head, a_write(an_event("x" * 500_000)))
        raw.execute("PRAGMA max_page_count=1000000")

        commit_ok(store, CART, head, a_write(an_event("after")))
        assert payloads(store, CART) == ["before", "after"]


def test_a_database_that_can_only_be_read_is_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/greenroom.db"
    with open_journal(url) as (store, _):
        commit_ok(store, CART, fresh(), a_write(an_event("there")))
    read_only = f"sqlite:///file:{tmp_path}/greenroom.db?mode=ro&uri=true"
    store = open_store(Settings(database_url=read_only), ManualClock())
    try:
        assert payloads(store, CART) == ["there"]
        with pytest.raises(StoreReadOnlyError, match="writable"):
            store.ownership.start(None)
    finally:
        store.close()


def test_a_locked_database_is_told(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else holds the write lock for longer than one waits."""
    monkeypatch.setattr("greenroom.persistence.sql._engine.BUSY_SECONDS", 0.05)
    with open_journal(sqlite_url) as (store, _):
        head = commit_ok(store, CART, fresh(), a_write(an_event("before")))
        other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            commit_one(store, CART, head, a_write(an_event("during")))
        other.execute("ROLLBACK")
        other.close()

        commit_ok(store, CART, head, a_write(an_event("after")))
        assert payloads(store, CART) == ["before", "after"]


def test_a_table_that_is_gone_is_told(database_url: str) -> None:
    with open_journal(database_url) as (store, _):
        engine = create_engine(database_url)
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE greenroom_snapshot"))
        engine.dispose()
        commit_ok(store, CART, fresh(), a_write(an_event()))

        with pytest.raises(SchemaError, match="greenroom_snapshot"):
            store.journal.load(CART)


# -- a connection that breaks --------------------------------------------------------------


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with open_journal(postgres_url) as (store, _):
        yield store


def end_connection_of(store: Store, url: str) -> None:
    """End the backend of the writing connection, as a network or a server would."""
    pid = store.journal._writer._raw.info.backend_pid  # type: ignore[attr-defined]
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"SELECT pg_terminate_backend({pid})"))
    engine.dispose()


@pytest.mark.postgresql
def test_a_connection_lost_before_the_commit_wrote_nothing(store: Store, postgres_url: str) -> None:
    """The next batch opens another one."""
    head = commit_ok(store, CART, fresh(), a_write(an_event("before")))
    end_connection_of(store, postgres_url)

    with pytest.raises(StoreUnavailableError):
        commit_one(store, CART, head, a_write(an_event("lost")))

    commit_ok(store, CART, head, a_write(an_event("after")))
    assert payloads(store, CART) == ["before", "after"]


class BreakingWriter:
    """The real writer, whose connection breaks during a commit."""

    def __init__(self, writer: Any, url: str, store: Store, *, after: bool) -> None:
        self._writer = writer
        self._url = url
        self._store = store
        self._after = after
        self.armed = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def commit(self) -> None:
        if not self.armed:
            self._writer.commit()
            return
        self.armed = False
        if self._after:
            self._writer.commit()
        end_connection_of(self._store, self._url)
        # Whatever happened on the server, this is what the client is told.
        self._writer._raw.execute("SELECT 1")


@pytest.mark.postgresql
@pytest.mark.parametrize("written", [True, False], ids=["written", "not written"])
def test_a_connection_lost_during_the_commit_is_looked_into(
    store: Store, postgres_url: str, *, written: bool
) -> None:
    """The number of the last batch tells whether it went in; nothing is guessed."""
    head = commit_ok(store, CART, fresh(), a_write(an_event("before")))
    journal: Any = store.journal
    journal._writer = BreakingWriter(journal._writer, postgres_url, store, after=written)
    if written:
        head = commit_ok(store, CART, head, a_write(an_event("during")))
    else:
        with pytest.raises(StoreUnavailableError):
            commit_one(store, CART, head, a_write(an_event("during")))

    commit_ok(store, CART, head, a_write(an_event("after")))
    expected = ["before", "during", "after"] if written else ["before", "after"]
    assert payloads(store, CART) == expected
    assert [one.slice_seq for one in journal.feed(store.journal.records(CART)[0].slice)] == list(
        range(1, len(expected) + 1)
    )


@pytest.mark.postgresql
def test_an_outcome_that_nobody_can_tell_is_reported_as_unknown(
    store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never as something that may be repeated."""
    head = commit_ok(store, CART, fresh(), a_write(an_event("before")))
    journal: Any = store.journal
    journal._writer = BreakingWriter(journal._writer, postgres_url, store, after=True)

    def out_of_reach(_fence: object) -> None:
        raise StoreUnavailableError("no route to host")

    monkeypatch.setattr(store.ownership, "bump_own_epoch", out_of_reach)
    with pytest.raises(CommitUnknownError) as caught:
        commit_one(store, CART, head, a_write(an_event("during")))

    assert not caught.value.retryable
