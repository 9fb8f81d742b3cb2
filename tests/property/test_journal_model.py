"""The journal against a model of it, with what nobody would write down."""

from collections.abc import Iterator
from contextlib import ExitStack
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
from greenroom.persistence import Head
from tests.support.journals import a_chain, a_write, an_event, open_journal
from tests.support.postgres import PostgresServer

REFS = st.sampled_from([EntityRef("cart", name) for name in "abcd"])
SLICES = 3


class JournalMachine(RuleBasedStateMachine):
    """Commits batches of right, stale, premature and repeated chains."""

    url = ""

    @initialize()
    def open(self) -> None:
        self.stack = ExitStack()
        self.store, self.clock = self.stack.enter_context(open_journal(self.url, slices=SLICES))
        self.texts: dict[EntityRef, list[str]] = {}
        self.ids: dict[EntityRef, int] = {}
        self.keys: dict[tuple[EntityRef, str], int] = {}
        self.count = 0

    def teardown(self) -> None:
        self.stack.close()

    @rule(
        wanted=st.lists(
            st.tuples(
                REFS,
                st.integers(0, 3),
                st.sampled_from([0, 0, 0, -1, 1]),
                st.sampled_from([None, None, "k-1", "k-2"]),
            ),
            min_size=1,
            max_size=4,
            unique_by=lambda one: one[0],
        )
    )
    def commit(self, wanted: list[tuple[EntityRef, int, int, str | None]]) -> None:
        """One batch: each chain goes in just when the model says so."""
        batch = []
        for ref, events, shift, key in wanted:
            known = self.texts.get(ref, [])
            at = len(known) + shift
            head = Head(self.ids.get(ref, 0), 1, max(at, 0))
            self.count += 1
            texts = [f"{self.count}-{number}" for number in range(events)]
            batch.append((ref, head, key, texts, shift))
        outcomes = self.store.journal.commit(
            [
                a_chain(ref, head, a_write(*(an_event(text) for text in texts), key=key))
                for ref, head, key, texts, _ in batch
            ]
        )
        for (ref, head, key, texts, _), outcome in zip(batch, outcomes, strict=True):
            known = self.texts.setdefault(ref, [])
            fits = head.sequence_number == len(known) and head.instance_id == self.ids.get(ref, 0)
            used = key is not None and (ref, key) in self.keys
            if fits and not used:
                assert outcome.error is None
                assert outcome.head is not None
                known += texts
                self.ids[ref] = outcome.head.instance_id
                assert outcome.head.sequence_number == len(known)
                if key is not None:
                    self.keys[ref, key] = len(known)
            else:
                assert isinstance(outcome.error, ConcurrentWriteError)
                assert (outcome.duplicate is not None) == used
                if used and outcome.duplicate is not None and key is not None:
                    assert outcome.duplicate.sequence_number == self.keys[ref, key]

    @rule()
    def reopen(self) -> None:
        """Another process, the same database."""
        self.stack.close()
        self.stack = ExitStack()
        self.store, self.clock = self.stack.enter_context(open_journal(self.url))

    @invariant()
    def reads_what_the_model_says(self) -> None:
        """Records by instance, and the feed of every slice without gaps."""
        if not hasattr(self, "store"):
            return
        for ref, texts in self.texts.items():
            records = self.store.journal.records(ref)
            found = [one.value.payload.decode().strip('"') for one in records if one.value]
            assert found == texts
            assert [one.sequence_number for one in records] == list(range(1, len(texts) + 1))
        for slice_ in range(SLICES):
            numbers = [one.slice_seq for one in self.store.journal.feed(slice_)]
            assert numbers == list(range(1, len(numbers) + 1))


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
