"""Group commit: what waits goes out together, in order, and every write is settled once."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from greenroom.components import define_all
from greenroom.errors import (
    ConcurrentWriteError,
    NotOwnerError,
    PersistenceError,
    StoreFullError,
)
from greenroom.ids import EntityRef
from greenroom.persistence import Chain, CommandWrite, Head, Outcome, Receipt
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._future import ReplyFuture
from greenroom.runtime._writer import JournalWriter, Life, PendingWrite
from tests.support.components import Counter
from tests.support.eventually import eventually

[COUNTER] = define_all([Counter])
INCREASE = COUNTER.handler_named("increase")
NOTHING = CommandWrite([])


class FakeJournal:
    """Notes its batches; commits when it is let, and fails as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[Chain]] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Semaphore(0)
        self.problems: list[Exception] = []
        self.losers: set[EntityRef] = set()
        self._inside = threading.Lock()

    def commit(self, batch: Sequence[Chain]) -> list[Outcome]:
        assert self._inside.acquire(blocking=False), "two commits at once"
        try:
            self.batches.append(list(batch))
            self.entered.release()
            assert self.open.wait(10)
            if self.problems:
                raise self.problems.pop(0)
            return [self._outcome(chain) for chain in batch]
        finally:
            self._inside.release()

    def _outcome(self, chain: Chain) -> Outcome:
        if chain.ref in self.losers:
            return Outcome(error=ConcurrentWriteError(chain.ref, expected=0))
        return Outcome(head=Head(1, sequence_number=chain.head.sequence_number + len(chain.writes)))

    def sizes(self) -> list[int]:
        return [sum(len(chain.writes) for chain in batch) for batch in self.batches]


class FakeActor:
    """Where writes come from."""

    kind = "event-sourced-entity"

    def __init__(self, name: str = "a") -> None:
        self.ref = EntityRef("counter", name)
        self.head = Head(0)
        self.life = Life()
        self.last: PendingWrite | None = None
        self.told = 0

    def on_write_failed(self) -> None:
        self.told += 1

    def write(
        self, value: int = 0, *, then_run: Callable[[], None] | None = None, key: str | None = None
    ) -> PendingWrite:
        call = CallRequest(self.ref, INCREASE, (1,), idempotency_key=key, reply_to=ReplyFuture())
        answer = Answer(INCREASE, value, 1)
        self.last = PendingWrite(self, self.life, call, NOTHING, answer, then_run, self.last)
        return self.last


@pytest.fixture
def journal() -> FakeJournal:
    return FakeJournal()


@pytest.fixture
def ran() -> list[Callable[[], None]]:
    return []


@pytest.fixture
def writer(journal: FakeJournal, ran: list[Callable[[], None]]) -> Iterator[JournalWriter]:
    made: Any = JournalWriter(journal, max_batch=1000, run_later=ran.append)  # type: ignore[arg-type]
    made.start()
    yield made
    journal.open.set()
    made.stop()


def submit(writer: JournalWriter, *writes: PendingWrite) -> list[ReplyFuture[Answer]]:
    futures: list[Any] = [write.call.reply_to for write in writes]
    for write in writes:
        writer.submit(write)
    writer.notify()
    return futures


def test_what_queues_during_a_commit_goes_out_in_one_batch(
    writer: JournalWriter, journal: FakeJournal
) -> None:
    """Nothing lingers for it: the first write goes alone."""
    journal.open.clear()
    [first] = submit(writer, FakeActor("first").write())
    assert journal.entered.acquire(timeout=5)
    others = [submit(writer, FakeActor(str(number)).write())[0] for number in range(50)]
    journal.open.set()

    for future in (first, *others):
        future.get(timeout=5)
    assert journal.sizes() == [1, 50]


def test_writes_of_one_instance_are_one_chain_in_their_order(
    writer: JournalWriter, journal: FakeJournal
) -> None:
    """Whatever lies between them."""
    journal.open.clear()
    submit(writer, FakeActor("first").write())
    assert journal.entered.acquire(timeout=5)
    a, b = FakeActor("a"), FakeActor("b")
    writes = [a.write(), b.write(), a.write(), b.write(), a.write()]
    stored = [write.write for write in writes]
    futures = submit(writer, *writes)
    journal.open.set()
    for future in futures:
        future.get(timeout=5)

    [_, [of_a, of_b]] = journal.batches
    assert (of_a.ref, of_b.ref) == (a.ref, b.ref)
    assert [id(one) for one in of_a.writes] == [id(stored[0]), id(stored[2]), id(stored[4])]
    assert [id(one) for one in of_b.writes] == [id(stored[1]), id(stored[3])]
    assert a.head.sequence_number == 3


