"""Several processes on one PostgreSQL: one writer for each instance, whoever is asked."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from time import monotonic
from typing import Any

import pytest

from greenroom import Metadata
from greenroom.errors import (
    CallTimeoutError,
    CommandError,
    EntityUnavailableError,
    GreenroomError,
    HandlerError,
    IdempotencyKeyReusedError,
    NotOwnerError,
    OverloadedError,
    PayloadTooLargeError,
    RuntimeStoppedError,
    VersionMismatchError,
)
from greenroom.ids import EntityRef
from greenroom.runtime import Retries, Runtime, _peers
from greenroom.runtime._peers import PeerClients
from greenroom.settings import Settings
from tests.support.components import Count, Counter, ProfileEntity, TooMuchError
from tests.support.eventually import eventually
from tests.support.interfering import interfering_with
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(120)]

ENTITIES = 30
_numbers = count(1)


def new_runtime(url: str, **settings: Any) -> Runtime:
    return Runtime([Counter, ProfileEntity], settings=Settings(database_url=url, **settings))


@contextmanager
def running(url: str) -> Iterator[Runtime]:
    runtime = new_runtime(url)
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()


def slices_of(runtime: Runtime) -> int:
    slices: int = runtime.health()["slices"]
    return slices


@pytest.fixture
def both(postgres_url: str) -> Iterator[tuple[Runtime, Runtime]]:
    """Two runtimes that have shared the slices between them."""
    with running(postgres_url) as first, running(postgres_url) as second:
        assert eventually(lambda: slices_of(first) == 32 and slices_of(second) == 32)
        yield first, second


def total(runtime: Runtime, entities: int = ENTITIES) -> int:
    client = runtime.client
    return sum(
        client.for_event_sourced_entity(Counter, str(number)).ask(Counter.total)
        for number in range(entities)
    )


class Hammer:
    """Threads that increase counters through some runtimes, and count what was acknowledged."""

    def __init__(self, *runtimes: Runtime) -> None:
        self.acknowledged = 0
        self.errors: list[BaseException] = []
        self._name = f"hammer-{next(_numbers)}"
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(runtime, place))
            for place, runtime in enumerate(runtimes)
        ]

    def __enter__(self) -> "Hammer":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, runtime: Runtime, place: int) -> None:
        turn = 0
        while not self._stop.is_set():
            turn += 1
            counter = runtime.client.for_event_sourced_entity(Counter, str(turn % ENTITIES))
            careful = counter.with_options(
                idempotency_key=f"{self._name}-{place}-{turn}",
                retries=Retries(20, first=timedelta(milliseconds=20), limit=timedelta(seconds=1)),
            )
            try:
                careful.ask(Counter.increase)
            except GreenroomError as error:
                self.errors.append(error)
            else:
                with self._lock:
                    self.acknowledged += 1


def test_both_reach_every_instance(both: tuple[Runtime, Runtime]) -> None:
    """Whoever is asked, the one owner answers."""
    first, second = both
    for number in range(ENTITIES):
        for runtime in both:
            runtime.client.for_event_sourced_entity(Counter, str(number)).ask(Counter.increase)

    assert total(first) == total(second) == 2 * ENTITIES


def elsewhere(both: tuple[Runtime, Runtime]) -> tuple[Runtime, str]:
    """A runtime and the id of an instance that the other one owns."""
    first, _ = both
    for number in range(1000):
        name = f"x{number}"
        if not first._owner.owns(EntityRef("counter", name)):
            return first, name
    raise AssertionError("the first runtime owns everything")


def test_everything_of_a_call_crosses(both: tuple[Runtime, Runtime]) -> None:
    """Replies, errors with their parts, metadata, keys, expected versions, tells."""
    runtime, name = elsewhere(both)
    counter = runtime.client.for_event_sourced_entity(Counter, name)
    assert counter.ask(Counter.increase, 5) == 5
    assert counter.ask(Counter.get) == Count(total=5)
    with pytest.raises(TooMuchError) as caught:
        counter.ask(Counter.increase, 2_000_000)
    assert caught.value.limit == 1_000_000
    tinted = counter.with_options(metadata=Metadata([("colour", "red")]))
    assert tinted.ask(Counter.colour) == "red"
    keyed = counter.with_options(idempotency_key="k")
    assert (keyed.ask(Counter.increase, 1), keyed.ask(Counter.increase, 1)) == (6, 6)
    with pytest.raises(IdempotencyKeyReusedError):
        keyed.ask(Counter.increase, 2)
    with pytest.raises(VersionMismatchError) as mismatch:
        counter.with_options(expected_version=9).ask(Counter.increase)
    assert mismatch.value.actual == 2
    reply = counter.ask_detailed(Counter.increase, 4)
    assert (reply.value, reply.sequence_number) == (10, 3)
    counter.tell(Counter.increase, 10)
    assert eventually(lambda: counter.ask(Counter.total) == 20)


async def test_the_asynchronous_client_is_forwarded_too(postgres_url: str) -> None:
    """On the caller's own loop."""
    first, second = new_runtime(postgres_url), new_runtime(postgres_url)
    await first.start_async()
    await second.start_async()
    try:
        counters = [
            runtime.async_client.for_event_sourced_entity(Counter, str(number))
            for number in range(10)
            for runtime in (first, second)
        ]
        await asyncio.gather(*(counter.ask(Counter.increase) for counter in counters))
        totals = await asyncio.gather(*(counter.ask(Counter.total) for counter in counters))
        assert totals == [2] * 20
    finally:
        await first.stop_async()
        await second.stop_async()


