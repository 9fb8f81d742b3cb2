"""Who may write: one owner at a time for each slice, whatever becomes of processes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, text

from greenroom.errors import NotOwnerError, StoreInUseError
from greenroom.migrations import prepare
from greenroom.persistence import Store, open_store
from greenroom.persistence.sql._dialect import BatchRows
from greenroom.persistence.sql._postgres_ownership import LOCK_CLASS
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.eventually import eventually
from tests.support.journals import (
    CART,
    a_write,
    an_event,
    commit_ok,
    commit_one,
    fresh,
    open_journal,
)

ROOT = Path(__file__).parents[2]


class OwnerProcess:
    """Another process that owns a database."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.owner_process", url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.owning = int(self._line().split()[1])

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def write(self, name: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self._line()

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.communicate()


@contextmanager
def another_process(url: str) -> Iterator[OwnerProcess]:
    process = OwnerProcess(url)
    try:
        yield process
    finally:
        process.end()


def second_store(url: str) -> Store:
    return open_store(Settings(database_url=url), ManualClock())


def test_a_second_process_on_a_sqlite_file_is_refused(sqlite_url: str) -> None:
    """The message names the first one."""
    with another_process(sqlite_url) as other, pytest.raises(StoreInUseError) as caught:
        store = second_store(sqlite_url)
        try:
            store.ownership.start(None)
        finally:
            store.close()

    assert str(other.process.pid) in str(caught.value)


def test_a_second_name_of_a_sqlite_file_is_the_same_file(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(sqlite_url.removeprefix("sqlite:///"))
    with open_journal(sqlite_url):
        store = second_store(f"sqlite:///{link}")
        with pytest.raises(StoreInUseError):
            store.ownership.start(None)
        store.close()


def test_each_owner_of_a_sqlite_file_has_its_own_epoch(sqlite_url: str) -> None:
    epochs = []
    for _ in range(3):
        with open_journal(sqlite_url) as (store, _clock):
            epochs.append(store.ownership.fence()[1])  # type: ignore[attr-defined]

    assert epochs == [1, 2, 3]


def test_a_sqlite_file_is_free_when_its_owner_was_killed(sqlite_url: str) -> None:
    """The kernel frees the lock with the process."""
    with another_process(sqlite_url) as other:
        assert other.write("c-1") == "written"
        other.process.kill()
        other.process.wait()
        with open_journal(sqlite_url) as (store, _):
            assert len(store.journal.records(CART)) == 1


def test_an_owner_of_before_can_write_nothing(sqlite_url: str) -> None:
    """Should the lock have failed, the epoch still holds."""
    with open_journal(sqlite_url) as (old, _):
        commit_ok(old, CART, fresh(), a_write(an_event()))
        old.ownership._lock.free()  # type: ignore[attr-defined]  # as if it had never been taken
        with open_journal(sqlite_url), pytest.raises(NotOwnerError):
            commit_one(old, CART, old.journal.load(CART).head, a_write(an_event("zombie")))
        assert len(old.journal.records(CART)) == 1


@pytest.mark.postgresql
def test_two_owners_share_the_slices(postgres_url: str) -> None:
    """The first gives up what is above its share, and the second takes it."""
    with open_journal(postgres_url) as (first, _), open_journal(postgres_url) as (second, _):
        assert len(first.ownership.owned()) == 64
        assert second.ownership.owned() == frozenset()

        surplus = first.ownership.beat()
        first.ownership.release(surplus)
        second.ownership.beat()

        assert len(first.ownership.owned()) == len(second.ownership.owned()) == 32
        assert first.ownership.owned() | second.ownership.owned() == frozenset(range(64))
        assert not first.ownership.owned() & second.ownership.owned()
        for slice_ in range(64):
            owner = first.ownership.owner_of(slice_)
            assert owner is not None


@pytest.mark.postgresql
def test_an_owner_that_stops_leaves_its_slices_at_once(postgres_url: str) -> None:
    with open_journal(postgres_url) as (first, _):
        with open_journal(postgres_url) as (second, _):
            first.ownership.release(first.ownership.beat())
            second.ownership.beat()
        first.ownership.beat()

        assert len(first.ownership.owned()) == 64


@pytest.mark.postgresql
def test_the_slices_of_a_killed_owner_are_taken_over_at_once(postgres_url: str) -> None:
    """Its lock goes with its socket; nobody waits for the lease."""
    with another_process(postgres_url) as other:
        assert other.owning == 64
        assert other.write("c-1") == "written"
        with open_journal(postgres_url) as (store, _):
            assert store.ownership.owned() == frozenset()
            other.process.kill()
            other.process.wait()

            def all_mine() -> bool:
                store.ownership.beat()
                return len(store.ownership.owned()) == 64

            assert eventually(all_mine, seconds=4)
            head = store.journal.load(CART).head
            commit_ok(store, CART, head, a_write(an_event("mine")))


@pytest.mark.postgresql
def test_a_frozen_owner_loses_its_slices_and_writes_nothing_when_it_thaws(
    postgres_url: str,
) -> None:
    """Its connection lives, so only the lease tells."""
    with another_process(postgres_url) as other, open_journal(postgres_url) as (store, _):
        assert other.write("c-1") == "written"
        other.process.send_signal(signal.SIGSTOP)

        def all_mine() -> bool:
            store.ownership.beat()
            return len(store.ownership.owned()) == 64

        assert eventually(all_mine, seconds=15)
        other.process.send_signal(signal.SIGCONT)

        assert other.write("c-1") == "not-owner"
        assert len(store.journal.records(CART)) == 1


@pytest.mark.postgresql
def test_an_owner_whose_lock_is_gone_is_told(postgres_url: str) -> None:
    """The connection that held it was ended; others may already have taken over."""
    with open_journal(postgres_url) as (store, _):
        engine = create_engine(postgres_url)
        with engine.begin() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks "
                    "WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
                )
            )
        engine.dispose()

        with pytest.raises(NotOwnerError):
            store.ownership.beat()
        store.ownership.start("127.0.0.1:1")
        store.ownership.beat()
        assert len(store.ownership.owned()) == 64


