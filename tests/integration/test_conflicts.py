"""Writes that do not go in: the instance recovers, and nobody is told something untrue."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from greenroom.errors import (
    CommitUnknownError,
    PersistenceError,
    StoreFullError,
    StoreUnavailableError,
)
from greenroom.ids import EntityRef
from greenroom.persistence import Chain, CommandWrite, Encoded, NewRecord, Outcome, RecordKind
from greenroom.runtime import Runtime
from greenroom.settings import Settings
from tests.support.components import Counter, ProfileEntity


class Interfering:
    """The real journal, with something happening just before a commit."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.before: list[Any] = []
        self.batches: list[int] = []
        self.held = threading.Event()
        self.held.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def commit(self, batch: Sequence[Chain]) -> list[Outcome]:
        self.held.wait(10)
        self.batches.append(sum(len(chain.writes) for chain in batch))
        if self.before:
            self.before.pop(0)()
        return self._journal.commit(batch)

    def foreign_write(self, name: str, by: int) -> None:
        """Somebody else increases a counter, past this runtime."""
        ref = EntityRef("counter", name)
        head = self._journal.load(ref).head
        value = Encoded("increased", 1, b'{"by":%d}' % by)
        write = CommandWrite([NewRecord(RecordKind.EVENT, value)])
        [outcome] = self._journal.commit([Chain(ref, "event-sourced-entity", head, [write])])
        assert outcome.error is None


@contextmanager
def interfering_with(runtime: Runtime) -> Iterator[Interfering]:
    interfering = Interfering(runtime._store.journal)
    runtime._writer._journal = interfering
    yield interfering


@pytest.fixture
def runtime(database_url: str) -> Iterator[Runtime]:
    started = Runtime([Counter, ProfileEntity], settings=Settings(database_url=database_url))
    started.start()
    yield started
    started.stop()


def test_a_command_that_came_second_runs_again_on_the_new_state(runtime: Runtime) -> None:
    """Its caller notices nothing."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    assert counter.ask(Counter.increase, 1) == 1
    with interfering_with(runtime) as journal:
        journal.before.append(lambda: journal.foreign_write("a", 100))
        assert counter.ask(Counter.increase, 1) == 102

    assert counter.ask(Counter.total) == 102
    assert [one.sequence_number for one in runtime.client.events(Counter, "a")] == [1, 2, 3]


async def test_commands_and_reads_behind_it_run_again_in_order(runtime: Runtime) -> None:
    """What was computed from a state that never was is not told to anybody."""
    counter = runtime.async_client.for_event_sourced_entity(Counter, "a")
    other = runtime.async_client.for_event_sourced_entity(Counter, "b")
    await counter.ask(Counter.increase, 1)
    with interfering_with(runtime) as journal:
        journal.held.clear()
        journal.before.append(lambda: journal.foreign_write("a", 100))
        calls = [
            asyncio.ensure_future(call)
            for call in (
                counter.ask(Counter.increase, 1),
                counter.ask(Counter.total),
                counter.ask(Counter.increase, 1),
                counter.ask(Counter.total),
                other.ask(Counter.increase, 7),
            )
        ]
        await asyncio.sleep(0)
        journal.held.set()

        assert await asyncio.gather(*calls) == [102, 102, 103, 103, 7]


def test_an_instance_that_was_created_elsewhere_meanwhile_is_recovered(runtime: Runtime) -> None:
    with interfering_with(runtime) as journal:
        journal.before.append(lambda: journal.foreign_write("new", 10))

        counter = runtime.client.for_event_sourced_entity(Counter, "new")
        assert counter.ask(Counter.increase, 1) == 11


def test_a_key_value_entity_that_came_second_runs_again(runtime: Runtime) -> None:
    profile = runtime.client.for_key_value_entity(ProfileEntity, "p")
    profile.ask(ProfileEntity.rename, "Ada")
    journal = runtime._store.journal
    ref = EntityRef("profile", "p")

    def foreign() -> None:
        value = Encoded("profile", 1, b'{"name":"Eve","tags":["x"]}')
        write = CommandWrite([NewRecord(RecordKind.STATE, value)])
        journal.commit([Chain(ref, "key-value-entity", journal.load(ref).head, [write])])

    with interfering_with(runtime) as interfering:
        interfering.before.append(foreign)
        assert profile.ask(ProfileEntity.rename, "Grace").tags == ["x"]


@pytest.mark.parametrize(
    "error",
    [StoreUnavailableError("gone"), StoreFullError("full"), CommitUnknownError("who knows")],
    ids=lambda one: type(one).__name__,
)
def test_a_batch_that_fails_is_told_as_it_is_and_the_service_goes_on(
    runtime: Runtime, error: PersistenceError
) -> None:
    """The state in memory is forgotten, and recovered from what is stored."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.increase, 1)

    def fail() -> None:
        raise error

    with interfering_with(runtime) as journal:
        journal.before.append(fail)
        with pytest.raises(type(error)):
            counter.ask(Counter.increase, 5)
        assert counter.ask(Counter.total) == 1
        assert counter.ask(Counter.increase, 2) == 3


def test_a_bug_below_is_told_without_its_details(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a secret detail")

    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    with interfering_with(runtime) as journal:
        journal.before.append(fail)
        with pytest.raises(PersistenceError) as caught:
            counter.ask(Counter.increase, 5)
        assert "secret" not in str(caught.value)
        assert "a secret detail" in caplog.text
        assert counter.ask(Counter.increase, 2) == 2


async def test_what_waits_during_a_commit_goes_out_in_one_batch(runtime: Runtime) -> None:
    """Group commit, without ever waiting for more."""
    with interfering_with(runtime) as journal:
        journal.held.clear()
        counters = [
            runtime.async_client.for_event_sourced_entity(Counter, str(number))
            for number in range(50)
        ]
        await asyncio.gather(*(counter.ask(Counter.total) for counter in counters))
        calls = [asyncio.ensure_future(counter.ask(Counter.increase)) for counter in counters]
        await asyncio.sleep(0.05)
        journal.held.set()
        await asyncio.gather(*calls)

        assert sum(journal.batches) == 50
        assert len(journal.batches) <= 3
