"""Several processes on one PostgreSQL: one writer for each instance, whoever is asked."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count

import pytest

from greenroom import Metadata
from greenroom.errors import (
    CallTimeoutError,
    EntityUnavailableError,
    GreenroomError,
    IdempotencyKeyReusedError,
    NotOwnerError,
    VersionMismatchError,
)
from greenroom.ids import EntityRef
from greenroom.runtime import Retries, Runtime
from greenroom.settings import Settings
from tests.support.components import Count, Counter, ProfileEntity, TooMuchError
from tests.support.eventually import eventually
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(120)]

ENTITIES = 30
_numbers = count(1)


def new_runtime(url: str) -> Runtime:
    return Runtime([Counter, ProfileEntity], settings=Settings(database_url=url))


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
        assert total(survivor) >= hammer.acknowledged
        unknown = [error for error in hammer.errors if isinstance(error, CallTimeoutError)]
        assert total(survivor) <= hammer.acknowledged + len(unknown)
        assert len(unknown) == len(hammer.errors)


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
