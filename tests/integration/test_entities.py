"""Entities in a real runtime, on SQLite and on PostgreSQL, with both dispatchers."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import pytest

from greenroom import Metadata
from greenroom.errors import (
    BlockingCallError,
    CommandError,
    EntityDeletedError,
    EntityUnavailableError,
    HandlerError,
    IdempotencyKeyReusedError,
    InvalidArgumentsError,
    InvalidCallError,
    InvalidIdError,
    PayloadTooLargeError,
    RuntimeStoppedError,
    UnknownComponentError,
    UnknownHandlerError,
    VersionMismatchError,
)
from greenroom.runtime import Runtime
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.components import Count, Counter, Profile, ProfileEntity, TooMuchError, ran_after
from tests.support.eventually import eventually


@contextmanager
def running(settings: Settings, clock: ManualClock | None = None) -> Iterator[Runtime]:
    runtime = Runtime([Counter, ProfileEntity], settings=settings, clock=clock)
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()


@pytest.fixture(params=["loop", "pool"])
def settings(request: pytest.FixtureRequest, database_url: str) -> Settings:
    dispatcher: Literal["loop", "pool"] = request.param
    return Settings(database_url=database_url, dispatcher=dispatcher, snapshot_every=10)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def runtime(settings: Settings, clock: ManualClock) -> Iterator[Runtime]:
    with running(settings, clock) as started:
        yield started


def test_a_reply_means_durable(settings: Settings) -> None:
    """What was acknowledged is there after a restart."""
    with running(settings) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        assert counter.ask(Counter.increase, 2) == 2
        assert counter.ask(Counter.increase_twice, 5) == 12
    with running(settings) as runtime:
        assert runtime.client.for_event_sourced_entity(Counter, "a").ask(Counter.total) == 12


def test_a_read_only_handler_can_not_write(runtime: Runtime) -> None:
    """Models may call it without approval; type checkers see it, but not everybody runs one."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    with pytest.raises(HandlerError):
        counter.ask(Counter.read_and_write)
    assert counter.ask(Counter.total) == 0


def test_instances_do_not_share_anything(runtime: Runtime) -> None:
    """An id is an instance of its own."""
    client = runtime.client
    client.for_event_sourced_entity(Counter, "a").ask(Counter.increase, 1)

    assert client.for_event_sourced_entity(Counter, "b").ask(Counter.total) == 0


async def test_the_asynchronous_client_answers_the_same(settings: Settings) -> None:
    """A runtime that runs on the caller's own loop."""
    runtime = Runtime([Counter, ProfileEntity], settings=settings)
    await runtime.start_async()
    try:
        counter = runtime.async_client.for_event_sourced_entity(Counter, "a")
        replies = await asyncio.gather(*(counter.ask(Counter.increase) for _ in range(50)))
        assert sorted(replies) == list(range(1, 51))
        assert await counter.ask(Counter.total) == 50
    finally:
        await runtime.stop_async()


def test_many_threads_on_one_instance_lose_nothing(runtime: Runtime) -> None:
    """8 threads, 200 commands: every reply is a different total."""
    seen: list[int] = []

    def work() -> None:
        counter = runtime.client.for_event_sourced_entity(Counter, "hot")
        seen.extend(counter.ask(Counter.increase) for _ in range(25))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(seen) == list(range(1, 201))


def test_recovery_uses_snapshots_and_later_events(settings: Settings) -> None:
    """25 events with a snapshot at 10 and 20: state and version are the same after a restart."""
    with running(settings) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        for _ in range(25):
            counter.ask(Counter.increase)
    with running(settings) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        assert counter.ask(Counter.total) == 25
        assert counter.ask(Counter.version) == 25


# -- declining and failing -----------------------------------------------------------------


def test_a_declined_command_raises_its_own_error(runtime: Runtime) -> None:
    """The application's error comes back as itself, with its parts."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")

    with pytest.raises(TooMuchError) as caught:
        counter.ask(Counter.increase, 2_000_000)

    assert caught.value.limit == 1_000_000


def test_an_effect_that_declines_stores_nothing(runtime: Runtime) -> None:
    """`effects.error` and a raised CommandError are the same."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    with pytest.raises(CommandError, match="Declined on purpose"):
        counter.ask(Counter.decline)

    assert counter.ask(Counter.version) == 0


