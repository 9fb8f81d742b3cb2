"""Stores, chains and records for tests of persistence."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from greenroom.ids import EntityRef
from greenroom.migrations import prepare
from greenroom.persistence import (
    Chain,
    CommandWrite,
    Encoded,
    Head,
    NewRecord,
    Outcome,
    Receipt,
    RecordKind,
    Store,
    open_store,
)
from greenroom.settings import Settings
from greenroom.testkit import ManualClock

CART = EntityRef("cart", "c-1")
_numbers = count(1)


@contextmanager
def open_journal(url: str, *, slices: int | None = None) -> Iterator[tuple[Store, ManualClock]]:
    """A store that owns everything, on a clock that stands still."""
    settings = Settings(database_url=url, slices=slices)
    prepare(settings)
    clock = ManualClock()
    store = open_store(settings, clock)
    store.ownership.start("127.0.0.1:1")
    store.ownership.beat()
    try:
        yield store, clock
    finally:
        store.ownership.stop()
        store.close()


def an_event(text: str = "something") -> NewRecord:
    return NewRecord(RecordKind.EVENT, Encoded("happened", 1, f'"{text}"'.encode()))


def a_state(text: str) -> NewRecord:
    return NewRecord(RecordKind.STATE, Encoded("state", 1, f'"{text}"'.encode()))


def a_deletion() -> NewRecord:
    return NewRecord(RecordKind.DELETION, None)


def a_receipt(key: str, *, expires_at: int = 10**15, reply: bytes = b'"done"') -> Receipt:
    return Receipt(key, "add", None, "f" * 32, reply, expires_at)


def a_write(*records: NewRecord, key: str | None = None, **more: object) -> CommandWrite:
    receipt = None if key is None else a_receipt(key)
    return CommandWrite(list(records), receipt, **more)  # type: ignore[arg-type]


def a_chain(
    ref: EntityRef, head: Head, *writes: CommandWrite, kind: str = "event-sourced"
) -> Chain:
    return Chain(ref, kind, head, list(writes))


def commit_one(store: Store, ref: EntityRef, head: Head, *writes: CommandWrite) -> Outcome:
    [outcome] = store.journal.commit([a_chain(ref, head, *writes)])
    return outcome


def commit_ok(store: Store, ref: EntityRef, head: Head, *writes: CommandWrite) -> Head:
    outcome = commit_one(store, ref, head, *writes)
    assert outcome.error is None, outcome.error
    assert outcome.head is not None
    return outcome.head


def fresh() -> Head:
    return Head(0)


def payloads(store: Store, ref: EntityRef) -> list[str]:
    records = store.journal.records(ref)
    return [one.value.payload.decode().strip('"') for one in records if one.value is not None]