def test_the_next_batch_starts_where_the_last_one_ended(
    writer: JournalWriter, journal: FakeJournal
) -> None:
    a = FakeActor()
    for _ in range(3):
        submit(writer, a.write())[0].get(timeout=5)

    assert [batch[0].head.sequence_number for batch in journal.batches] == [0, 1, 2]


def test_a_batch_has_a_limit(journal: FakeJournal) -> None:
    """What is over it goes into the next one, in order."""
    writer = JournalWriter(journal, max_batch=10, run_later=lambda run: run())  # type: ignore[arg-type]
    a = FakeActor()
    futures = submit(writer, *(a.write() for _ in range(25)))
    writer.start()
    for future in futures:
        future.get(timeout=5)
    writer.stop()

    assert journal.sizes() == [10, 10, 5]
    assert [batch[0].head.sequence_number for batch in journal.batches] == [0, 10, 20]


def test_a_thread_that_may_wait_commits_by_itself(
    writer: JournalWriter, journal: FakeJournal
) -> None:
    """And leaves it to whoever is committing already."""
    a = FakeActor()
    write = a.write(5)
    future: Any = write.call.reply_to
    writer.submit(write)
    writer.write_here()
    assert future.done()

    journal.open.clear()
    submit(writer, FakeActor("first").write())
    assert eventually(lambda: len(journal.batches) == 2)
    late = a.write(6)
    late_future: Any = late.call.reply_to
    writer.submit(late)
    writer.write_here()
    assert not late_future.done()
    journal.open.set()
    assert late_future.get(timeout=5).value == 6


@pytest.mark.parametrize("error", [StoreFullError("full"), NotOwnerError("gone")])
def test_a_batch_that_fails_fails_every_write_of_it(
    writer: JournalWriter, journal: FakeJournal, error: PersistenceError
) -> None:
    """Nobody is answered: the actors know what is to become of the calls."""
    fenced = threading.Event()
    writer.on_fenced = fenced.set
    journal.problems.append(error)
    a = FakeActor()
    writes = [a.write(), a.write()]
    futures = submit(writer, *writes)

    assert eventually(lambda: a.told > 0)
    assert [write.error for write in writes] == [error, error]
    assert a.life.error is error
    assert not any(future.done() for future in futures)
    assert fenced.is_set() == isinstance(error, NotOwnerError)
    assert submit(writer, FakeActor("b").write(3))[0].get(timeout=5).value == 3


def test_a_bug_in_the_journal_does_not_end_the_writer(
    writer: JournalWriter, journal: FakeJournal, caplog: pytest.LogCaptureFixture
) -> None:
    """Its text goes into the log alone."""
    journal.problems.append(ZeroDivisionError("a secret detail"))
    a = FakeActor()
    write = a.write()
    submit(writer, write)

    assert eventually(lambda: a.told == 1)
    assert "secret" not in str(write.error)
    assert "a secret detail" in caplog.text
    assert submit(writer, FakeActor("b").write(3))[0].get(timeout=5).value == 3


def test_of_many_instances_only_the_one_that_conflicts_fails(
    writer: JournalWriter, journal: FakeJournal
) -> None:
    journal.open.clear()
    submit(writer, FakeActor("first").write())
    assert journal.entered.acquire(timeout=5)
    actors = [FakeActor(str(number)) for number in range(20)]
    journal.losers.add(actors[7].ref)
    futures = submit(writer, *(actor.write() for actor in actors))
    journal.open.set()
    for number, future in enumerate(futures):
        if number != 7:
            future.get(timeout=5)

    assert [actor.told for actor in actors] == [int(number == 7) for number in range(20)]
    assert isinstance(actors[7].life.error, ConcurrentWriteError)
    assert actors[7].head == Head(0)
    assert not futures[7].done()