def test_a_command_that_declines_after_its_events_leaves_no_trace(runtime: Runtime) -> None:
    """Events that were applied in memory are discarded with the command."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.increase, 3)

    with pytest.raises(TooMuchError):
        counter.ask(Counter.increase_and_decline, 5)

    assert counter.ask(Counter.total) == 3
    assert counter.ask(Counter.increase, 1) == 4


def test_a_component_of_the_other_kind_is_refused_by_name(runtime: Runtime) -> None:
    client = runtime.client
    with pytest.raises(InvalidCallError, match=r"Counter is an event sourced entity: call for_ev"):
        client.for_key_value_entity(Counter, "a")  # type: ignore[type-var]
    with pytest.raises(InvalidCallError, match=r"call for_key_value_entity\(ProfileEntity, \.\.\."):
        client.for_event_sourced_entity(ProfileEntity, "a")  # type: ignore[type-var]


@pytest.mark.parametrize("handler", [Counter.crash, Counter.leave])
def test_an_unexpected_error_recovers_the_instance(
    runtime: Runtime, handler: object, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller learns a reference, the log the rest; the state is what was stored."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.increase, 3)

    with pytest.raises(HandlerError) as caught:
        counter.ask(handler)  # type: ignore[arg-type]

    assert "on purpose" not in str(caught.value)
    assert caught.value.correlation_id in caplog.text
    assert counter.ask(Counter.total) == 3


def test_an_error_after_the_events_were_applied_recovers_too(runtime: Runtime) -> None:
    """Half a command is no command."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.increase, 3)
    with pytest.raises(HandlerError):
        counter.ask(Counter.increase_and_break, 5)

    assert counter.ask(Counter.total) == 3


