"""The journal's promises, one test each, on SQLite and on PostgreSQL."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from greenroom.errors import ConcurrentWriteError, NotOwnerError
from greenroom.ids import EntityRef, slice_of
from greenroom.persistence import (
    DueInstance,
    Encoded,
    Head,
    NewRecord,
    Outcome,
    Receipt,
    RecordKind,
    Store,
)
from greenroom.persistence.sql._sqlite_ownership import SqliteOwnership
from greenroom.testkit import ManualClock
from tests.support.journals import (
    CART,
    a_chain,
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

OTHER = EntityRef("cart", "c-2")


@pytest.fixture
def opened(database_url: str) -> Iterator[tuple[Store, ManualClock]]:
    with open_journal(database_url) as opened:
        yield opened


@pytest.fixture
def store(opened: tuple[Store, ManualClock]) -> Store:
    return opened[0]


@pytest.fixture
def clock(opened: tuple[Store, ManualClock]) -> ManualClock:
    return opened[1]


def pretend_dead(store: Store) -> None:
    """Let another one take over from a store that goes on."""
    if isinstance(store.ownership, SqliteOwnership):
        store.ownership._lock.free()
    else:
        store.ownership._let_go()  # type: ignore[attr-defined]


def run_all(threads: Iterable[threading.Thread]) -> None:
    started = list(threads)
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def all_slices(store: Store) -> list[int]:
    return list(range(store.ownership.slices))


def feed(store: Store) -> list[tuple[int, int]]:
    return [
        (record.slice, record.slice_seq)
        for slice_ in all_slices(store)
        for record in store.journal.feed(slice_, limit=10_000)
    ]


# -- writing -------------------------------------------------------------------------------


def test_records_are_read_in_the_order_they_were_written(store: Store) -> None:
    head = commit_ok(store, CART, fresh(), a_write(an_event("a"), an_event("b")))
    commit_ok(store, CART, head, a_write(an_event("c")))

    assert payloads(store, CART) == ["a", "b", "c"]
    assert [one.sequence_number for one in store.journal.records(CART)] == [1, 2, 3]


def test_several_commands_of_one_instance_go_in_together(store: Store) -> None:
    head = commit_ok(store, CART, fresh(), a_write(an_event("a")), a_write(an_event("b")))

    assert head.sequence_number == 2
    assert payloads(store, CART) == ["a", "b"]


def test_of_two_writers_at_the_same_number_one_is_told(store: Store) -> None:
    commit_ok(store, CART, fresh(), a_write(an_event("first")))

    outcome = commit_one(store, CART, fresh(), a_write(an_event("second")))

    assert isinstance(outcome.error, ConcurrentWriteError)
    assert payloads(store, CART) == ["first"]


def test_a_writer_behind_its_instance_is_told(store: Store) -> None:
    head = commit_ok(store, CART, fresh(), a_write(an_event("a")))
    commit_ok(store, CART, head, a_write(an_event("b")))

    outcome = commit_one(store, CART, head, a_write(an_event("late")))

    assert isinstance(outcome.error, ConcurrentWriteError)


def test_a_writer_ahead_of_its_instance_is_told_too(store: Store) -> None:
    """The unique key alone would let this through and leave a gap."""
    head = commit_ok(store, CART, fresh(), a_write(an_event("a")))
    ahead = Head(head.instance_id, head.generation, head.sequence_number + 1)

    outcome = commit_one(store, CART, ahead, a_write(an_event("early")))

    assert isinstance(outcome.error, ConcurrentWriteError)
    assert payloads(store, CART) == ["a"]


def test_a_new_instance_begins_at_zero(store: Store) -> None:
    """A writer that believes it further on is told, even if it writes nothing."""
    for write in (a_write(), a_write(an_event()), a_write(key="k")):
        outcome = commit_one(store, CART, Head(0, sequence_number=1), write)
        assert isinstance(outcome.error, ConcurrentWriteError)


def test_a_conflict_leaves_the_others_alone(store: Store) -> None:
    """Each chain whole or not at all; one outcome per chain, in order."""
    commit_ok(store, CART, fresh(), a_write(an_event("there")))
    others = [EntityRef("cart", f"o-{number}") for number in range(5)]
    batch = [a_chain(one, fresh(), a_write(an_event("x"), an_event("y"))) for one in others]
    batch.insert(2, a_chain(CART, fresh(), a_write(an_event("no")), a_write(an_event("no"))))

    outcomes = store.journal.commit(batch)

    assert [outcome.error is None for outcome in outcomes] == [True, True, False, True, True, True]
    assert payloads(store, CART) == ["there"]
    assert all(payloads(store, one) == ["x", "y"] for one in others)


def test_slice_numbers_have_no_gaps_over_conflicts(store: Store) -> None:
    """Numbers are given to those who survive."""
    heads: dict[EntityRef, Head] = {}
    refs = [EntityRef("cart", f"g-{number}") for number in range(20)]
    for turn in range(6):
        batch = []
        for place, ref in enumerate(refs):
            stale = (place + turn) % 4 == 0 and ref in heads
            head = fresh() if stale else heads.get(ref, fresh())
            batch.append(a_chain(ref, head, a_write(an_event(), an_event())))
        for ref, outcome in zip(refs, store.journal.commit(batch), strict=True):
            if outcome.head is not None:
                heads[ref] = outcome.head

    numbers: dict[int, list[int]] = {}
    for slice_, number in feed(store):
        numbers.setdefault(slice_, []).append(number)
    assert sum(len(one) for one in numbers.values()) == sum(
        head.sequence_number for head in heads.values()
    )
    for found in numbers.values():
        assert found == list(range(1, len(found) + 1))


def test_of_two_chains_of_one_instance_in_a_batch_the_first_goes_in(store: Store) -> None:
    chains = [a_chain(CART, fresh(), a_write(an_event(text), key=text)) for text in ("a", "b")]

    first, second = store.journal.commit(chains)

    assert first.error is None
    assert isinstance(second.error, ConcurrentWriteError)
    assert payloads(store, CART) == ["a"]
    assert store.journal.find_receipt(CART, "b") is None


@pytest.mark.parametrize("attempt", range(5))
def test_of_racing_writers_exactly_one_wins(database_url: str, attempt: int) -> None:
    """Owners of before and the one of now, all at the same moment."""
    with ExitStack() as stack:
        stores = []
        for _ in range(3):
            for store in stores:
                pretend_dead(store)
            stores.append(stack.enter_context(open_journal(database_url, slices=2))[0])
        together = threading.Barrier(len(stores))
        outcomes: list[Outcome | NotOwnerError] = []

        def work(store: Store, text: str) -> None:
            together.wait()
            try:
                outcomes.append(commit_one(store, CART, fresh(), a_write(an_event(text))))
            except NotOwnerError as error:
                outcomes.append(error)

        run_all(
            threading.Thread(target=work, args=(store, f"{place}"))
            for place, store in enumerate(stores)
        )
        won = [one for one in outcomes if isinstance(one, Outcome) and one.error is None]
        assert (len(outcomes), len(won)) == (3, 1)
        assert payloads(stores[-1], CART) == ["2"]


def test_a_writer_who_is_taken_over_from_loses_or_is_followed(database_url: str) -> None:
    """The next owner takes over in the middle of what the first one writes."""
    with open_journal(database_url, slices=2) as (first, _):
        written: list[int] = []
        under_way = threading.Event()

        def work() -> None:
            head = fresh()
            with suppress(NotOwnerError):
                while (outcome := commit_one(first, CART, head, a_write(an_event()))).head:
                    head = outcome.head
                    written.append(head.sequence_number)
                    under_way.set()

        writer = threading.Thread(target=work)
        writer.start()
        assert under_way.wait(10)
        pretend_dead(first)
        with open_journal(database_url) as (second, _):
            head = second.journal.load(CART).head
            commit_ok(second, CART, head, a_write(an_event("next")))
            writer.join()
            numbers = [one.sequence_number for one in second.journal.records(CART, limit=10**6)]
            assert numbers == [*written, len(written) + 1]


def test_slice_numbers_follow_the_order_of_the_batch(database_url: str) -> None:
    with open_journal(database_url, slices=1) as (store, _):
        refs = [EntityRef("cart", name) for name in ("z", "a", "m")]
        store.journal.commit(
            [a_chain(ref, fresh(), a_write(an_event(), an_event())) for ref in refs]
        )

        found = [one.ref.instance for one in store.journal.feed(0)]

        assert found == ["z", "z", "a", "a", "m", "m"]


def test_an_empty_batch_is_nothing(store: Store) -> None:
    assert store.journal.commit([]) == []


@pytest.mark.postgresql
def test_a_value_that_cannot_be_stored_keeps_only_its_own_chain_out(postgres_url: str) -> None:
    """PostgreSQL has no NUL in text, and no key of any length."""
    with open_journal(postgres_url, slices=1) as (store, _):
        keys = ["k-1", "nul \0", "\ud800", "".join(chr(0x4E00 + n) for n in range(9000)), "k-2"]
        refs = [EntityRef("cart", str(number)) for number in range(len(keys))]
        outcomes = store.journal.commit(
            [
                a_chain(ref, fresh(), a_write(an_event(), key=key))
                for ref, key in zip(refs, keys, strict=True)
            ]
        )

        assert [one.error is None for one in outcomes] == [True, False, False, False, True]
        assert "cart/1 has a value that can't be stored" in str(outcomes[1].error)
        assert [one.slice_seq for one in store.journal.feed(0)] == [1, 2]
        commit_ok(store, refs[1], fresh(), a_write(an_event(), key="k"))


@pytest.mark.postgresql
def test_a_slice_that_is_not_owned_is_refused(postgres_url: str) -> None:
    """For its chain alone. (On SQLite one process owns every slice.)"""
    with open_journal(postgres_url, slices=8) as (store, _):
        given_up = slice_of(CART, 8)
        store.ownership.release(frozenset({given_up}))
        mine = next(
            ref
            for number in range(100)
            if slice_of(ref := EntityRef("cart", f"m-{number}"), 8) != given_up
        )
        outcomes = store.journal.commit(
            [
                a_chain(CART, fresh(), a_write(an_event())),
                a_chain(mine, fresh(), a_write(an_event())),
            ]
        )

    assert isinstance(outcomes[0].error, NotOwnerError)
    assert outcomes[1].error is None


def test_every_number_of_slices_works(database_url: str) -> None:
    """Up to 1,024."""
    with open_journal(database_url, slices=1024) as (store, _):
        refs = [EntityRef("cart", str(number)) for number in range(200)]
        outcomes = store.journal.commit(
            [a_chain(one, fresh(), a_write(an_event())) for one in refs]
        )
        assert all(outcome.error is None for outcome in outcomes)
        assert len(feed(store)) == 200
        assert all(payloads(store, ref) == ["something"] for ref in refs)


# -- idempotency keys ----------------------------------------------------------------------


def test_a_key_that_was_used_brings_back_its_receipt(store: Store) -> None:
    head = commit_ok(store, CART, fresh(), a_write(an_event("a"), key="k"))

    outcome = commit_one(store, CART, head, a_write(an_event("again"), key="k"))

    assert isinstance(outcome.error, ConcurrentWriteError)
    [first] = outcome.duplicates
    assert (first.key, first.reply, first.sequence_number) == ("k", b'"done"', 1)
    assert payloads(store, CART) == ["a"]


def test_every_key_that_was_used_brings_back_its_receipt(store: Store) -> None:
    head = commit_ok(
        store, CART, fresh(), *(a_write(an_event(key), key=key) for key in ("a", "b", "c"))
    )
    again = [a_write(an_event(key), key=key) for key in ("c", "new", "a")]
    [outcome] = store.journal.commit([a_chain(CART, head, *again)])

    assert {one.key: one.sequence_number for one in outcome.duplicates} == {"a": 1, "c": 3}
    assert payloads(store, CART) == ["a", "b", "c"]


def test_a_receipt_comes_back_as_it_was(store: Store) -> None:
    write = a_write(an_event("a"), an_event("b"))
    reply = '{"text":"é 🙂 \\u0000"}'.encode()
    write.receipt = Receipt("ключ", "add_item", "alice@example", "0" * 32, reply, 10**15)
    commit_ok(store, CART, fresh(), write)

    found = store.journal.find_receipt(CART, "ключ")

    assert found == replace(write.receipt, sequence_number=2)
    assert store.journal.find_receipt(CART, "клю") is None
    assert store.journal.find_receipt(OTHER, "ключ") is None


def test_a_used_key_keeps_its_chain_out_and_lets_the_others_in(store: Store) -> None:
    head = commit_ok(store, CART, fresh(), a_write(an_event("a"), key="k"))

    mine, others = store.journal.commit(
        [
            a_chain(CART, head, a_write(an_event("b")), a_write(an_event("again"), key="k")),
            a_chain(OTHER, fresh(), a_write(an_event("c"), key="k")),
        ]
    )

    assert [one.key for one in mine.duplicates] == ["k"]
    assert others.error is None
    assert payloads(store, CART) == ["a"]
    assert payloads(store, OTHER) == ["c"]


def test_a_key_belongs_to_one_instance(store: Store) -> None:
    commit_ok(store, CART, fresh(), a_write(an_event(), key="k"))

    assert commit_one(store, OTHER, fresh(), a_write(an_event(), key="k")).error is None


def test_the_same_key_twice_in_one_chain_does_not_go_in(store: Store) -> None:
    outcome = commit_one(
        store, CART, fresh(), a_write(an_event(), key="k"), a_write(an_event(), key="k")
    )

    assert isinstance(outcome.error, ConcurrentWriteError)
    assert store.journal.records(CART) == []


def test_a_command_without_records_leaves_a_receipt(store: Store) -> None:
    """And takes no sequence number."""
    head = commit_ok(store, CART, fresh(), a_write(an_event(), key="k-1"))
    after = commit_ok(store, CART, head, a_write(key="k-2"))

    assert after.sequence_number == head.sequence_number
    found = store.journal.find_receipt(CART, "k-2")
    assert found is not None
    assert (found.reply, found.sequence_number) == (b'"done"', 1)
    assert len(store.journal.records(CART)) == 1


def test_a_key_that_has_expired_may_be_used_again(store: Store, clock: ManualClock) -> None:
    write = a_write(an_event("a"))
    write.receipt = a_receipt("k", expires_at=clock.now_ms() + 1000)
    head = commit_ok(store, CART, fresh(), write)
    clock.advance(timedelta(seconds=2))
    assert store.journal.find_receipt(CART, "k") is None

    commit_ok(store, CART, head, a_write(an_event("b"), key="k"))

    assert payloads(store, CART) == ["a", "b"]
    assert store.journal.find_receipt(CART, "k") is not None


def test_expired_keys_are_forgotten(store: Store, clock: ManualClock) -> None:
    """The events stay; a receipt that stood alone goes."""
    first, second = a_write(an_event("a")), a_write()
    first.receipt = a_receipt("k-1", expires_at=clock.now_ms() + 1000)
    second.receipt = a_receipt("k-2", expires_at=clock.now_ms() + 1000)
    head = commit_ok(store, CART, fresh(), first, second)
    commit_ok(store, CART, head, a_write(an_event("b"), key="k-3"))
    clock.advance(timedelta(seconds=2))

    assert store.journal.purge_receipts(clock.now_ms(), slices=all_slices(store)) == 2
    assert store.journal.purge_receipts(clock.now_ms(), slices=all_slices(store)) == 0
    assert payloads(store, CART) == ["a", "b"]
    assert len(feed(store)) == 2
    assert store.journal.find_receipt(CART, "k-3") is not None


# -- recovery ------------------------------------------------------------------------------


def test_an_instance_that_was_never_written_is_empty(store: Store) -> None:
    stored = store.journal.load(CART)

    assert (stored.head.instance_id, stored.head.sequence_number, stored.records) == (0, 0, [])


def test_recovery_reads_the_snapshot_and_what_came_after(store: Store) -> None:
    head = commit_ok(
        store, CART, fresh(), a_write(an_event("a"), snapshot=Encoded("cart", 1, b'"s1"'))
    )
    head = commit_ok(
        store, CART, head, a_write(an_event("b"), snapshot=Encoded("cart", 2, b'"s2"'))
    )
    commit_ok(store, CART, head, a_write(an_event("c")))

    stored = store.journal.load(CART)

    assert stored.snapshot == Encoded("cart", 2, b'"s2"')
    assert stored.snapshot_sequence_number == 2
    assert [one.sequence_number for one in stored.records] == [3]
    assert stored.head.sequence_number == 3


def test_a_key_value_instance_is_recovered_from_its_latest_state(store: Store) -> None:
    head = commit_ok(store, CART, fresh(), a_write(a_state("old")))
    commit_ok(store, CART, head, a_write(a_state("new"), key="k"), a_write(key="k-2"))

    [record] = store.journal.load(CART, latest_only=True).records

    assert record.value == Encoded("state", 1, b'"new"')


@pytest.mark.parametrize("size", [10, 64 * 1024 - 1, 64 * 1024, 2_000_000])
def test_payloads_come_back_as_they_were(store: Store, size: int) -> None:
    """Large ones stand in a table of their own, which nobody notices."""
    text = ("é\\u0000 🙂" * size)[:size]
    payload = ('"' + text.replace('"', "").rstrip("\\") + '"').encode()
    record = NewRecord(RecordKind.EVENT, Encoded("happened", 1, payload), b'{"metadata":[]}')
    commit_ok(store, CART, fresh(), a_write(record))

    [found] = store.journal.records(CART)

    assert found.value == Encoded("happened", 1, payload)
    assert found.metadata == b'{"metadata":[]}'
    slice_ = slice_of(CART, store.ownership.slices)
    assert store.journal.feed(slice_)[0].value == found.value


# -- reading -------------------------------------------------------------------------------


def test_records_can_be_read_in_pages(store: Store) -> None:
    commit_ok(store, CART, fresh(), a_write(*(an_event(str(number)) for number in range(7))))

    first = store.journal.records(CART, limit=3)
    second = store.journal.records(CART, after=first[-1].sequence_number, limit=10)

    assert [one.sequence_number for one in first + second] == [1, 2, 3, 4, 5, 6, 7]


def test_the_feed_of_a_slice_can_be_read_from_where_one_was(store: Store) -> None:
    commit_ok(store, CART, fresh(), a_write(*(an_event(str(number)) for number in range(5))))
    slice_ = slice_of(CART, store.ownership.slices)

    rest = store.journal.feed(slice_, after=3)

    assert [one.slice_seq for one in rest] == [4, 5]
    assert {one.ref for one in rest} == {CART}


def test_instances_are_listed_in_the_order_of_their_ids(store: Store) -> None:
    for name in ("b", "a", "ä", "c"):
        commit_ok(store, EntityRef("cart", name), fresh(), a_write(an_event()))
    commit_ok(store, EntityRef("order", "z"), fresh(), a_write(an_event()))

    first = store.journal.instances("cart", limit=2)
    rest = store.journal.instances("cart", after=first[-1].ref.instance)

    assert [one.ref.instance for one in first + rest] == ["a", "b", "c", "ä"]
    assert first[0].sequence_number == 1


def test_stored_type_names_are_listed(store: Store) -> None:
    commit_ok(store, CART, fresh(), a_write(an_event(), a_state("x")))

    assert store.journal.type_names("cart") == [("happened", 1), ("state", 1)]
    assert store.journal.type_names("order") == []


# -- expiry, deletion, purging -------------------------------------------------------------


def test_what_has_expired_is_due(store: Store, clock: ManualClock) -> None:
    soon = clock.now_ms() + 1000
    commit_ok(store, CART, fresh(), a_write(an_event(), expires_at=soon))
    commit_ok(store, OTHER, fresh(), a_write(an_event(), expires_at=soon + 5000))

    assert store.journal.due(soon - 1, slices=all_slices(store)) == []
    assert store.journal.due(soon, slices=all_slices(store)) == [DueInstance(CART, soon)]


def test_a_later_write_without_expiry_cancels_it(store: Store, clock: ManualClock) -> None:
    head = commit_ok(store, CART, fresh(), a_write(an_event(), expires_at=clock.now_ms() + 1000))
    commit_ok(store, CART, head, a_write(an_event()))

    assert store.journal.due(clock.now_ms() + 10_000, slices=all_slices(store)) == []


def test_a_deleted_instance_keeps_its_records_until_it_is_purged(
    store: Store, clock: ManualClock
) -> None:
    head = commit_ok(store, CART, fresh(), a_write(an_event("a"), a_deletion()))

    stored = store.journal.load(CART)

    assert head.deleted_at == stored.head.deleted_at == clock.now_ms()
    assert [one.kind for one in stored.records] == [RecordKind.EVENT, RecordKind.DELETION]
    assert store.journal.purge_deleted(clock.now_ms(), slices=all_slices(store)) == []


def test_a_purged_id_begins_its_next_life_empty(store: Store, clock: ManualClock) -> None:
    """Sequence numbers go on, and whoever remembers the old life is told."""
    snapshot = Encoded("cart", 1, b'"s"')
    old = commit_ok(store, CART, fresh(), a_write(an_event("a"), a_deletion(), snapshot=snapshot))
    clock.advance(timedelta(days=8))

    assert store.journal.purge_deleted(clock.now_ms(), slices=all_slices(store)) == [CART]

    stored = store.journal.load(CART)
    assert (stored.records, stored.snapshot) == ([], None)
    assert stored.head.deleted_at is None
    assert stored.head.sequence_number == old.sequence_number
    assert stored.head.generation == old.generation + 1
    late = commit_one(store, CART, old, a_write(an_event("late")))
    assert isinstance(late.error, ConcurrentWriteError)
    again = commit_ok(store, CART, stored.head, a_write(an_event("new")))
    assert again.sequence_number == old.sequence_number + 1
    assert payloads(store, CART) == ["new"]


def test_a_key_outlives_the_purge_of_what_it_wrote(store: Store, clock: ManualClock) -> None:
    commit_ok(store, CART, fresh(), a_write(an_event("a"), key="k"), a_write(a_deletion()))
    clock.advance(timedelta(days=8))
    store.journal.purge_deleted(clock.now_ms(), slices=all_slices(store))

    found = store.journal.find_receipt(CART, "k")

    assert found is not None
    assert found.reply == b'"done"'
    assert store.journal.records(CART) == []


def test_replaced_states_are_removed_in_time(store: Store, clock: ManualClock) -> None:
    """The latest one stays, however old it is."""
    head = commit_ok(store, CART, fresh(), a_write(a_state("one")), a_write(a_state("two")))
    clock.advance(timedelta(days=31))
    commit_ok(store, CART, head, a_write(a_state("three")))
    commit_ok(store, OTHER, fresh(), a_write(a_state("only")))
    clock.advance(timedelta(days=31))
    before = clock.now_ms()

    assert store.journal.purge_states(before, slices=all_slices(store)) == 2
    assert payloads(store, CART) == ["three"]
    assert payloads(store, OTHER) == ["only"]


def test_no_connection_is_kept(store: Store) -> None:
    """Beside the one that writes."""
    head = commit_ok(store, CART, fresh(), a_write(an_event()))
    commit_one(store, CART, fresh(), a_write(an_event()))
    commit_ok(store, CART, head, a_write(an_event()))
    for _ in range(50):
        store.journal.load(CART)
        store.journal.records(CART)
        store.journal.instances("cart")

    checked_out = store.journal._engine.pool.checkedout()  # type: ignore[attr-defined]
    assert checked_out <= 2  # the writer, and on PostgreSQL the lock that says who lives
