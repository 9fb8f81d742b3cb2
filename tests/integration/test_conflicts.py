"""Writes that do not go in: the instance recovers, and nobody is told something untrue."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from greenroom.errors import (
    CallTimeoutError,
    CommitUnknownError,
    InvalidCallError,
    PersistenceError,
    StoreFullError,
    StoreUnavailableError,
    VersionMismatchError,
)
from greenroom.ids import EntityRef
from greenroom.persistence import Chain, CommandWrite, Encoded, NewRecord, RecordKind
from greenroom.runtime import Runtime
from greenroom.settings import Settings
from tests.support.components import Counter, ProfileEntity
from tests.support.interfering import interfering_with


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


async def test_a_batch_of_many_leaves_out_the_one_that_conflicts(runtime: Runtime) -> None:
    """The others are written with the first attempt; the one runs again and nobody notices."""
    counters = [
        runtime.async_client.for_event_sourced_entity(Counter, str(number)) for number in range(30)
    ]
    await asyncio.gather(*(counter.ask(Counter.increase) for counter in counters))
    with interfering_with(runtime) as journal:
        journal.before.append(lambda: journal.foreign_write("7", 100))
        totals = await asyncio.gather(*(counter.ask(Counter.increase) for counter in counters))

    assert totals == [102 if number == 7 else 2 for number in range(30)]
    assert await asyncio.gather(*(counter.ask(Counter.total) for counter in counters)) == totals


async def test_what_a_command_decides_is_decided_again(runtime: Runtime) -> None:
    """Declined on the new state, though it was accepted on the old one."""
    counter = runtime.async_client.for_event_sourced_entity(Counter, "a")
    await counter.ask(Counter.increase, 1)
    with interfering_with(runtime) as journal:
        journal.before.append(lambda: journal.foreign_write("a", 100))
        with pytest.raises(VersionMismatchError) as caught:
            await counter.with_options(expected_version=1).ask(Counter.increase)
        assert caught.value.actual == 2
    assert await counter.ask(Counter.total) == 101


async def test_the_same_key_twice_behind_a_conflict_is_one_command(runtime: Runtime) -> None:
    """The second waits for the first, and gets its reply."""
    counter = runtime.async_client.for_event_sourced_entity(Counter, "a")
    await counter.ask(Counter.increase, 1)
    keyed = counter.with_options(idempotency_key="k")
    with interfering_with(runtime) as journal:
        journal.held.clear()
        journal.before.append(lambda: journal.foreign_write("a", 100))
        calls = [asyncio.ensure_future(keyed.ask(Counter.increase, 5)) for _ in range(3)]
        await asyncio.to_thread(journal.entered.acquire, timeout=5)
        journal.held.set()
        assert await asyncio.gather(*calls) == [106, 106, 106]
    assert await counter.ask(Counter.total) == 106


async def test_a_key_used_elsewhere_meanwhile_answers_what_it_answered_there(
    runtime: Runtime,
) -> None:
    """Found when the command is written; what came behind it runs on the new state."""
    counter = runtime.async_client.for_event_sourced_entity(Counter, "a")
    await counter.ask(Counter.increase, 1)
    keyed = counter.with_options(idempotency_key="k")
    with interfering_with(runtime) as journal:
        journal.held.clear()
        call = keyed._request(Counter.increase, (5,), {})
        journal.before.append(lambda: journal.foreign_write("a", 5, call=call, key="k"))
        calls = [
            asyncio.ensure_future(one)
            for one in (
                keyed.ask(Counter.increase, 5),
                counter.ask(Counter.increase, 10),
                counter.ask(Counter.total),
            )
        ]
        await asyncio.to_thread(journal.entered.acquire, timeout=5)
        journal.held.set()
        assert await asyncio.gather(*calls) == [6, 16, 16]
    assert await keyed.ask(Counter.increase, 5) == 6


async def test_a_command_whose_time_is_over_does_not_run_again(runtime: Runtime) -> None:
    """Its caller was told that it may have been carried out; now it is known that it was not."""
    counter = runtime.async_client.for_event_sourced_entity(Counter, "a")
    await counter.ask(Counter.increase, 1)
    with interfering_with(runtime) as journal:
        journal.held.clear()
        journal.before.append(lambda: journal.foreign_write("a", 100))
        hasty = counter.with_options(timeout=timedelta(milliseconds=50))
        with pytest.raises(CallTimeoutError):
            await hasty.ask(Counter.increase, 1)
        patient = asyncio.ensure_future(counter.ask(Counter.increase, 1))
        await asyncio.sleep(0)
        journal.held.set()
        assert await patient == 102


async def test_many_failures_in_a_row_lose_and_double_nothing(runtime: Runtime) -> None:
    """Every other commit fails in one way or another, under twenty callers with keys."""
    problems = [
        StoreUnavailableError("gone"),
        StoreFullError("full"),
        CommitUnknownError("who knows"),
        ZeroDivisionError("a bug"),
    ]

    def failing(problem: Exception) -> None:
        raise problem

    async def insist(number: int) -> None:
        counter = runtime.async_client.for_event_sourced_entity(Counter, str(number % 3))
        for turn in range(10):
            keyed = counter.with_options(idempotency_key=f"{number}-{turn}")
            while True:
                try:
                    await keyed.ask(Counter.increase)
                except PersistenceError:
                    continue
                break

    with interfering_with(runtime) as journal:
        for turn in range(40):
            problem = problems[turn // 2 % 4]
            journal.before.append((lambda one=problem: failing(one)) if turn % 2 else int)  # type: ignore[misc]
        await asyncio.gather(*(insist(number) for number in range(20)))

    totals = [
        await runtime.async_client.for_event_sourced_entity(Counter, str(number)).ask(Counter.total)
        for number in range(3)
    ]
    assert sum(totals) == 200


@pytest.mark.parametrize("wrong", ["\ud800", "a\0b", "", "x" * 256])
def test_texts_that_no_database_can_store_are_refused_at_once(runtime: Runtime, wrong: str) -> None:
    """In a batch they would be in the way of other callers' commands."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    with pytest.raises(InvalidCallError, match="characters"):
        counter.with_options(idempotency_key=wrong).ask(Counter.increase)
    with pytest.raises(InvalidCallError, match="principal"):
        counter.with_options(principal=wrong).ask(Counter.increase)

    assert counter.ask(Counter.increase) == 1


def test_an_interrupt_while_committing_settles_every_write(runtime: Runtime) -> None:
    """Control-C on the thread that commits for others too: nobody waits for ever."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    assert counter.ask(Counter.increase) == 1

    def interrupt() -> None:
        raise KeyboardInterrupt

    with interfering_with(runtime) as journal:
        journal.before.append(interrupt)
        with pytest.raises((KeyboardInterrupt, CommitUnknownError)):
            counter.ask(Counter.increase)
        assert counter.ask(Counter.increase) == 2


def test_a_timeout_that_is_no_duration_is_told(runtime: Runtime) -> None:
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    with pytest.raises(InvalidCallError, match=r"timedelta\(seconds=2\)"):
        counter.with_options(timeout=2)  # type: ignore[arg-type]
