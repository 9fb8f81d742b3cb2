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


@pytest.fixture
def opened_sqlite(sqlite_url: str) -> Iterator[tuple[Store, ManualClock]]:
    with open_journal(sqlite_url, slices=1) as opened:
        yield opened


def test_many_replaced_states_are_removed_at_once(
    opened_sqlite: tuple[Store, ManualClock],
) -> None:
    """More than one statement can name: those whose keys were remembered longer than they."""
    store, clock = opened_sqlite
    head = fresh()
    count = 33_000
    for start in range(0, count, 3_000):
        writes = [a_write(a_state("s"), key=f"k-{start + n}") for n in range(3_000)]
        for write in writes:
            write.receipt = a_receipt(write.receipt.key, expires_at=clock.now_ms() + 1000)  # type: ignore[union-attr]
        head = commit_ok(store, CART, head, *writes)
    clock.advance(timedelta(days=31))
    while store.journal.purge_states(clock.now_ms(), slices=[0], limit=50_000):
        pass
    assert store.journal.purge_receipts(clock.now_ms(), slices=[0], limit=1000) == 1000
    while store.journal.purge_receipts(clock.now_ms(), slices=[0], limit=10_000):
        pass
    commit_ok(store, CART, head, a_write(a_state("last")))
    clock.advance(timedelta(days=31))

    assert store.journal.purge_states(clock.now_ms(), slices=[0], limit=50_000) == count
    assert payloads(store, CART) == ["last"]


def test_a_receipt_knows_its_number_whatever_was_removed_around_it(
    opened: tuple[Store, ManualClock],
) -> None:
    store, clock = opened
    head = commit_ok(store, CART, fresh(), a_write(a_state("one")), a_write(key="alone"))
    head = commit_ok(store, CART, head, a_write(a_state("two"), key="k"))
    clock.advance(timedelta(days=31))
    assert store.journal.purge_states(clock.now_ms(), slices=[0]) == 1

    assert number_of(store, "alone") == 1
    commit_ok(store, CART, head, a_write(a_deletion()), a_write(key="last"))
    clock.advance(timedelta(days=8))
    assert store.journal.purge_deleted(clock.now_ms(), slices=[0]) == [CART]
    assert (number_of(store, "alone"), number_of(store, "k")) == (1, 2)
    assert store.journal.records(CART) == []
    assert store.journal.load(CART).records == []
    assert store.journal.load(CART, latest_only=True).records == []


def number_of(store: Store, key: str) -> int:
    found = store.journal.find_receipt(CART, key)
    assert found is not None
    return found.sequence_number


def test_purges_take_no_more_than_they_are_told(database_url: str) -> None:
    """And only from the slices that they are told."""
    with open_journal(database_url, slices=4) as (store, clock):
        refs = [EntityRef("cart", str(number)) for number in range(12)]
        soon = clock.now_ms() + 1
        for ref in refs:
            commit_ok(store, ref, fresh(), a_write(an_event(), expires_at=soon))
        theirs = [ref for ref in refs if slice_of(ref, 4) in (1, 3)]
        assert 2 < len(theirs) < len(refs)
        assert {one.ref for one in store.journal.due(soon, slices=[1, 3])} == set(theirs)
        assert len(store.journal.due(soon, slices=[1, 3], limit=2)) == 2
        assert store.journal.due(soon, slices=[]) == []
        for ref in refs:
            write = a_write(a_deletion())
            write.receipt = a_receipt("k", expires_at=soon)
            commit_ok(store, ref, store.journal.load(ref).head, write)
        assert store.journal.due(soon, slices=range(4)) == []
        clock.advance(timedelta(days=8))
        now = clock.now_ms()
        assert store.journal.purge_receipts(now, slices=[1, 3], limit=2) == 2
        assert store.journal.purge_receipts(now, slices=[1, 3]) == len(theirs) - 2
        assert len(store.journal.purge_deleted(now, slices=[1, 3], limit=2)) == 2
        assert len(store.journal.purge_deleted(now, slices=[1, 3])) == len(theirs) - 2
        assert len(store.journal.purge_deleted(now, slices=range(4))) == len(refs) - len(theirs)


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