def test_a_deadline_crosses(both: tuple[Runtime, Runtime]) -> None:
    """A call that has no time left is not carried out late."""
    runtime, name = elsewhere(both)
    counter = runtime.client.for_event_sourced_entity(Counter, name)
    with pytest.raises((CallTimeoutError, EntityUnavailableError, NotOwnerError)):
        counter.with_options(timeout=timedelta(microseconds=1)).ask(Counter.increase)

    assert counter.ask(Counter.total) == 0


def test_nothing_is_lost_while_slices_move(postgres_url: str) -> None:
    """A second process joins and leaves under load: every acknowledged command counts once."""
    with running(postgres_url) as first, Hammer(first, first) as hammer:
        second = new_runtime(postgres_url)
        second.start()
        with Hammer(second) as other:
            assert eventually(lambda: slices_of(second) == 32)
            assert eventually(lambda: other.acknowledged > 50)
        second.stop()
        assert eventually(lambda: slices_of(first) == 64)
        before = hammer.acknowledged
        assert eventually(lambda: hammer.acknowledged > before + 50)
        hammer.__exit__()
        assert hammer.errors == []
        assert other.errors == []
        assert total(first) == hammer.acknowledged + other.acknowledged


def in_background(call: Callable[[], object]) -> "Future[object]":
    """Run a call on a thread of its own."""
    future: Future[object] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


async def test_an_asynchronous_call_from_any_loop_is_forwarded(
    both: tuple[Runtime, Runtime],
) -> None:
    """Connections to peers belong to the runtime's loop; this test has one of its own."""
    runtime, name = elsewhere(both)
    counter = runtime.async_client.for_event_sourced_entity(Counter, name)
    # From a thread first, so that there is a connection already.
    blocking = runtime.client.for_event_sourced_entity(Counter, name)
    assert await asyncio.to_thread(blocking.ask, Counter.increase) == 1
    calls = [counter.ask(Counter.increase) for _ in range(20)]
    async with asyncio.timeout(3):
        replies = await asyncio.gather(*calls)

    assert sorted(replies) == list(range(2, 22))


def test_an_instance_that_backs_off_at_its_owner_says_so_at_once(
    both: tuple[Runtime, Runtime],
) -> None:
    """It is not taken for one without an owner, which would be looked for until the deadline."""
    runtime, name = elsewhere(both)
    counter = runtime.client.for_event_sourced_entity(Counter, name)
    for _ in range(6):
        with suppress(HandlerError, EntityUnavailableError):
            counter.ask(Counter.crash)
    asked = monotonic()
    with pytest.raises(EntityUnavailableError, match="backing off"):
        for _ in range(3):
            counter.ask(Counter.crash)
    assert monotonic() - asked < 2


def test_a_full_mailbox_at_the_owner_refuses_once(postgres_url: str) -> None:
    """The sender is told, instead of knocking twenty times a second."""
    with running(postgres_url) as first:
        second = new_runtime(postgres_url, mailbox_limit=1)
        second.start()
        try:
            assert eventually(lambda: slices_of(first) == 32 and slices_of(second) == 32)
            runtime, name = elsewhere((first, second))
            counter = runtime.client.for_event_sourced_entity(Counter, name)
            counter.ask(Counter.increase)
            [actor] = [one for one in second._directory.live() if one.ref.instance == name]
            assert actor.actor_inbox.claim()
            waiting = in_background(lambda: counter.ask(Counter.increase))
            assert eventually(lambda: len(actor.actor_inbox) == 1)
            asked = monotonic()
            with pytest.raises(OverloadedError) as caught:
                counter.ask(Counter.increase)
            assert monotonic() - asked < 1
            assert caught.value.ref == EntityRef("counter", name)
            actor.actor_inbox.unclaim()
            assert waiting.result(10) == 2
        finally:
            second.stop()


