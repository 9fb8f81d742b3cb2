"""A journal that something happens to just before a commit."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from greenroom.ids import EntityRef
from greenroom.persistence import (
    Chain,
    CommandWrite,
    Encoded,
    NewRecord,
    Outcome,
    Receipt,
    RecordKind,
)
from greenroom.runtime import CallRequest, Runtime


class Interfering:
    """The real journal, with something happening just before a commit."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.before: list[Any] = []
        self.batches: list[int] = []
        self.entered = threading.Semaphore(0)
        self.held = threading.Event()
        self.held.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def commit(self, batch: Sequence[Chain]) -> list[Outcome]:
        self.entered.release()
        self.held.wait(30)
        self.batches.append(sum(len(chain.writes) for chain in batch))
        if self.before:
            self.before.pop(0)()
        return self._journal.commit(batch)

    def foreign_write(
        self, name: str, by: int, *, call: CallRequest | None = None, key: str = ""
    ) -> None:
        """Somebody else increases a counter, past this runtime; as the call with the key."""
        ref = EntityRef("counter", name)
        stored = self._journal.load(ref)
        receipt = None
        if call is not None:
            total = sum(orjson.loads(one.value.payload)["by"] for one in stored.records) + by
            fingerprint = call.handler.fingerprint(call.values)
            reply = b"%d" % total
            receipt = Receipt(key, call.handler.name, None, fingerprint, reply, 2**53)
        event = NewRecord(RecordKind.EVENT, Encoded("increased", 1, b'{"by":%d}' % by))
        write = CommandWrite([event], receipt)
        [outcome] = self._journal.commit([Chain(ref, "event-sourced-entity", stored.head, [write])])
        assert outcome.error is None


@contextmanager
def interfering_with(runtime: Runtime) -> Iterator[Interfering]:
    interfering = Interfering(runtime._store.journal)
    runtime._writer._journal = interfering
    yield interfering
