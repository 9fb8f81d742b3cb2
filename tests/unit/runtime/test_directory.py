"""The directory: one live actor per instance, the least used leave, and nothing gets lost."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from greenroom.ids import EntityRef
from greenroom.runtime import _directory
from greenroom.runtime._actor import LATER, SlicedActor
from greenroom.runtime._directory import Directory
from greenroom.runtime._dispatch import PoolDispatcher
from greenroom.runtime._future import ReplyFuture


class Message:
    """A command, as its own envelope."""

    def __init__(self, ref: EntityRef) -> None:
        self.ref = ref
        self.reply_to: ReplyFuture[Any] = ReplyFuture()

    @property
    def message(self) -> "Message":
        return self


class Actor(SlicedActor):
    """What the directory needs of an entity's actor."""

    def __init__(self, host: "Host", ref: EntityRef) -> None:
        super().__init__(host.dispatcher)
        self.host, self.ref = host, ref
        self.busy = False
        self.dropped = self.abandoned = 0

    def on_receive(self, message: Any) -> Any:
        if hasattr(message, "run"):
            message.run()
            return LATER
        return self

    def stop_if_idle(self) -> bool:
        inbox = self.actor_inbox
        if self.busy or not inbox.claim():
            return False
        if inbox.empty():
            self.actor_stopped.set()
        inbox.unclaim()
        return self.actor_stopped.is_set()

    def drop(self) -> None:
        self.dropped += 1

    def abandon(self) -> None:
        self.abandoned += 1
        self.actor_stopped.set()

    def on_dead_letter(self, envelope: Any) -> None:
        if hasattr(envelope, "run"):
            envelope.run()
        else:
            self.host.directory.redeliver(envelope)


class Host:
    """Makes the actors of one component."""

    def __init__(self, dispatcher: PoolDispatcher) -> None:
        self.dispatcher = dispatcher
        self.directory: Directory
        self.made: list[Actor] = []

    def new_actor(self, ref: EntityRef) -> Actor:
        actor = Actor(self, ref)
        self.made.append(actor)
        return actor


@pytest.fixture
def host() -> Iterator[Host]:
    dispatcher = PoolDispatcher(4)
    yield Host(dispatcher)
    dispatcher.stop()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [1000.0]
    monkeypatch.setattr(_directory, "monotonic", lambda: time[0])
    return time


def a_directory(host: Host, *, max_live: int = 1000, passivate_after: float = 60.0) -> Any:
    host.directory = Directory(
        {"counter": host},  # type: ignore[dict-item]
        max_live=max_live,
        passivate_after=passivate_after,
    )
    return host.directory


def ref(number: object) -> EntityRef:
    return EntityRef("counter", str(number))


def names(directory: Directory) -> list[str]:
    return [actor.ref.instance for actor in directory.live()]


def test_an_instance_has_one_actor(host: Host) -> None:
    """However many ask for it at once."""
    directory = a_directory(host)
    line = threading.Barrier(8)
    found: list[object] = []

    def work() -> None:
        line.wait()
        found.extend(directory.find(ref(number % 10)) for number in range(500))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == len(directory) == len(host.made) == 10


def test_above_the_limit_the_least_recently_used_leave(host: Host) -> None:
    directory = a_directory(host, max_live=3)
    for name in "abc":
        directory.find(ref(name))
    directory.find(ref("a"))
    directory.find(ref("d"))

    assert names(directory) == ["c", "a", "d"]


def test_busy_instances_stay_above_the_limit(host: Host) -> None:
    """They count as used, so that others are looked at next time."""
    directory = a_directory(host, max_live=2)
    for name in "ab":
        directory.find(ref(name)).busy = True
    directory.find(ref("c"))

    assert names(directory) == ["b", "c", "a"]
    directory.find(ref("d"))
    assert "c" not in names(directory)
    assert {"a", "b", "d"} >= set(names(directory))


def test_a_sender_evicts_a_bounded_number(host: Host) -> None:
    directory = a_directory(host, max_live=1000)
    for number in range(500):
        directory.find(ref(number))
    directory._max_live = 10
    directory.find(ref("new"))

    assert len(directory) == 501 - _directory.EVICT_AT_ONCE


def test_what_was_idle_leaves_and_what_was_used_stays(host: Host, now: list[float]) -> None:
    """To the precision of the time between two looks."""
    directory = a_directory(host, passivate_after=60)
    for name in "abc":
        directory.find(ref(name))
    assert directory.passivate_idle() == 0
    now[0] += 30
    directory.find(ref("b"))
    assert directory.passivate_idle() == 0
    now[0] += 30
    assert directory.passivate_idle() == 2
    assert names(directory) == ["b"]
    now[0] += 30
    assert directory.passivate_idle() == 1
    assert len(directory) == 0


