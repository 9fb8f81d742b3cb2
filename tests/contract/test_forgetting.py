"""Forgetting must not disturb what is written later: numbers, readers, other owners."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, text

from greenroom.errors import NotOwnerError
from greenroom.ids import EntityRef, slice_of
from greenroom.persistence import Store, open_store
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.journals import (
    CART,
    a_deletion,
    a_receipt,
    a_state,
    a_write,
    an_event,
    commit_ok,
    commit_one,
    fresh,
    open_journal,
    payloads,
)


@pytest.fixture
def opened(database_url: str) -> Iterator[tuple[Store, ManualClock]]:
    with open_journal(database_url, slices=1) as opened:
        yield opened


def test_a_number_of_a_slice_is_never_given_twice(database_url: str) -> None:
    """A reader that has seen the purged record would miss another one under its number."""
    with open_journal(database_url, slices=1) as (store, clock):
        write = a_write()
        write.receipt = a_receipt("k", expires_at=clock.now_ms() + 1000)
        commit_ok(store, CART, fresh(), a_write(an_event("a"), a_deletion()))
        commit_ok(store, EntityRef("cart", "c-2"), fresh(), a_write(an_event("b")), write)
        seen = store.journal.feed(0)[-1].slice_seq
        clock.advance(timedelta(days=8))
        store.journal.purge_receipts(clock.now_ms(), slices=[0])
        store.journal.purge_deleted(clock.now_ms(), slices=[0])
        assert [one.slice_seq for one in store.journal.feed(0)] == [3]

    with open_journal(database_url) as (store, _):
        commit_ok(store, EntityRef("cart", "c-3"), fresh(), a_write(an_event("c")))
        [late] = store.journal.feed(0, after=seen)
        assert late.slice_seq == seen + 1


def test_an_instance_number_is_never_given_twice(database_url: str) -> None:
    """The row of a purged instance stays."""
    with open_journal(database_url, slices=1) as (store, clock):
        old = commit_ok(store, CART, fresh(), a_write(an_event(), a_deletion()))
        clock.advance(timedelta(days=8))
        store.journal.purge_deleted(clock.now_ms(), slices=[0])

    with open_journal(database_url) as (store, _):
        new = commit_ok(store, EntityRef("cart", "c-2"), fresh(), a_write(an_event()))
        assert new.instance_id != old.instance_id


def test_an_expired_receipt_that_stood_alone_is_gone_when_its_key_comes_again(
    opened: tuple[Store, ManualClock],
) -> None:
    store, clock = opened
    write = a_write()
    write.receipt = a_receipt("k", expires_at=clock.now_ms() + 1000)
    head = commit_ok(store, CART, fresh(), a_write(an_event("a")), write)
    clock.advance(timedelta(seconds=2))

    commit_ok(store, CART, head, a_write(an_event("b"), key="k"))

    assert [one.slice_seq for one in store.journal.feed(0)] == [1, 3]
    assert payloads(store, CART) == ["a", "b"]


def test_a_large_state_goes_with_its_blob(opened: tuple[Store, ManualClock]) -> None:
    store, clock = opened
    large = "x" * 100_000
    head = commit_ok(store, CART, fresh(), a_write(a_state(large)), a_write(a_state(large)))
    clock.advance(timedelta(days=31))

    assert store.journal.purge_states(clock.now_ms(), slices=[0]) == 1
    assert store.journal.purge_states(clock.now_ms(), slices=[0]) == 0
    commit_ok(store, CART, head, a_write(a_deletion()))
    clock.advance(timedelta(days=8))
    assert store.journal.purge_deleted(clock.now_ms(), slices=[0]) == [CART]
    engine = store.journal._engine  # type: ignore[attr-defined]
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM greenroom_blob")).scalar() == 0
        assert connection.execute(text("SELECT count(*) FROM greenroom_journal")).scalar() == 0


def test_a_state_is_kept_for_so_long_after_it_was_replaced(
    opened: tuple[Store, ManualClock],
) -> None:
    """However long it had been the latest before."""
    store, clock = opened
    head = commit_ok(store, CART, fresh(), a_write(a_state("old")))
    clock.advance(timedelta(days=365))
    commit_ok(store, CART, head, a_write(a_state("new")))

    assert store.journal.purge_states(clock.now_ms(), slices=[0]) == 0
    clock.advance(timedelta(days=31))
    assert store.journal.purge_states(clock.now_ms(), slices=[0]) == 1
    assert payloads(store, CART) == ["new"]


def test_purges_and_batches_do_not_lock_each_other_out(sqlite_url: str) -> None:
    """A SQLite transaction that begins by reading fails when a batch goes in meanwhile."""
    with open_journal(sqlite_url) as (store, clock):
        commit_ok(store, CART, fresh(), a_write(an_event(), a_deletion()))
        clock.advance(timedelta(days=8))
        begun: list[str] = []
        engine = store.journal._engine  # type: ignore[attr-defined]
        raw = engine.raw_connection()
        raw.driver_connection.set_trace_callback(begun.append)
        raw.close()
        assert store.journal.purge_deleted(clock.now_ms(), slices=[0]) == [CART]
        assert "BEGIN IMMEDIATE" in begun


def test_a_process_that_owns_nothing_removes_nothing(database_url: str) -> None:
    with open_journal(database_url, slices=1) as (store, clock):
        commit_ok(store, CART, fresh(), a_write(an_event("a"), a_deletion()))
        clock.advance(timedelta(days=8))
        other = open_store(Settings(database_url=database_url), clock)
        with pytest.raises(NotOwnerError):
            other.journal.purge_deleted(clock.now_ms(), slices=[0])
        other.close()
        assert payloads(store, CART) == ["a"]


@pytest.mark.postgresql
def test_an_owner_that_was_fenced_off_removes_nothing(postgres_url: str) -> None:
    """What it takes for the remains of a deleted instance may be its next life by now."""
    with open_journal(postgres_url, slices=1) as (old, clock):
        commit_ok(old, CART, fresh(), a_write(an_event("a"), a_deletion()))
        clock.advance(timedelta(days=8))
        expire_leases(postgres_url)
        with open_journal(postgres_url) as (new, _):
            assert new.ownership.owned() == {0}
            with pytest.raises(NotOwnerError):
                old.journal.purge_deleted(clock.now_ms(), slices=[0])
            with pytest.raises(NotOwnerError):
                old.journal.purge_receipts(clock.now_ms(), slices=[0])
            with pytest.raises(NotOwnerError):
                old.journal.purge_states(clock.now_ms(), slices=[0])
            assert payloads(new, CART) == ["a"]


@pytest.mark.postgresql
def test_with_one_slice_too_only_its_owner_writes(postgres_url: str) -> None:
    with open_journal(postgres_url, slices=1) as (first, _):
        assert first.ownership.owned() == {0}
        with open_journal(postgres_url) as (second, _):
            assert second.ownership.owned() == frozenset()
            outcome = commit_one(second, CART, fresh(), a_write(an_event()))
            assert isinstance(outcome.error, NotOwnerError)
    assert slice_of(CART, 1) == 0


def expire_leases(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE greenroom_owner SET lease_expires_at = 0"))
    engine.dispose()
