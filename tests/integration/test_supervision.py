"""Failures stay where they are: one instance, one call, one command."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from greenroom import ComponentClient, Effect, EventSourcedEntity, component, type_name
from greenroom.errors import (
    BlockingCallError,
    CallTimeoutError,
    EntityUnavailableError,
    GreenroomError,
    HandlerError,
    OverloadedError,
    RecoveryError,
    ReentrantCallError,
    RuntimeStoppedError,
)
from greenroom.ids import EntityRef
from greenroom.persistence import Chain, CommandWrite, Encoded, Head, NewRecord, RecordKind
from greenroom.runtime import Retries, Runtime, call_chain
from greenroom.settings import Settings
from tests.support.components import Counter, ProfileEntity
from tests.support.eventually import eventually

gates: dict[str, threading.Event] = {}
clients: list[ComponentClient] = []


@type_name("gate-passed")
class Passed(BaseModel, frozen=True):
    by: int


@component("gate")
class Gate(EventSourcedEntity[int, Passed]):
    """Handlers that wait, as handlers must not."""

    def empty_state(self) -> int:
        return 0

    def wait(self) -> Effect[int]:
        gates[self.entity_id].wait(10)
        return self.effects.persist(Passed(by=1)).then_reply(lambda total: total)

    def pass_(self) -> Effect[int]:
        return self.effects.persist(Passed(by=1)).then_reply(lambda total: total)

    def call_another(self) -> Effect[int]:
        total = clients[0].for_event_sourced_entity(Gate, "another").ask(Gate.pass_)
        return self.effects.reply(total)

    def cancel(self) -> Effect[int]:
        raise asyncio.CancelledError

    def leave(self) -> Effect[int]:
        raise SystemExit(3)

    def interrupt(self) -> Effect[int]:
        raise KeyboardInterrupt

    def apply_event(self, event: Passed) -> int:
        if event.by > 100:
            raise ValueError("no event like this")
        return self.state + event.by


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gates["g"] = threading.Event()
    yield gates["g"]
    gates["g"].set()


@pytest.fixture(params=["loop", "pool"])
def runtime(request: pytest.FixtureRequest, sqlite_url: str) -> Iterator[Runtime]:
    settings = Settings(
        database_url=sqlite_url,
        dispatcher=request.param,
        mailbox_limit=5,
        drain_timeout=timedelta(seconds=5),
    )
    started = Runtime([Gate, Counter, ProfileEntity], settings=settings)
    started.start()
    clients[:] = [started.client]
    yield started
    started.stop()


def store_event(
    runtime: Runtime, ref: EntityRef, payload: bytes, name: str = "gate-passed"
) -> None:
    write = CommandWrite([NewRecord(RecordKind.EVENT, Encoded(name, 1, payload))])
    runtime._store.journal.commit([Chain(ref, "event-sourced-entity", Head(0), [write])])


@pytest.mark.parametrize(
    ("name", "payload", "said"),
    [
        ("gate-passed", b'{"by":"many"}', "gate/broken: record 1 can't be read.*by"),
        ("gate-gone", b"{}", "gate/broken: record 1 can't be read.*'gate-gone'.*not known"),
        ("gate-passed", b'{"by":1000}', "gate/broken: apply_event failed on event 1"),
    ],
)
def test_an_instance_that_can_not_be_recovered_says_why(
    runtime: Runtime, name: str, payload: bytes, said: str
) -> None:
    """It names the record; nothing is changed; the others go on."""
    store_event(runtime, EntityRef("gate", "broken"), payload, name)

    with pytest.raises(RecoveryError, match=said):
        runtime.client.for_event_sourced_entity(Gate, "broken").ask(Gate.pass_)

    assert runtime.client.for_event_sourced_entity(Gate, "fine").ask(Gate.pass_) == 1


def test_each_failure_in_a_row_doubles_the_wait(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None after the first, then 0.2 s, 0.4 s … up to 10 s, give or take a fifth."""
    now = [time.monotonic()]
    monkeypatch.setattr("greenroom.runtime._failures.monotonic", lambda: now[0])
    counter = runtime.client.for_event_sourced_entity(Counter, "a")

    def refused() -> bool:
        try:
            counter.ask(Counter.total)
        except EntityUnavailableError:
            return True
        return False

    counter.ask(Counter.increase)
    with pytest.raises(HandlerError):
        counter.ask(Counter.crash)
    for pause in (0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0):
        if pause:
            now[0] += pause * 0.79
            assert refused()
            now[0] += pause * 0.42
        with pytest.raises(HandlerError):
            counter.ask(Counter.crash)
    now[0] += 12.1
    assert counter.ask(Counter.total) == 1
    with pytest.raises(HandlerError):
        counter.ask(Counter.crash)
    assert not refused()