def test_an_idle_instance_that_is_busy_stays_until_the_next_time(
    host: Host, now: list[float]
) -> None:
    directory = a_directory(host, passivate_after=60)
    directory.find(ref("a")).busy = True
    directory.passivate_idle()
    now[0] += 60
    assert directory.passivate_idle() == 0
    directory.find(ref("a")).busy = False
    now[0] += 60
    directory.passivate_idle()
    now[0] += 60
    assert directory.passivate_idle() == 1


def test_more_idle_ones_than_a_batch_leave_in_several_calls(host: Host, now: list[float]) -> None:
    directory = a_directory(host, passivate_after=60)
    for number in range(25):
        directory.find(ref(number))
    directory.passivate_idle(batch=10)
    now[0] += 60
    assert [directory.passivate_idle(batch=10) for _ in range(4)] == [10, 10, 5, 0]


def test_marks_are_no_instances_and_do_not_pile_up(host: Host, now: list[float]) -> None:
    directory = a_directory(host, passivate_after=60)
    directory.find(ref("a"))
    for _ in range(100):
        now[0] += 10
        directory.find(ref("a"))
        directory.passivate_idle()
        assert len(directory) == 1
        assert names(directory) == ["a"]
    assert len(directory._marks) <= 7
    assert len(directory._live) == 1 + len(directory._marks)


def test_a_message_that_met_an_instance_leaving_reaches_the_next_one(host: Host) -> None:
    directory = a_directory(host)
    first = directory.find(ref("a"))
    first.actor_stopped.set()
    message = Message(ref("a"))
    first.actor_inbox.put(message)

    answered = message.reply_to.get(timeout=5)
    assert answered is directory.find(ref("a"))
    assert answered is not first


def test_a_message_that_can_not_be_handed_on_is_answered(host: Host) -> None:
    directory = a_directory(host)
    message = Message(EntityRef("gone", "a"))
    directory.redeliver(message)

    with pytest.raises(KeyError):
        message.reply_to.get(timeout=5)


def test_nothing_is_lost_while_instances_come_and_go(host: Host) -> None:
    """A thousand messages to ten instances of which two may live."""
    directory = a_directory(host, max_live=2)
    messages = [Message(ref(number % 10)) for number in range(1000)]
    line = threading.Barrier(4)

    def work(mine: list[Message]) -> None:
        line.wait()
        for message in mine:
            directory.deliver(message)

    threads = [threading.Thread(target=work, args=(messages[place::4],)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for message in messages:
        assert message.reply_to.get(timeout=5).ref == message.ref


def test_what_is_let_go_names_those_that_are_busy(host: Host) -> None:
    """Whoever waits for them asks again about these alone."""
    directory = a_directory(host)
    for name in "abc":
        directory.find(ref(name))
    directory.find(ref("b")).busy = True
    busy = directory.passivate_where(lambda one: one.instance != "c")
    assert [actor.ref.instance for actor in busy] == ["b"]
    assert sorted(names(directory)) == ["b", "c"]

    directory.find(ref("b")).busy = False
    assert directory.passivate_where(lambda _one: True, among=busy) == []
    assert names(directory) == ["c"]


def test_what_is_abandoned_stops_whatever_it_does(host: Host) -> None:
    """Its next message starts another one."""
    directory = a_directory(host)
    first = directory.find(ref("a"))
    first.busy = True
    directory.abandon(lambda one: one.instance == "a")
    message = Message(ref("a"))
    first.actor_inbox.put(message)

    assert message.reply_to.get(timeout=5) is directory.find(ref("a")) is not first
    assert first.abandoned == 1


def test_what_is_forgotten_leaves_or_drops_its_state(host: Host) -> None:
    directory = a_directory(host)
    idle, busy = directory.find(ref("a")), directory.find(ref("b"))
    busy.busy = True
    directory.forget([ref("a"), ref("b"), ref("never")])
    probe = Message(ref("b"))
    directory.deliver(probe)
    assert probe.reply_to.get(timeout=5) is busy

    assert idle.actor_stopped.is_set()
    assert (idle.dropped, busy.dropped) == (0, 1)
    assert names(directory) == ["b"]


def test_it_knows_which_components_there_are(host: Host) -> None:
    directory = a_directory(host)

    assert directory.knows("counter")
    assert not directory.knows("gone")