def test_a_command_that_is_slow_at_its_owner_times_out_here(
    both: tuple[Runtime, Runtime],
) -> None:
    """It may still be carried out, and the error says so."""
    runtime, name = elsewhere(both)
    counter = runtime.client.for_event_sourced_entity(Counter, name)
    with interfering_with(both[1]) as journal:
        journal.held.clear()
        with pytest.raises(CallTimeoutError, match="may still be carried out") as caught:
            counter.with_options(timeout=timedelta(milliseconds=200)).ask(Counter.increase)
        assert caught.value.ref == EntityRef("counter", name)
        journal.held.set()

        assert counter.ask(Counter.increase) == 2


def test_a_stop_finishes_calls_that_were_forwarded(postgres_url: str) -> None:
    """Accepted here, they are waited for wherever they are carried out."""
    with running(postgres_url) as owner, running(postgres_url) as stopping:
        assert eventually(lambda: slices_of(owner) == 32 and slices_of(stopping) == 32)
        runtime, name = elsewhere((stopping, owner))
        counter = runtime.client.for_event_sourced_entity(Counter, name)
        with interfering_with(owner) as journal:
            journal.held.clear()
            call = in_background(lambda: counter.ask(Counter.increase, 3))
            assert journal.entered.acquire(timeout=5)
            stopped = in_background(stopping.stop)
            with pytest.raises(RuntimeStoppedError):
                while True:
                    counter.with_options(timeout=timedelta(milliseconds=50)).tell(Counter.total)
            journal.held.set()
            assert call.result(10) == 3
            stopped.result(10)


def test_a_stop_does_not_wait_for_ever_for_an_owner_that_hangs(postgres_url: str) -> None:
    """Whoever waits is told that the command may still be carried out."""
    with running(postgres_url) as owner:
        stopping = new_runtime(postgres_url, drain_timeout=timedelta(milliseconds=100))
        stopping.start()
        assert eventually(lambda: slices_of(owner) == 32 and slices_of(stopping) == 32)
        _, name = elsewhere((stopping, owner))
        counter = stopping.client.for_event_sourced_entity(Counter, name)
        patient = counter.with_options(timeout=timedelta(seconds=60))
        with interfering_with(owner) as journal:
            journal.held.clear()
            call = in_background(lambda: patient.ask(Counter.increase))
            assert journal.entered.acquire(timeout=5)
            in_background(stopping.stop).result(10)
            with pytest.raises(CallTimeoutError):
                call.result(10)
            journal.held.set()


def test_a_graceful_stop_hands_its_slices_over_at_once(postgres_url: str) -> None:
    """Long before a lease would run out."""
    with running(postgres_url) as staying:
        leaving = new_runtime(postgres_url)
        leaving.start()
        assert eventually(lambda: slices_of(staying) == 32 and slices_of(leaving) == 32)
        for number in range(ENTITIES):
            counter = leaving.client.for_event_sourced_entity(Counter, str(number))
            counter.ask(Counter.increase)
        leaving.stop()

        assert eventually(lambda: slices_of(staying) == 64, seconds=3)
        assert total(staying) == ENTITIES


def test_an_owner_that_stood_still_is_refused_and_reads_nothing_stale(
    postgres_url: str,
) -> None:
    """Its batch comes too late, its memory is out of date; the commands run at the new owner."""
    with running(postgres_url) as frozen, running(postgres_url) as other:
        assert eventually(lambda: slices_of(frozen) == 32 and slices_of(other) == 32)
        _, name = elsewhere((other, frozen))
        here = frozen.client.for_event_sourced_entity(Counter, name)
        there = other.client.for_event_sourced_entity(Counter, name)
        assert here.ask(Counter.increase) == 1
        beat, thawed = frozen._store.ownership.beat, threading.Event()

        def frozen_beat() -> frozenset[int]:
            thawed.wait(30)
            return beat()

        frozen._store.ownership.beat = frozen_beat  # type: ignore[method-assign]
        with interfering_with(frozen) as journal:
            journal.held.clear()
            patient = here.with_options(timeout=timedelta(seconds=40), idempotency_key="late")
            late = in_background(lambda: patient.ask(Counter.increase, 10))
            assert journal.entered.acquire(timeout=5)
            assert eventually(lambda: slices_of(other) == 64, seconds=20)
            assert there.ask(Counter.increase, 100) == 101

            assert here.ask(Counter.total) == 101
            journal.held.set()
            assert late.result(20) == 111
            thawed.set()
        assert eventually(lambda: slices_of(frozen) == 32 and slices_of(other) == 32, seconds=20)
        assert here.ask(Counter.total) == there.ask(Counter.total) == 111


