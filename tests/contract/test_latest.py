"""The last record of each instance; and timers, which come back under their names."""

from collections.abc import Iterator

import pytest

from greenroom.ids import EntityRef
from greenroom.persistence import CommandWrite, Encoded, Head, NewRecord, RecordKind, Store
from greenroom.testkit import ManualClock
from tests.support.journals import a_chain, a_deletion, a_receipt, a_state, open_journal

HOUR_MS = 3_600_000


@pytest.fixture
def opened(database_url: str) -> Iterator[tuple[Store, ManualClock]]:
    with open_journal(database_url) as opened:
        yield opened


@pytest.fixture
def store(opened: tuple[Store, ManualClock]) -> Store:
    return opened[0]


def a_timer(text: str) -> NewRecord:
    return NewRecord(RecordKind.TIMER, Encoded("timer", 1, f'"{text}"'.encode()))


def write(store: Store, name: str, head: Head, record: NewRecord | None, **more: object) -> Head:
    records = [] if record is None else [record]
    chain = a_chain(
        EntityRef("timers", name),
        head,
        CommandWrite(records, **more),
        kind="timer",  # type: ignore[arg-type]
    )
    [outcome] = store.journal.commit([chain])
    assert outcome.error is None, outcome.error
    assert outcome.head is not None
    return outcome.head


def texts(store: Store, **chosen: object) -> list[tuple[str, str]]:
    found = store.journal.latest("timers", **chosen)  # type: ignore[arg-type]
    return [
        (one.ref.instance, one.value.payload.decode().strip('"'))
        for one in found
        if one.value is not None
    ]


def test_each_instance_has_one_and_deleted_ones_have_none(store: Store) -> None:
    head = write(store, "b", Head(0), a_timer("old"))
    write(store, "b", head, a_timer("new"))
    write(store, "a", Head(0), a_timer("x" * 100_000))
    head = write(store, "c", Head(0), a_timer("gone"))
    write(store, "c", head, a_deletion())
    write(store, "d", Head(0), None, receipt=a_receipt("k"))
    store.journal.commit(
        [a_chain(EntityRef("carts", "b"), Head(0), CommandWrite([a_state("another")]))]
    )

    assert texts(store) == [("a", "x" * 100_000), ("b", "new")]
    assert store.journal.latest("nothing") == []


def test_a_receipt_after_it_hides_nothing(store: Store) -> None:
    head = write(store, "a", Head(0), a_timer("here"))
    write(store, "a", head, None, receipt=a_receipt("k"))

    assert texts(store) == [("a", "here")]


def test_they_are_chosen_by_name_due_time_and_step(store: Store) -> None:
    for name, due, step in (
        ("Äpfel", 1, None), ("Order_1", 5, "dead"), ("order-2", None, "retrying"), ("x", 9, "dead"),
    ):  # fmt: skip
        write(store, name, Head(0), a_timer(name), expires_at=due, step=step)

    def names(**chosen: object) -> list[str]:
        return [name for name, _ in texts(store, **chosen)]

    assert names() == ["Order_1", "order-2", "x", "Äpfel"]
    assert names(after="order-2", limit=1) == ["x"]
    assert names(containing="ORDER") == ["Order_1", "order-2"]
    assert names(containing="r_1") == ["Order_1"]
    assert names(containing="ÄPF") == names(containing="Äpf") == ["Äpfel"]
    assert names(due_before=5) == ["Order_1", "Äpfel"]
    assert names(steps=["dead"]) == ["Order_1", "x"]
    assert names(steps=["dead", "retrying"], due_before=5) == ["Order_1"]


def test_timers_are_never_in_the_middle_of_a_step(store: Store) -> None:
    """What their `step` says is for lists; they are woken when they are due."""
    write(store, "a", Head(0), a_timer("a"), step="dead", expires_at=1)

    assert store.journal.unfinished(slices=range(64)) == []
    assert [one.ref.instance for one in store.journal.due(1, slices=range(64))] == ["a"]


def test_a_timer_comes_back_under_its_name(opened: tuple[Store, ManualClock]) -> None:
    """A purge after that leaves it alone; one before it begins the next generation."""
    store, clock = opened
    head = write(store, "a", Head(0), a_timer("one"))
    head = write(store, "a", head, a_deletion())
    assert head.deleted_at is not None
    head = write(store, "a", head, a_timer("two"), expires_at=7)

    assert head.deleted_at is None
    ref = EntityRef("timers", "a")
    assert store.journal.load(ref, latest_only=True).head == head
    assert store.journal.purge_deleted(clock.now_ms() + HOUR_MS, slices=range(64)) == []
    assert texts(store) == [("a", "two")]

    write(store, "a", head, a_deletion())
    assert store.journal.purge_deleted(clock.now_ms() + HOUR_MS, slices=range(64)) == [ref]
    head = store.journal.load(ref, latest_only=True).head
    head = write(store, "a", head, a_timer("three"))
    assert (head.generation, head.sequence_number) == (2, 5)
    assert texts(store) == [("a", "three")]


def test_what_a_timer_was_before_is_forgotten_in_time(opened: tuple[Store, ManualClock]) -> None:
    store, clock = opened
    head = write(store, "a", Head(0), a_timer("one"))
    write(store, "a", head, a_timer("two"))

    assert store.journal.purge_states(clock.now_ms() + HOUR_MS, slices=range(64)) == 1
    assert texts(store) == [("a", "two")]