def test_what_was_computed_after_a_failed_write_is_left_out(
    writer: JournalWriter, journal: FakeJournal
) -> None:
    """It rests on a state that never came to be; a new life of the instance is written."""
    journal.losers.add(EntityRef("counter", "a"))
    a = FakeActor()
    submit(writer, a.write())
    assert eventually(lambda: a.told == 1)
    journal.losers.clear()
    late = a.write()
    submit(writer, late)
    assert eventually(lambda: a.told == 2)
    assert isinstance(late.error, ConcurrentWriteError)

    a.life, a.last = Life(), None
    assert submit(writer, a.write(9))[0].get(timeout=5).value == 9
    assert len(journal.batches) == 2


def test_a_held_answer_goes_out_with_the_write_it_rests_on(
    writer: JournalWriter, journal: FakeJournal
) -> None:
    journal.open.clear()
    write = FakeActor().write()
    read = CallRequest(write.actor.ref, INCREASE, (1,), reply_to=ReplyFuture())
    assert read.reply_to is not None
    submit(writer, write)
    assert journal.entered.acquire(timeout=5)
    write.hold(read, Answer(INCREASE, 8, 1))
    assert not read.reply_to.done()
    journal.open.set()

    assert read.reply_to.get(timeout=5).value == 8
    late = CallRequest(EntityRef("counter", "a"), INCREASE, (1,), reply_to=ReplyFuture())
    write.hold(late, Answer(INCREASE, 9, 1))
    assert late.reply_to is not None
    assert late.reply_to.get(timeout=5).value == 9


def test_side_effects_run_after_the_commit_and_not_after_a_failure(
    writer: JournalWriter, journal: FakeJournal, ran: list[Callable[[], None]]
) -> None:
    def effect() -> None:
        """Would send a mail."""

    submit(writer, FakeActor("b").write(then_run=effect))[0].get(timeout=5)
    assert eventually(lambda: ran == [effect])
    journal.problems.append(StoreFullError("full"))
    a = FakeActor("a")
    submit(writer, a.write(then_run=effect))
    assert eventually(lambda: a.told == 1)
    assert ran == [effect]


def test_a_key_that_was_used_finds_its_first_answer(journal: FakeJournal) -> None:
    """Only the write with that key is told."""
    first = Receipt("k", "increase", None, "f", b"1", 0)

    def losing(chain: Chain) -> Outcome:
        return Outcome(error=ConcurrentWriteError(chain.ref, expected=0), duplicates=(first,))

    journal._outcome = losing  # type: ignore[method-assign]
    writer = JournalWriter(journal, max_batch=10, run_later=lambda run: run())  # type: ignore[arg-type]
    a = FakeActor()
    writes = [a.write(), a.write(key="k"), a.write(key="other")]
    submit(writer, *writes)
    writer.write_here()

    assert [write.duplicate for write in writes] == [None, first, None]
    writer.start()
    writer.stop()


def test_nobody_commits_while_slices_move(writer: JournalWriter, journal: FakeJournal) -> None:
    with writer.exclusive():
        [future] = submit(writer, FakeActor().write(4))
        writer.write_here()
        assert journal.batches == []

    assert future.get(timeout=5).value == 4


@pytest.mark.parametrize("round_", range(20))
def test_nothing_is_lost_when_a_stop_meets_a_submit(journal: FakeJournal, round_: int) -> None:
    """Each write is committed, or told that it was not; before anybody's deadline."""
    writer = JournalWriter(journal, max_batch=5, run_later=lambda run: run())  # type: ignore[arg-type]
    writer.start()
    line = threading.Barrier(5)
    actors = [FakeActor(str(number)) for number in range(4)]
    writes: list[PendingWrite] = []

    def work(number: int) -> None:
        line.wait()
        for _ in range(25):
            write = actors[number].write()
            writes.append(write)
            writer.submit(write)
            if number % 2:
                writer.notify()
            else:
                writer.write_here()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    line.wait()
    writer.stop()
    for thread in threads:
        thread.join()

    assert len(writes) == 100
    assert all(write.done for write in writes)
    assert sum(journal.sizes()) == sum(write.error is None for write in writes)
    assert all(isinstance(write.error, NotOwnerError | None) for write in writes)