def test_an_instance_that_keeps_failing_backs_off(runtime: Runtime) -> None:
    """From the second failure in a row on, commands are refused for a while."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    for _ in range(2):
        with pytest.raises(HandlerError):
            counter.ask(Counter.crash)

    with pytest.raises(EntityUnavailableError, match="backing off"):
        counter.ask(Counter.total)

    assert eventually(lambda: _answers(counter.ask, Counter.total))


def _answers(ask: object, handler: object) -> bool:
    try:
        ask(handler)  # type: ignore[operator]
    except EntityUnavailableError:
        return False
    return True


# -- calls that are wrong ------------------------------------------------------------------


def test_arguments_are_checked_before_delivery(runtime: Runtime) -> None:
    """Types, bounds and names are told by name."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    with pytest.raises(InvalidArgumentsError, match="by"):
        counter.ask(Counter.increase, -1)
    with pytest.raises(InvalidArgumentsError, match="by"):
        counter.ask(Counter.increase, "many")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentsError, match="colour"):
        counter.ask(Counter.increase, colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize("wrong", ["", "x" * 256, "a\x00b", "a\nb"])
def test_ids_are_checked(runtime: Runtime, wrong: str) -> None:
    """1 to 255 characters, none of them control characters."""
    with pytest.raises(InvalidIdError):
        runtime.client.for_event_sourced_entity(Counter, wrong)


def test_ids_may_be_any_text(runtime: Runtime) -> None:
    """Slashes, spaces, emoji and SQL are just text."""
    for text in ("a/b", "ä ö", "🙂", "'; DROP TABLE journal; --", "x" * 255):
        counter = runtime.client.for_event_sourced_entity(Counter, text)
        assert counter.ask(Counter.increase, 7) == 7


def test_unknown_components_and_handlers_are_told(runtime: Runtime) -> None:
    """The message lists what there is."""

    class Other(Counter):
        pass

    with pytest.raises(UnknownComponentError, match="counter"):
        runtime.client.for_event_sourced_entity(Other, "a")
    with pytest.raises(UnknownHandlerError):
        runtime.client.for_event_sourced_entity(Counter, "a").ask(
            ProfileEntity.rename,  # type: ignore[arg-type]
            "x",
        )


def test_an_event_over_the_limit_is_refused(database_url: str) -> None:
    """Nothing of it is stored, and the instance goes on."""
    with running(Settings(database_url=database_url, max_event_bytes=1000)) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        with pytest.raises(PayloadTooLargeError, match="GREENROOM_MAX_EVENT_BYTES"):
            counter.ask(Counter.note, "x" * 2000)
        assert counter.ask(Counter.note, "short") == 1


def test_large_payloads_are_stored_whole(runtime: Runtime) -> None:
    """A note of half a megabyte comes back as it was."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    text = "é" * 250_000
    counter.ask(Counter.note, text)

    [event] = runtime.client.events(Counter, "a")
    assert event.value is not None
    assert event.value.text == text  # type: ignore[union-attr]


async def test_a_blocking_call_on_a_loop_is_refused(runtime: Runtime) -> None:
    """It would stop everything else on that loop."""
    with pytest.raises(BlockingCallError):
        runtime.client.for_event_sourced_entity(Counter, "a").ask(Counter.total)


def test_a_runtime_that_was_not_started_says_so(settings: Settings) -> None:
    """Before the start and after the stop."""
    runtime = Runtime([Counter], settings=settings)
    with pytest.raises(RuntimeStoppedError, match="Start it first"):
        runtime.client.for_event_sourced_entity(Counter, "a").ask(Counter.total)
    runtime.start()
    runtime.stop()
    with pytest.raises(RuntimeStoppedError):
        runtime.client.for_event_sourced_entity(Counter, "a").ask(Counter.total)


# -- options of a call ---------------------------------------------------------------------


def test_the_same_key_does_nothing_the_second_time(settings: Settings) -> None:
    """The same reply again, even after a restart and for zero events."""
    with running(settings) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        keyed = counter.with_options(idempotency_key="k-1")
        assert keyed.ask(Counter.increase, 5) == 5
        counter.ask(Counter.increase, 1)
        assert keyed.ask(Counter.increase, 5) == 5
        none = counter.with_options(idempotency_key="k-2")
        assert none.ask(Counter.nothing) == 6
        counter.ask(Counter.increase, 1)
        assert none.ask(Counter.nothing) == 6
    with running(settings) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        assert counter.with_options(idempotency_key="k-1").ask(Counter.increase, 5) == 5
        assert counter.with_options(idempotency_key="k-2").ask(Counter.nothing) == 6
        assert counter.ask(Counter.total) == 7


def test_a_key_for_another_call_is_refused(runtime: Runtime) -> None:
    """Other arguments, another handler or another principal under the same key."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    keyed = counter.with_options(idempotency_key="k-1")
    keyed.ask(Counter.increase, 5)

    with pytest.raises(IdempotencyKeyReusedError):
        keyed.ask(Counter.increase, 6)
    with pytest.raises(IdempotencyKeyReusedError):
        keyed.ask(Counter.increase_twice, 5)
    with pytest.raises(IdempotencyKeyReusedError):
        keyed.with_options(principal="somebody").ask(Counter.increase, 5)
    assert counter.ask(Counter.total) == 5


def test_a_key_answers_even_when_the_command_would_now_be_declined(runtime: Runtime) -> None:
    """The first use decides, whatever the state has become."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    keyed = counter.with_options(idempotency_key="k-1")
    assert keyed.ask(Counter.increase, 600_000) == 600_000

    assert keyed.ask(Counter.increase, 600_000) == 600_000


def test_a_declined_command_does_not_use_up_its_key(runtime: Runtime) -> None:
    """Errors are not stored; the key may be tried again."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    keyed = counter.with_options(idempotency_key="k-1")
    with pytest.raises(CommandError):
        keyed.ask(Counter.decline)

    assert keyed.ask(Counter.increase, 2) == 2


def test_one_key_sent_by_many_at_once_is_carried_out_once(runtime: Runtime) -> None:
    """A duplicate of a key in flight waits for the first."""
    replies: list[int] = []

    def work() -> None:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        replies.append(counter.with_options(idempotency_key="k").ask(Counter.increase, 3))

    threads = [threading.Thread(target=work) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert replies == [3] * 40
    assert runtime.client.for_event_sourced_entity(Counter, "a").ask(Counter.total) == 3


def test_many_keys_that_come_again_at_once_find_their_answers(runtime: Runtime) -> None:
    """However many: none is taken for a conflict with somebody else."""

    def send_all(expected: list[int]) -> None:
        async def send(number: int) -> int:
            counter = runtime.async_client.for_event_sourced_entity(Counter, "a")
            return await counter.with_options(idempotency_key=str(number)).ask(Counter.increase, 1)

        async def all_at_once() -> list[int]:
            return list(await asyncio.gather(*map(send, range(100))))

        assert asyncio.run(all_at_once()) == expected

    replies = list(range(1, 101))
    send_all(replies)
    send_all(replies)

    assert runtime.client.for_event_sourced_entity(Counter, "a").ask(Counter.total) == 100


def test_an_expected_version_is_checked(runtime: Runtime) -> None:
    """A writer that read an older state is told."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.increase)
    assert counter.with_options(expected_version=1).ask(Counter.increase) == 2

    with pytest.raises(VersionMismatchError) as caught:
        counter.with_options(expected_version=1).ask(Counter.increase)

    assert caught.value.actual == 2


def test_metadata_of_a_call_reaches_the_handler(runtime: Runtime) -> None:
    """It is there for the command, and stored nowhere."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    tinted = counter.with_options(metadata=Metadata((("colour", "blue"),)))

    assert tinted.ask(Counter.colour) == "blue"
    assert counter.ask(Counter.colour) == "none"


def test_a_detailed_reply_carries_the_version(runtime: Runtime) -> None:
    """And a token that names instance and version."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    reply = counter.ask_detailed(Counter.increase_twice, 2)

    assert (reply.value, reply.sequence_number) == (4, 2)
    assert reply.token == "counter/a@2"


def test_tell_does_not_wait(runtime: Runtime) -> None:
    """The command is carried out all the same."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.tell(Counter.increase, 4)

    assert eventually(lambda: counter.ask(Counter.total) == 4)


def test_then_run_comes_after_the_commit_and_not_again(settings: Settings) -> None:
    """Once, when durable; not on recovery and not for a duplicate."""
    ran_after.clear()
    with running(settings) as runtime:
        keyed = runtime.client.for_event_sourced_entity(Counter, "a").with_options(
            idempotency_key="k"
        )
        keyed.ask(Counter.increase_and_run, 2)
        keyed.ask(Counter.increase_and_run, 2)
    with running(settings) as runtime:
        runtime.client.for_event_sourced_entity(Counter, "a").ask(Counter.total)

    assert ran_after == [2]


# -- looking back --------------------------------------------------------------------------


def test_events_and_states_can_be_looked_up(runtime: Runtime) -> None:
    """Listing instances, reading their events, and their state at a version."""
    client = runtime.client
    counter = client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.increase, 2)
    counter.ask(Counter.note, "hello")
    client.for_event_sourced_entity(Counter, "b").ask(Counter.increase, 9)

    assert [one.ref.instance for one in client.instances(Counter)] == ["a", "b"]
    assert [one.ref.instance for one in client.instances(Counter, after="a")] == ["b"]
    events = client.events(Counter, "a")
    assert [one.type_name for one in events] == ["increased", "noted"]
    assert events[1].metadata.get("colour") == "green"
    assert client.state_at(Counter, "a", 1) == Count(total=2)
    assert client.state_at(Counter, "a") == Count(total=2, notes=("hello",))


# -- key value entities --------------------------------------------------------------------


def test_a_key_value_entity_keeps_its_latest_state(settings: Settings) -> None:
    """After a restart too."""
    with running(settings) as runtime:
        profile = runtime.client.for_key_value_entity(ProfileEntity, "p")
        assert profile.ask(ProfileEntity.get) == Profile()
        profile.ask(ProfileEntity.rename, "Ada")
        profile.ask(ProfileEntity.rename, "Grace")
    with running(settings) as runtime:
        profile = runtime.client.for_key_value_entity(ProfileEntity, "p")
        assert profile.ask(ProfileEntity.get).name == "Grace"


def test_nothing_mutable_is_shared_with_a_caller(runtime: Runtime) -> None:
    """What goes in and what comes out are copies."""
    profile = runtime.client.for_key_value_entity(ProfileEntity, "p")
    mine = Profile(name="Ada", tags=["a"])
    profile.ask(ProfileEntity.replace, mine)
    mine.tags.append("changed by the caller")
    read = profile.ask(ProfileEntity.get)
    read.tags.append("changed by the reader")

    assert profile.ask(ProfileEntity.get).tags == ["a"]


def test_a_key_value_entity_declines_too(runtime: Runtime) -> None:
    """An error stores nothing."""
    with pytest.raises(CommandError, match="Declined on purpose"):
        runtime.client.for_key_value_entity(ProfileEntity, "p").ask(ProfileEntity.decline)


# -- deletion and expiry -------------------------------------------------------------------


def test_a_deleted_entity_reads_its_last_state_and_takes_no_writes(settings: Settings) -> None:
    """At once, and after a restart."""
    with running(settings) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        counter.ask(Counter.increase, 4)
        assert counter.ask(Counter.delete) == "deleted"
        assert counter.ask(Counter.total) == 4
    with running(settings) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        assert counter.ask(Counter.total) == 4
        assert counter.ask(Counter.whether_deleted) is True
        with pytest.raises(EntityDeletedError):
            counter.ask(Counter.increase)


def test_a_deleted_key_value_entity_reads_empty(settings: Settings) -> None:
    """At once, and after a restart."""
    with running(settings) as runtime:
        profile = runtime.client.for_key_value_entity(ProfileEntity, "p")
        profile.ask(ProfileEntity.rename, "Ada")
        profile.ask(ProfileEntity.delete)
        assert profile.ask(ProfileEntity.get) == Profile()
        assert profile.ask(ProfileEntity.whether_deleted) is True
    with running(settings) as runtime:
        profile = runtime.client.for_key_value_entity(ProfileEntity, "p")
        assert profile.ask(ProfileEntity.get) == Profile()
        with pytest.raises(EntityDeletedError):
            profile.ask(ProfileEntity.rename, "Ada")


def test_a_purged_id_starts_a_new_life(runtime: Runtime, clock: ManualClock) -> None:
    """Empty again after the time of grace; sequence numbers go on."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.increase, 4)
    counter.ask(Counter.delete)
    clock.advance(timedelta(days=8))
    asyncio.run(runtime.sweep())

    assert counter.ask(Counter.total) == 0
    assert counter.ask(Counter.whether_deleted) is False
    reply = counter.ask_detailed(Counter.increase, 1)
    assert (reply.value, reply.sequence_number) == (1, 3)
    assert len(runtime.client.events(Counter, "a")) == 1


def test_an_entity_deletes_itself_when_its_time_is_over(
    runtime: Runtime, clock: ManualClock
) -> None:
    """Seen by the next command at the latest, even before a sweep."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.keep_for, 60)
    clock.advance(timedelta(seconds=59))
    assert counter.ask(Counter.whether_deleted) is False
    clock.advance(timedelta(seconds=2))

    assert counter.ask(Counter.whether_deleted) is True


def test_a_sweep_deletes_what_nobody_asks_for(runtime: Runtime, clock: ManualClock) -> None:
    """An instance that is not even in memory expires too."""
    profile = runtime.client.for_key_value_entity(ProfileEntity, "p")
    profile.ask(ProfileEntity.keep_for, 60)
    clock.advance(timedelta(seconds=61))
    asyncio.run(runtime.sweep())

    def is_deleted() -> bool:
        [summary] = runtime.client.instances(ProfileEntity)
        return summary.deleted_at is not None

    assert eventually(is_deleted)


def test_a_later_write_without_a_time_to_live_keeps_the_entity(
    runtime: Runtime, clock: ManualClock
) -> None:
    """Expiry counts from the last write, and only if that one asked for it."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    counter.ask(Counter.keep_for, 60)
    counter.ask(Counter.increase)
    clock.advance(timedelta(days=1))

    assert counter.ask(Counter.whether_deleted) is False


# -- leaving memory ------------------------------------------------------------------------


def test_instances_leave_memory_above_the_limit(database_url: str) -> None:
    """The least recently used ones; their state comes back from storage."""
    settings = Settings(database_url=database_url, max_live_instances=10)
    with running(settings) as runtime:
        for number in range(50):
            counter = runtime.client.for_event_sourced_entity(Counter, str(number))
            counter.ask(Counter.increase, number + 1)
        assert runtime.health()["live"] <= 11
        for number in range(50):
            counter = runtime.client.for_event_sourced_entity(Counter, str(number))
            assert counter.ask(Counter.total) == number + 1


def test_idle_instances_leave_memory(database_url: str) -> None:
    """After the time set; a command brings them back."""
    settings = Settings(database_url=database_url, passivate_after=timedelta(0))
    with running(settings) as runtime:
        counter = runtime.client.for_event_sourced_entity(Counter, "a")
        counter.ask(Counter.increase)

        def gone() -> bool:
            asyncio.run(runtime.sweep())
            return runtime.health()["live"] == 0

        assert eventually(gone)
        assert counter.ask(Counter.total) == 1
