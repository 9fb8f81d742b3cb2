"""The thread-less actor: pykka's contract, and each of its traps fenced."""

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pykka
import pytest

from greenroom.errors import OverloadedError
from greenroom.runtime._actor import LATER, SlicedActor
from greenroom.runtime._dispatch import Dispatcher, LoopDispatcher, OwnLoop, PoolDispatcher


@pytest.fixture(params=["loop", "pool"])
def dispatcher(request: pytest.FixtureRequest) -> Iterator[Dispatcher]:
    if request.param == "pool":
        pool = PoolDispatcher(4)
        yield pool
        pool.stop()
        return
    own = OwnLoop()
    loop = LoopDispatcher(own.loop)
    own.loop.call_soon_threadsafe(loop.attach)
    yield loop
    own.stop()


class Counter(SlicedActor):
    """Counts, and fails as it is told to."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__(dispatcher)
        self.count = 0
        self.inside = 0
        self.overlaps = 0

    def on_receive(self, message: Any) -> Any:
        self.inside += 1
        if self.inside != 1:
            self.overlaps += 1
        if isinstance(message, type) and issubclass(message, BaseException):
            self.inside -= 1
            raise message("as told")
        self.count += 1
        self.inside -= 1
        return self.count

    def double(self, number: int) -> int:
        return number * 2


def test_an_ask_gets_the_answer(dispatcher: Dispatcher) -> None:
    """pykka's `ask` works on these actors."""
    ref = Counter.start(dispatcher)

    assert ref.ask("tick", timeout=5) == 1
    assert ref.ask("tick", timeout=5) == 2


def test_a_proxy_reaches_methods_and_attributes(dispatcher: Dispatcher) -> None:
    """pykka's proxies work on these actors."""
    proxy = Counter.start(dispatcher).proxy()

    assert proxy.double(21).get(timeout=5) == 42
    assert proxy.count.get(timeout=5) == 0


def test_one_message_at_a_time_whatever_the_senders_do(dispatcher: Dispatcher) -> None:
    """8 threads, 20,000 tells: none lost, no two handled at once."""
    ref = Counter.start(dispatcher)
    inbox = ref.actor_inbox

    def send() -> None:
        for _ in range(2500):
            ref.tell("tick")

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ref.ask("tick", timeout=20) == 20_001
    assert inbox.actor.overlaps == 0


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_an_exception_reaches_the_asker_and_nobody_else(
    dispatcher: Dispatcher, error: type[BaseException]
) -> None:
    """In pykka a BaseException stops every actor of the process and answers nobody."""
    bystander = Counter.start(dispatcher)
    ref = Counter.start(dispatcher)

    with pytest.raises(error):
        ref.ask(error, timeout=5)

    assert bystander.ask("tick", timeout=5) == 1
    assert ref.ask("tick", timeout=5) == 1


def test_a_failed_tell_does_not_kill_the_actor(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    """In pykka it would; here it is logged."""
    ref = Counter.start(dispatcher)
    ref.tell(ValueError)

    assert ref.ask("tick", timeout=5) == 1
    assert "nobody waits for" in caplog.text


def test_nothing_sent_around_a_stop_is_left_unanswered(dispatcher: Dispatcher) -> None:
    """In pykka a message put after the final drain is lost and its future never resolves."""
    for _ in range(20):
        ref = Counter.start(dispatcher)
        futures: list[Any] = []
        start = threading.Barrier(3)

        def ask_many(ref: Any = ref, futures: Any = futures, start: Any = start) -> None:
            start.wait(5)
            futures.extend(ref.ask("tick", block=False) for _ in range(100))

        threads = [threading.Thread(target=ask_many) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait(5)
        ref.stop(block=True, timeout=5)
        for thread in threads:
            thread.join()
        for future in futures:
            with contextlib.suppress(pykka.ActorDeadError):
                assert future.get(timeout=5) > 0


def test_the_reference_keeps_the_actor_alive(dispatcher: Dispatcher) -> None:
    """An ActorRef holds a weak reference only; nothing else may be left of the actor."""
    ref = Counter.start(dispatcher)
    gc.collect()

    assert ref.ask("tick", timeout=5) == 1


def test_an_actor_nobody_refers_to_is_collected(dispatcher: Dispatcher) -> None:
    """It holds no thread and stands in no registry."""
    actor = Counter(dispatcher)
    actor._start_actor_loop()
    gone = weakref.ref(actor)
    del actor
    gc.collect()

    assert gone() is None
    assert pykka.ActorRegistry.get_all() == []


def test_a_full_mailbox_refuses_in_the_sender(dispatcher: Dispatcher) -> None:
    """pykka's own bounded queue would block the sender, which may be an event loop."""
    gate = threading.Event()

    class Slow(SlicedActor):
        mailbox_limit = 3

        def on_receive(self, message: Any) -> Any:
            gate.wait(10)

        def on_overload(self, envelope: Any) -> None:
            raise OverloadedError("slow", limit=self.mailbox_limit)

    ref = Slow.start(dispatcher)
    try:
        with pytest.raises(OverloadedError):
            for _ in range(5):
                ref.tell("more")
    finally:
        gate.set()


def test_an_answer_may_come_later(dispatcher: Dispatcher) -> None:
    """An actor that returns LATER answers by itself."""
    kept: list[Any] = []

    class Patient(SlicedActor):
        def on_receive(self, message: Any) -> Any:
            if message == "open":
                kept[0].set("at last")
                return None
            kept.append(message)
            return LATER

    ref = Patient.start(dispatcher)
    future = ref.actor_class._create_future()
    ref.tell(future)
    ref.ask("open", timeout=5)

    assert future.get(timeout=5) == "at last"


def test_a_busy_actor_lets_others_run() -> None:
    """A slice ends after 32 messages, and goes to the back of the queue."""
    pool = PoolDispatcher(1)
    order: list[str] = []
    go = threading.Event()

    class Noting(SlicedActor):
        def on_receive(self, message: Any) -> Any:
            go.wait(5)
            order.append(message)

    busy, other = Noting.start(pool), Noting.start(pool)
    for _ in range(100):
        busy.tell("busy")
    waiting = other.ask("other", block=False)
    go.set()
    waiting.get(timeout=5)

    assert order.index("other") <= 64
    busy.ask("end", timeout=5)
    pool.stop()


def test_only_the_runtimes_own_messages_pass_a_pause(dispatcher: Dispatcher) -> None:
    """They end it; what was put first comes next, then the rest."""
    seen: list[str] = []

    class Pausing(SlicedActor):
        def on_receive(self, message: Any) -> Any:
            seen.append(message)
            self.actor_inbox.paused = message == "pause"
            return None

    ref = Pausing.start(dispatcher)
    ref.ask("pause", timeout=5)
    waiting = ref.ask("ordinary", block=False)
    from pykka._envelope import Envelope

    ref.actor_inbox.put_first([Envelope("front")])
    ref.actor_inbox.put_control(Envelope("control"))
    waiting.get(timeout=5)

    assert seen == ["pause", "control", "front", "ordinary"]