def test_others_do_not_wait_for_one_that_backs_off(runtime: Runtime) -> None:
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    for _ in range(2):
        with pytest.raises(HandlerError):
            counter.ask(Counter.crash)
    with pytest.raises(EntityUnavailableError):
        counter.ask(Counter.total)

    assert runtime.client.for_event_sourced_entity(Counter, "b").ask(Counter.increase) == 1


def test_ten_failures_in_a_row_end_in_quarantine(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a minute later it may try again."""
    now = [time.monotonic()]
    monkeypatch.setattr("greenroom.runtime._failures.monotonic", lambda: now[0])
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    for _ in range(10):
        with pytest.raises(HandlerError):
            counter.ask(Counter.crash)
        now[0] += 20
    now[0] -= 20
    with pytest.raises(EntityUnavailableError, match=r"10 times in a row and is quarantined"):
        counter.ask(Counter.total)
    now[0] += 61

    assert counter.ask(Counter.total) == 0


@pytest.mark.parametrize("handler", [Gate.cancel, Gate.leave, Gate.interrupt])
async def test_a_cancelled_handler_fails_alone(runtime: Runtime, handler: Any) -> None:
    """pykka would stop every actor of the process; an event loop would end on two of them."""
    client = runtime.async_client
    first = client.for_event_sourced_entity(Gate, "a")
    with pytest.raises(HandlerError):
        await first.ask(handler)
    with pytest.raises(HandlerError):
        await asyncio.to_thread(runtime.client.for_event_sourced_entity(Gate, "c").ask, handler)

    assert await client.for_event_sourced_entity(Gate, "b").ask(Gate.pass_) == 1
    assert await first.ask(Gate.pass_) == 1
    assert runtime.is_ready()


def test_a_blocking_call_inside_a_handler_is_refused(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    """It could wait for the thread that it holds."""
    with pytest.raises(HandlerError):
        runtime.client.for_event_sourced_entity(Gate, "a").ask(Gate.call_another)

    assert BlockingCallError.__name__ in caplog.text


def test_a_call_that_would_wait_for_itself_is_refused(runtime: Runtime) -> None:
    """Whoever waits hands on the chain of those who wait for it."""
    ref = EntityRef("gate", "a")
    token = call_chain.set((EntityRef("counter", "x"), ref))
    try:
        with pytest.raises(ReentrantCallError, match="counter/x → gate/a → gate/a"):
            runtime.client.for_event_sourced_entity(Gate, "a").ask(Gate.pass_)
    finally:
        call_chain.reset(token)


def in_background(call: Any) -> threading.Thread:
    def work() -> None:
        try:
            call()
        except GreenroomError:
            return

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_full_mailbox_refuses_the_sender(runtime: Runtime, gate: threading.Event) -> None:
    """At once, and nobody else."""
    client = runtime.client.for_event_sourced_entity(Gate, "g")
    busy = in_background(lambda: client.ask(Gate.wait))
    assert eventually(lambda: not runtime._directory.live()[0].actor_inbox.claim())
    for _ in range(5):
        client.tell(Gate.pass_)

    with pytest.raises(OverloadedError, match="5 commands waiting"):
        client.tell(Gate.pass_)
    with pytest.raises(OverloadedError):
        client.ask(Gate.pass_)

    gate.set()
    busy.join()
    assert eventually(lambda: client.ask(Gate.pass_) == 7)


async def test_a_full_mailbox_refuses_a_coroutine_too(
    runtime: Runtime, gate: threading.Event
) -> None:
    """Where it calls, and the next instance takes it."""
    client = runtime.async_client.for_event_sourced_entity(Gate, "g")
    busy = in_background(lambda: runtime.client.for_event_sourced_entity(Gate, "g").ask(Gate.wait))
    assert eventually(lambda: not runtime._directory.live()[0].actor_inbox.claim())
    waiting = [asyncio.ensure_future(client.ask(Gate.pass_)) for _ in range(5)]
    await asyncio.sleep(0)

    with pytest.raises(OverloadedError) as caught:
        await client.ask(Gate.pass_)
    assert caught.value.limit == 5
    if runtime.settings.dispatcher == "pool":
        other = runtime.async_client.for_event_sourced_entity(Gate, "other")
        assert await other.ask(Gate.pass_) == 1
    gate.set()
    assert await asyncio.gather(*waiting) == [2, 3, 4, 5, 6]
    busy.join()


def test_a_command_that_nobody_waits_for_any_more_is_dropped(
    runtime: Runtime, gate: threading.Event
) -> None:
    """It was not begun when its time was over, so it is not carried out."""
    client = runtime.client.for_event_sourced_entity(Gate, "g")
    busy = in_background(lambda: client.ask(Gate.wait))
    assert eventually(lambda: not runtime._directory.live()[0].actor_inbox.claim())
    with pytest.raises(CallTimeoutError, match="may still be carried out"):
        client.with_options(timeout=timedelta(milliseconds=50)).ask(Gate.pass_)
    gate.set()
    busy.join()

    assert client.ask(Gate.pass_) == 2


def test_a_handler_that_holds_its_thread_is_named_in_the_log(
    runtime: Runtime, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """With the line it is at."""
    client = runtime.client.for_event_sourced_entity(Gate, "g")
    busy = in_background(lambda: client.ask(Gate.wait))

    assert eventually(lambda: "gates[self.entity_id].wait(10)" in caplog.text)
    gate.set()
    busy.join()


def test_a_stop_finishes_what_was_accepted_and_takes_nothing_more(sqlite_url: str) -> None:
    runtime = Runtime([Counter], settings=Settings(database_url=sqlite_url))
    runtime.start()
    acknowledged: list[int] = []
    refused = threading.Event()

    def work(number: int) -> None:
        counter = runtime.client.for_event_sourced_entity(Counter, str(number % 5))
        while not refused.is_set():
            try:
                counter.ask(Counter.increase)
            except RuntimeStoppedError:
                refused.set()
            else:
                acknowledged.append(1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: len(acknowledged) > 200)
    runtime.stop()
    with pytest.raises(RuntimeStoppedError, match="stopped"):
        runtime.client.for_event_sourced_entity(Counter, "0").ask(Counter.total)
    for thread in threads:
        thread.join()

    runtime.start()
    totals = [
        runtime.client.for_event_sourced_entity(Counter, str(number)).ask(Counter.total)
        for number in range(5)
    ]
    runtime.stop()
    assert sum(totals) == len(acknowledged)


def test_a_stop_finishes_what_waits_in_a_mailbox(runtime: Runtime, gate: threading.Event) -> None:
    """Accepted before the stop, carried out before its end."""
    client = runtime.client.for_event_sourced_entity(Gate, "g")
    busy = in_background(lambda: client.ask(Gate.wait))
    assert eventually(lambda: not runtime._directory.live()[0].actor_inbox.claim())
    for _ in range(3):
        client.tell(Gate.pass_)
    stopping = threading.Thread(target=runtime.stop)
    stopping.start()
    assert eventually(lambda: runtime.health()["status"] == "stopping")
    with pytest.raises(RuntimeStoppedError, match="stopping"):
        client.tell(Gate.pass_)
    gate.set()
    stopping.join()
    busy.join()

    runtime.start()
    assert client.ask(Gate.pass_) == 5


@pytest.mark.timeout(120)
def test_a_storm_of_callers_crashes_and_passivations_loses_nothing(sqlite_url: str) -> None:
    """16 threads and 64 coroutines on 50 instances, of which 5 may live; some handlers crash."""
    settings = Settings(database_url=sqlite_url, max_live_instances=5)
    acknowledged: dict[str, int] = dict.fromkeys(map(str, range(50)), 0)
    lock = threading.Lock()
    patient = Retries(100, first=timedelta(milliseconds=5), limit=timedelta(milliseconds=100))

    def count(name: str) -> None:
        with lock:
            acknowledged[name] += 1

    async def storm() -> Runtime:
        runtime = Runtime([Counter], settings=settings)
        await runtime.start_async()

        def from_a_thread(seed: int) -> None:
            chance = random.Random(seed)
            for turn in range(40):
                name = str(chance.randrange(50))
                counter = runtime.client.for_event_sourced_entity(Counter, name)
                try:
                    if chance.random() < 0.05:
                        counter.ask(Counter.crash)
                    key = f"{seed}-{turn}"
                    counter.with_options(idempotency_key=key, retries=patient).ask(Counter.increase)
                    count(name)
                except HandlerError:
                    continue
                except EntityUnavailableError:
                    continue

        async def from_a_coroutine(seed: int) -> None:
            chance = random.Random(seed)
            for turn in range(20):
                name = str(chance.randrange(50))
                counter = runtime.async_client.for_event_sourced_entity(Counter, name)
                key = f"{seed}-{turn}"
                careful = counter.with_options(idempotency_key=key, retries=patient)
                await careful.ask(Counter.increase)
                count(name)

        await asyncio.gather(
            *(asyncio.to_thread(from_a_thread, seed) for seed in range(16)),
            *(from_a_coroutine(100 + seed) for seed in range(64)),
        )
        await runtime.stop_async()
        return runtime

    asyncio.run(storm())
    runtime = Runtime([Counter], settings=Settings(database_url=sqlite_url))
    runtime.start()
    totals = {
        name: runtime.client.for_event_sourced_entity(Counter, name).ask(Counter.total)
        for name in acknowledged
    }
    runtime.stop()
    assert totals == acknowledged
    assert sum(totals.values()) >= 64 * 20