SERVICE = "tests.support.counting:service"


def test_a_killed_process_is_taken_over(postgres_url: str) -> None:
    """Its slices find another owner at once; what it acknowledged is there."""
    with running(postgres_url) as survivor:
        with ServerProcess(SERVICE, postgres_url) as victim:
            assert eventually(lambda: slices_of(survivor) == 32)
            with Hammer(survivor, survivor) as hammer:
                assert eventually(lambda: hammer.acknowledged > 50)
                victim.kill()
                assert eventually(lambda: slices_of(survivor) == 64)
                before = hammer.acknowledged
                assert eventually(lambda: hammer.acknowledged > before + 50)
        assert hammer.errors == []
        assert total(survivor) == hammer.acknowledged


def test_a_frozen_process_is_fenced_off(postgres_url: str) -> None:
    """After its lease its slices move on; thawed, it writes nothing, and joins again."""
    with running(postgres_url) as survivor, ServerProcess(SERVICE, postgres_url) as frozen:
        assert eventually(lambda: slices_of(survivor) == 32)
        with Hammer(survivor) as hammer:
            assert eventually(lambda: hammer.acknowledged > 20)
            frozen.pause()
            assert eventually(lambda: slices_of(survivor) == 64, seconds=20)
            before = hammer.acknowledged
            assert eventually(lambda: hammer.acknowledged > before + 20)
            frozen.resume()
            assert eventually(lambda: slices_of(survivor) == 32, seconds=20)
            before = hammer.acknowledged
            assert eventually(lambda: hammer.acknowledged > before + 20)
        # A call that found no answer was repeated with its key, until it had one.
        assert hammer.errors == []
        assert total(survivor) == hammer.acknowledged


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\0\0\0\2{}", b""])
def test_strangers_on_the_peer_port_get_nothing(postgres_url: str, garbage: bytes) -> None:
    """Who does not know the secret is hung up on; the service goes on."""

    async def intrude(address: str) -> bytes:
        host, port = address.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer

    with running(postgres_url) as runtime:
        address = runtime._owner._address
        assert address is not None
        with suppress(ConnectionError):
            assert asyncio.run(intrude(address)) == b""
        assert runtime.client.for_event_sourced_entity(Counter, "a").ask(Counter.increase) == 1


def test_a_process_with_another_secret_is_refused(both: tuple[Runtime, Runtime]) -> None:
    """Nothing is carried out for it."""
    runtime, name = elsewhere(both)
    address = both[1]._owner._address
    assert address is not None

    async def guess() -> None:
        clients = PeerClients("guess")
        counter = runtime.client.for_event_sourced_entity(Counter, name)
        request = counter._request(Counter.increase, (1,), {})
        request.timeout, request.deadline = 2.0, monotonic() + 2.0
        try:
            await clients.call(address, request)
        finally:
            await clients.stop()

    with pytest.raises((CallTimeoutError, NotOwnerError)):
        asyncio.run(guess())
    assert runtime.client.for_event_sourced_entity(Counter, name).ask(Counter.total) == 0


def test_a_command_too_large_for_a_frame_is_refused(
    both: tuple[Runtime, Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the connection goes on serving others."""
    monkeypatch.setattr(_peers, "MAX_FRAME", 100_000)
    runtime, name = elsewhere(both)
    counter = runtime.client.for_event_sourced_entity(Counter, name)
    with pytest.raises(PayloadTooLargeError):
        counter.ask(Counter.note, "x" * 200_000)

    assert counter.ask(Counter.note, "short") == 1


def test_a_decline_is_told_as_it_is(both: tuple[Runtime, Runtime]) -> None:
    runtime, name = elsewhere(both)
    with pytest.raises(CommandError, match="Declined on purpose"):
        runtime.client.for_event_sourced_entity(Counter, name).ask(Counter.decline)