def test_processes_on_one_database_share_a_secret(database_url: str) -> None:
    with open_journal(database_url) as (store, _):
        assert store.ownership.peer_secret() == store.ownership.peer_secret()
        assert len(store.ownership.peer_secret()) == 64


@pytest.mark.postgresql
def test_an_owner_frozen_in_the_middle_of_a_batch_is_taken_over(postgres_url: str) -> None:
    """Its session is ended, so that nobody waits for its locks for ever."""
    with open_journal(postgres_url) as (frozen, _):
        expire_leases(postgres_url)
        writer = frozen.journal._writer  # type: ignore[attr-defined]
        held = writer.write((1, *frozen.ownership.fence()), BatchRows())  # type: ignore[attr-defined]
        assert held == (True, True)
        with open_journal(postgres_url) as (store, _):

            def all_mine() -> bool:
                store.ownership.beat()
                return len(store.ownership.owned()) == 64

            assert eventually(all_mine, seconds=8)
        with pytest.raises(psycopg.OperationalError):
            writer.commit()
        with pytest.raises(NotOwnerError):
            frozen.ownership.beat()
        assert frozen.ownership.owned() == frozenset()


@pytest.mark.postgresql
@pytest.mark.timeout(30)
def test_an_owner_can_stop_though_its_last_batch_hangs(postgres_url: str) -> None:
    """Its connection broke and the server did not notice."""
    with open_journal(postgres_url) as (store, _):
        writer = store.journal._writer  # type: ignore[attr-defined]
        writer.write((1, *store.ownership.fence()), BatchRows())  # type: ignore[attr-defined]
        store.ownership.stop()
        writer.reconnect()
        with open_journal(postgres_url) as (next_one, _):
            assert len(next_one.ownership.owned()) == 64


@pytest.mark.postgresql
def test_a_beat_that_hangs_does_not_cost_the_others_their_leases(postgres_url: str) -> None:
    """Each renews its lease before it waits for anyone."""
    with open_journal(postgres_url) as (store, _):
        engine = create_engine(postgres_url)
        with engine.connect() as hanging:
            hanging.execute(text(f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, -1)"))
            expire_leases(postgres_url)
            store.ownership.beat()
            now = text("SELECT extract(epoch FROM clock_timestamp()) * 1000")
            lease = text("SELECT lease_expires_at FROM greenroom_owner")
            assert hanging.execute(lease).scalar_one() > hanging.execute(now).scalar_one()
        engine.dispose()
        assert len(store.ownership.owned()) == 64


def test_a_store_that_is_closed_lets_go_of_everything(database_url: str) -> None:
    """Even if nobody stopped its ownership."""
    settings = Settings(database_url=database_url)
    prepare(settings)
    store = open_store(settings, ManualClock())
    store.ownership.start(None)
    store.ownership.beat()
    assert store.ownership.owned()
    store.close()

    with open_journal(database_url) as (next_one, _):
        assert len(next_one.ownership.owned()) == next_one.ownership.slices


def expire_leases(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE greenroom_owner SET lease_expires_at = 0"))
    engine.dispose()
