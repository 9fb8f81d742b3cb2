"""The journal against a model of it, with what nobody would write down."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from greenroom.errors import ConcurrentWriteError
from greenroom.ids import EntityRef
from greenroom.persistence import Encoded, Head
from tests.support.journals import a_chain, a_deletion, a_write, an_event, open_journal
from tests.support.postgres import PostgresServer

REFS = st.sampled_from([EntityRef("cart", name) for name in "abcd"])
SLICES = 3
KEY_MS = 1000
"""How long a key is remembered."""


class Instance:
    """What the model knows of one instance."""

    def __init__(self) -> None:
        self.id = 0
        self.generation = 1
        self.number = 0
        self.texts: list[str | None] = []
        """Of this life; None is its deletion."""
        self.deleted_at: int | None = None
        self.snapshot: tuple[int, str] | None = None
        self.keys: dict[str, tuple[int, int]] = {}
        """The number after the command, and when the key expires."""


class JournalMachine(RuleBasedStateMachine):
    """Commits batches of right, stale, premature and repeated chains; deletes and forgets."""

    url = ""

    @initialize()
    def open(self) -> None:
        self.stack = ExitStack()
        self.store, self.clock = self.stack.enter_context(open_journal(self.url, slices=SLICES))
        self.model: dict[EntityRef, Instance] = {}
        self.given = dict.fromkeys(range(SLICES), 0)
        """The highest slice_seq that was ever seen."""
        self.count = 0

    def teardown(self) -> None:
        self.stack.close()

    @rule(
        wanted=st.lists(
            st.tuples(
                REFS,
                st.integers(0, 3),
                st.sampled_from([0, 0, 0, 0, -1, 1]),
                st.sampled_from([None, None, "k-1", "k-2"]),
                st.sampled_from(["", "", "snapshot", "deletion", "old life"]),
            ),
            min_size=1,
            max_size=4,
            unique_by=lambda one: one[0],
        )
    )
    def commit(self, wanted: list[tuple[EntityRef, int, int, str | None, str]]) -> None:
        """One batch: each chain goes in just when the model says so."""
        chains, plans = [], []
        for ref, events, shift, key, more in wanted:
            known = self.model.setdefault(ref, Instance())
            generation = known.generation - (more == "old life")
            number = max(known.number + shift, 0)
            head = Head(known.id, generation, number, known.deleted_at)
            self.count += 1
            texts: list[str | None] = [f"{self.count}-{number}" for number in range(events)]
            texts += [None] * (more == "deletion")
            records = [a_deletion() if text is None else an_event(text) for text in texts]
            write = a_write(*records, key=key)
            if write.receipt is not None:
                write.receipt.expires_at = self.clock.now_ms() + KEY_MS
            if more == "snapshot":
                write.snapshot = Encoded("all", 1, f'"{self.count}"'.encode())
            # A new instance has no life before this one; nothing is stored to be compared.
            fits = head.sequence_number == known.number and (more != "old life" or not known.id)
            if more == "old life" and not known.id:
                head.generation = 1
            chains.append(a_chain(ref, head, write))
            plans.append((known, fits, key, texts, write))
        for (known, fits, key, texts, write), outcome in zip(
            plans, self.store.journal.commit(chains), strict=True
        ):
            now = self.clock.now_ms()
            number, expires = known.keys.get(key or "", (0, 0))
            used = expires > now
            if not fits or used:
                assert isinstance(outcome.error, ConcurrentWriteError)
                found = [one.sequence_number for one in outcome.duplicates]
                assert found == ([number] if used else [])
                continue
            assert outcome.error is None
            assert outcome.head is not None
            known.id = known.id or outcome.head.instance_id
            known.texts += texts
            known.number += len(texts)
            if None in texts:
                known.deleted_at = now
            if write.snapshot is not None:
                known.snapshot = (known.number, write.snapshot.payload.decode())
            if key is not None:
                known.keys[key] = (known.number, now + KEY_MS)
            assert outcome.head == Head(
                known.id, known.generation, known.number, known.deleted_at, None
            )

    @rule(milliseconds=st.sampled_from([1, KEY_MS // 2, KEY_MS]))
    def wait(self, milliseconds: int) -> None:
        self.clock.advance(timedelta(milliseconds=milliseconds))

    @rule()
    def forget_keys(self) -> None:
        now = self.clock.now_ms()
        while self.store.journal.purge_receipts(now, slices=range(SLICES), limit=2):
            pass

    @rule()
    def purge(self) -> None:
        """The next life begins empty, in the next generation; numbers go on."""
        now = self.clock.now_ms()
        purged = self.store.journal.purge_deleted(now, slices=range(SLICES))
        gone = {
            ref
            for ref, known in self.model.items()
            if known.deleted_at is not None and known.deleted_at < now
        }
        assert set(purged) == gone
        for ref in purged:
            known = self.model[ref]
            known.generation += 1
            known.texts = []
            known.deleted_at = known.snapshot = None

    @rule()
    def reopen(self) -> None:
        """Another process, the same database."""
        self.stack.close()
        self.stack = ExitStack()
        passed = self.clock.now_ms()
        self.store, self.clock = self.stack.enter_context(open_journal(self.url))
        self.clock.advance(timedelta(milliseconds=passed - self.clock.now_ms()))

    @invariant()
    def reads_what_the_model_says(self) -> None:
        """Records by instance, what recovery needs, and keys."""
        if not hasattr(self, "store"):
            return
        journal = self.store.journal
        for ref, known in self.model.items():
            records = journal.records(ref)
            found = [
                None if one.value is None else one.value.payload.decode().strip('"')
                for one in records
            ]
            assert found == known.texts
            first = known.number - len(known.texts) + 1
            numbers = list(range(first, known.number + 1))
            assert [one.sequence_number for one in records] == numbers
            stored = journal.load(ref)
            assert stored.head.sequence_number == known.number
            at, text = known.snapshot or (0, "")
            assert stored.snapshot_sequence_number == at
            assert (stored.snapshot.payload.decode() if stored.snapshot else "") == text
            assert stored.records == [one for one in records if one.sequence_number > at]
            for key in ("k-1", "k-2"):
                _, expires = known.keys.get(key, (0, 0))
                receipt = journal.find_receipt(ref, key)
                assert (receipt is not None) == (expires > self.clock.now_ms())

    @invariant()
    def gives_no_number_of_a_slice_twice(self) -> None:
        """What is new in a feed comes right after what was ever there, in one piece."""
        if not hasattr(self, "store"):
            return
        for slice_, given in self.given.items():
            numbers = [one.slice_seq for one in self.store.journal.feed(slice_)]
            assert numbers == sorted(set(numbers))
            new = [number for number in numbers if number > given]
            assert new == list(range(given + 1, given + 1 + len(new)))
            self.given[slice_] = max([given, *numbers])


def check(url_maker: Iterator[str], examples: int) -> None:
    class Machine(JournalMachine):
        def __init__(self) -> None:
            type(self).url = next(url_maker)
            super().__init__()

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def sqlite_files(folder: Path) -> Iterator[str]:
    for number in count():
        yield f"sqlite:///{folder}/{number}.db"


def postgres_databases(server: PostgresServer) -> Iterator[str]:
    while True:
        yield server.create_database()


@pytest.mark.timeout(120)
def test_the_journal_does_what_its_model_does(tmp_path: Path) -> None:
    check(sqlite_files(tmp_path), 15)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_journal_does_what_its_model_does_at_length(tmp_path: Path) -> None:
    check(sqlite_files(tmp_path), 80)


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.timeout(600)
def test_on_postgresql_too(postgres_server: PostgresServer) -> None:
    check(postgres_databases(postgres_server), 15)
