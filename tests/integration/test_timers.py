"""Timers: never before they are due, never lost, and what they call is carried out once."""

import asyncio
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from greenroom import Backoff, ComponentClient, DeferredCall, Metadata, TimerScheduler, component
from greenroom.components import TIMERS
from greenroom.errors import (
    BlockingCallError,
    GreenroomError,
    InvalidCallError,
    InvalidIdError,
    StoreUnavailableError,
)
from greenroom.ids import EntityRef
from greenroom.runtime import Runtime
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.eventually import eventually
from tests.support.interfering import interfering_with
from tests.support.timers import AlarmClock, Bell, Ringers, Rung, Script, new_script
from tests.support.workflows import HOUR

ROOT = Path(__file__).parents[2]
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
EXACT = Backoff(min=3 * SECOND, max=30 * SECOND, jitter=0.0)


class Running:
    """A runtime on a clock that stands still; sweeps wake what a test has made due."""

    def __init__(self, url: str) -> None:
        self.clock = ManualClock()
        self.settings = Settings(
            database_url=url,
            sweep_every=timedelta(seconds=0.05),
            drain_timeout=timedelta(seconds=1),
        )
        self.start()

    def start(self, *components: type) -> None:
        made = list(components) or [Bell, Ringers, AlarmClock]
        self.runtime = Runtime(made, settings=self.settings, clock=self.clock)
        self.runtime.start()

    def restart(self, *components: type, after: timedelta = timedelta()) -> None:
        self.runtime.stop()
        self.clock.advance(after)
        self.start(*components)

    @property
    def client(self) -> ComponentClient:
        return self.runtime.client

    @property
    def timers(self) -> TimerScheduler:
        return self.client.timers

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)

    def ring(self, bell: str = "b", text: str = "") -> DeferredCall:
        return self.client.for_key_value_entity(Bell, bell).deferred(Bell.ring, text)

    def refuse(self, bell: str = "b") -> DeferredCall:
        return self.client.for_key_value_entity(Bell, bell).deferred(Bell.refuse)

    def action(self, method: Callable[..., Any], *args: Any) -> DeferredCall:
        return self.client.for_timed_action(Ringers).deferred(method, *args)

    def rings(self, bell: str = "b") -> list[Rung]:
        return self.client.for_key_value_entity(Bell, bell).ask(Bell.rings)

    def advance(self, duration: timedelta) -> None:
        self.clock.advance(duration)
        asyncio.run(self.runtime.sweep())

    def settle(self) -> None:
        """Wait until what is due has been done, or is to be tried again later."""
        assert eventually(lambda: self.timers.list(due_before=self.now()) == [])

    def wait_for(self, rings: int, bell: str = "b") -> list[Rung]:
        assert eventually(lambda: len(self.rings(bell)) >= rings)
        return self.rings(bell)

    def is_gone(self, name: str) -> bool:
        return eventually(lambda: self.timers.get(name) is None)

    def is_gone_now(self, name: str) -> bool:
        """As far as can be told while its writes fail."""
        try:
            return self.timers.get(name) is None
        except GreenroomError:
            return False

    def causes(self, name: str) -> list[str]:
        return [one.cause for one in self.timers.history(name)]


@pytest.fixture
def script() -> Iterator[Script]:
    made = new_script()
    yield made
    made.gate.set()


@pytest.fixture
def running(sqlite_url: str, script: Script) -> Iterator[Running]:
    made = Running(sqlite_url)
    yield made
    script.gate.set()
    made.runtime.stop()


@pytest.fixture
def on_both(database_url: str, script: Script) -> Iterator[Running]:
    """On each kind of database, for what rests on how it is stored."""
    made = Running(database_url)
    yield made
    script.gate.set()
    made.runtime.stop()


# -- once ----------------------------------------------------------------------------------


def test_a_timer_fires_once_when_it_is_due_and_not_before(on_both: Running) -> None:
    on_both.timers.start_single_timer("t", HOUR, on_both.ring(text="late"))
    due = on_both.now() + HOUR

    on_both.advance(HOUR - SECOND)
    status = on_both.timers.get("t")
    assert status is not None
    assert (status.status, status.due_at, status.next_at) == ("waiting", due, due)
    assert on_both.rings() == []

    on_both.advance(SECOND)
    [rung] = on_both.wait_for(1)
    assert (rung.text, rung.timer, rung.due_at) == ("late", "t", due.isoformat())
    assert on_both.is_gone("t")
    on_both.advance(HOUR)
    assert len(on_both.rings()) == 1
    assert on_both.causes("t") == ["start", "fired"]


def test_a_timer_may_be_given_its_time(running: Running) -> None:
    running.timers.start_single_timer("t", running.now() + HOUR, running.ring())
    running.timers.start_single_timer("past", running.now() - HOUR, running.ring("past"))

    running.wait_for(1, "past")
    assert running.rings() == []
    running.advance(HOUR)
    running.wait_for(1)


def test_on_the_machine_s_clock_it_is_punctual(sqlite_url: str) -> None:
    """It comes by its alarm; the next sweep is an hour away."""
    settings = Settings(database_url=sqlite_url, sweep_every=HOUR)
    runtime = Runtime([Bell], settings=settings)
    runtime.start()
    try:
        bell = runtime.client.for_key_value_entity(Bell, "b")
        start = runtime.now_ms()
        runtime.client.timers.start_single_timer(
            "t", timedelta(milliseconds=50), bell.deferred(Bell.ring)
        )
        assert eventually(lambda: len(bell.ask(Bell.rings)) == 1)
        assert 50 <= runtime.now_ms() - start < 5000
    finally:
        runtime.stop()


def test_after_a_start_it_is_punctual_too(sqlite_url: str) -> None:
    """What is due before the first sweep is known from the start on."""
    settings = Settings(database_url=sqlite_url, sweep_every=HOUR)
    runtime = Runtime([Bell], settings=settings)
    runtime.start()
    bell = runtime.client.for_key_value_entity(Bell, "b")
    runtime.client.timers.start_single_timer(
        "t", timedelta(milliseconds=700), bell.deferred(Bell.ring)
    )
    runtime.stop()

    runtime = Runtime([Bell], settings=settings)
    runtime.start()
    try:
        bell = runtime.client.for_key_value_entity(Bell, "b")
        assert eventually(lambda: len(bell.ask(Bell.rings)) == 1)
    finally:
        runtime.stop()


def test_what_came_due_while_nothing_ran_comes_late(on_both: Running) -> None:
    """It can see how late it is."""
    on_both.timers.start_single_timer("t", HOUR, on_both.ring())
    due = on_both.now() + HOUR

    on_both.restart(after=5 * HOUR)

    [rung] = on_both.wait_for(1)
    assert rung.due_at == due.isoformat()


def test_what_is_sent_along_arrives(running: Running, script: Script) -> None:
    timers, metadata = running.timers, Metadata([("colour", "green")])
    timers.start_single_timer("t", SECOND, running.ring(), metadata=metadata)
    call = running.action(Ringers.ring_then_fail, "a")
    timers.start_single_timer("a", SECOND, call, metadata=metadata)

    running.advance(MINUTE)

    assert running.wait_for(1)[0].colour == "green"
    assert running.is_gone("a")
    [context] = script.contexts
    assert context.metadata.get("colour") == "green"
    assert (context.timer, context.attempt, context.last_error) == ("a", 1, None)
    assert context.started_at - context.due_at == MINUTE - SECOND


def test_a_large_payload_is_no_matter(on_both: Running) -> None:
    text = "x" * 300_000
    on_both.timers.start_single_timer("t", HOUR, on_both.ring(text=text))

    on_both.restart(after=HOUR)

    assert on_both.wait_for(1)[0].text == text


# -- the same name, and no name ------------------------------------------------------------


def test_the_same_name_replaces(on_both: Running) -> None:
    on_both.timers.start_single_timer("t", HOUR, on_both.ring(text="old"))
    on_both.timers.start_single_timer("t", 2 * HOUR, on_both.ring(text="new"))

    on_both.advance(HOUR)
    assert on_both.rings() == []
    on_both.advance(HOUR)

    assert [one.text for one in on_both.wait_for(1)] == ["new"]


def test_a_name_can_be_used_again_at_once(on_both: Running) -> None:
    """After it has fired, after it was cancelled, and after a restart; each is carried out."""
    for text in ("one", "two"):
        on_both.timers.start_single_timer("t", HOUR, on_both.ring(text=text))
        on_both.advance(HOUR)
        assert on_both.is_gone("t")
    on_both.timers.start_single_timer("t", HOUR, on_both.ring(text="cancelled"))
    assert on_both.timers.cancel("t")
    on_both.timers.start_single_timer("t", HOUR, on_both.ring(text="three"))
    on_both.restart(after=HOUR)

    assert [one.text for one in on_both.wait_for(3)] == ["one", "two", "three"]


def test_the_same_name_at_the_same_time_is_another_call(running: Running) -> None:
    """The key of a call is that of one life of a timer."""
    at = running.now() + HOUR
    running.timers.start_single_timer("t", at, running.ring())
    running.advance(HOUR)
    assert running.is_gone("t")
    running.timers.start_single_timer("t", at, running.ring())
    assert running.is_gone("t")

    assert len(running.rings()) == 2


def test_a_cancelled_timer_does_not_fire(on_both: Running) -> None:
    on_both.timers.start_single_timer("t", HOUR, on_both.ring())

    assert on_both.timers.cancel("t") is True
    assert on_both.timers.cancel("t") is False
    assert on_both.timers.cancel("never started") is False
    on_both.advance(2 * HOUR)
    on_both.restart()

    assert on_both.rings() == []
    assert on_both.timers.list() == []
    assert on_both.causes("t") == ["start", "cancel"]


def test_cancelling_while_it_calls_throws_the_result_away(running: Running, script: Script) -> None:
    script.gate.clear()
    script.errors.append("it failed")
    running.timers.start_single_timer("t", SECOND, running.action(Ringers.ring_then_fail, "b"))
    running.advance(SECOND)
    running.wait_for(1)

    assert running.timers.cancel("t")
    assert script.contexts[0].cancellation.is_set()
    script.gate.set()
    running.advance(HOUR)

    assert running.timers.list() == []
    assert running.causes("t") == ["start", "cancel"]


def test_replacing_while_it_calls_leaves_the_new_one_alone(
    running: Running, script: Script
) -> None:
    script.gate.clear()
    running.timers.start_single_timer("t", SECOND, running.action(Ringers.ring_then_fail, "b"))
    running.advance(SECOND)
    running.wait_for(1)

    running.timers.start_single_timer("t", HOUR, running.ring("new"))
    script.gate.set()
    running.advance(HOUR)

    running.wait_for(1, "new")
    assert running.is_gone("t")
    assert running.causes("t") == ["start", "start", "fired"]


def test_an_action_may_start_its_own_timer_again(running: Running) -> None:
    call = running.action(Ringers.ring_and_start_again, "b", 2)
    running.timers.start_single_timer("t", HOUR, call)

    for times in (1, 2, 3):
        running.advance(HOUR)
        running.wait_for(times)
        running.settle()

    assert running.is_gone("t")
    assert [one.text for one in running.rings()] == ["2", "1", "0"]


# -- again and again -----------------------------------------------------------------------


def test_a_recurring_timer_fires_every_so_often(on_both: Running) -> None:
    start = on_both.now()
    on_both.timers.start_recurring_timer("t", on_both.ring(), every=HOUR)

    for hours in (1, 2, 3):
        on_both.advance(HOUR)
        on_both.wait_for(hours)
        assert eventually(lambda: on_both.timers.get("t").fired == hours)  # type: ignore[union-attr]

    status = on_both.timers.get("t")
    assert status is not None
    assert (status.every, status.due_at) == (HOUR, start + 4 * HOUR)
    assert [one.due_at for one in on_both.rings()] == [
        (start + hours * HOUR).isoformat() for hours in (1, 2, 3)
    ]


def test_what_a_recurring_timer_missed_is_made_up_for_once(on_both: Running) -> None:
    start = on_both.now()
    on_both.timers.start_recurring_timer("t", on_both.ring(), every=HOUR)

    on_both.restart(after=timedelta(hours=5, minutes=30))

    [rung] = on_both.wait_for(1)
    assert rung.due_at == (start + HOUR).isoformat()
    assert eventually(lambda: on_both.timers.get("t").fired == 1)  # type: ignore[union-attr]
    status = on_both.timers.get("t")
    assert status is not None
    assert status.due_at == start + 6 * HOUR


def test_a_cron_timer_fires_at_the_times_of_its_zone(on_both: Running) -> None:
    """2030-01-01 was a Tuesday; half past seven in Paris is half past six in UTC."""
    on_both.timers.start_recurring_timer(
        "t", on_both.ring(), cron="30 7 * * WED", timezone="Europe/Paris"
    )
    status = on_both.timers.get("t")
    assert status is not None
    assert status.due_at == datetime(2030, 1, 2, 6, 30, tzinfo=UTC)

    on_both.advance(status.due_at - on_both.now())

    on_both.wait_for(1)
    assert eventually(
        lambda: on_both.timers.get("t").due_at == datetime(2030, 1, 9, 6, 30, tzinfo=UTC)  # type: ignore[union-attr]
    )


# -- failures ------------------------------------------------------------------------------


def test_a_call_that_is_declined_is_made_again_ever_more_seldom(on_both: Running) -> None:
    """After 3 seconds, then 6, up to 30; there is no last time."""
    on_both.timers.start_single_timer("t", SECOND, on_both.refuse(), backoff=EXACT)
    on_both.clock.advance(SECOND)
    due = on_both.now()

    for failures, pause in enumerate((3, 6, 12, 24, 30, 30), start=1):
        asyncio.run(on_both.runtime.sweep())
        assert eventually(lambda: on_both.timers.get("t").failures == failures)  # type: ignore[union-attr]
        status = on_both.timers.get("t")
        assert status is not None
        assert status.next_at == on_both.now() + pause * SECOND
        on_both.advance(pause * SECOND - timedelta(milliseconds=1))
        assert on_both.timers.get("t") == status
        on_both.clock.advance(timedelta(milliseconds=1))

    status = on_both.timers.get("t")
    assert status is not None
    assert (status.status, status.due_at) == ("retrying", due)
    assert status.last_error == "The bell is broken."


def test_by_default_it_waits_between_3_and_36_seconds(running: Running) -> None:
    running.timers.start_single_timer("t", SECOND, running.refuse())
    running.advance(SECOND)
    assert eventually(lambda: running.timers.get("t").failures == 1)  # type: ignore[union-attr]

    status = running.timers.get("t")
    assert status is not None
    assert status.next_at is not None
    assert 3 * SECOND <= status.next_at - running.now() <= 3.6 * SECOND


@pytest.mark.parametrize("failure", ["declined", ValueError("raised"), SystemExit(3)])
def test_what_an_action_does_is_done_once_however_often_it_is_tried(
    on_both: Running, script: Script, failure: BaseException | str
) -> None:
    script.errors += [failure, failure]
    call = on_both.action(Ringers.ring_then_fail, "b")
    on_both.timers.start_single_timer("t", SECOND, call, backoff=EXACT)

    for pause in (1, 3, 6):
        on_both.advance(pause * SECOND)
        on_both.settle()

    assert on_both.is_gone("t")
    assert len(on_both.rings()) == 1
    assert [one.attempt for one in script.contexts] == [1, 2, 3]
    assert len({one.idempotency_key for one in script.contexts}) == 1
    assert str(failure) in (script.contexts[2].last_error or "")


def test_actions_run_on_the_loop_as_well(running: Running, script: Script) -> None:
    script.errors.append("not yet")
    call = running.action(Ringers.ring_on_the_loop, "b")
    running.timers.start_single_timer("t", SECOND, call, backoff=EXACT)
    running.advance(SECOND)
    assert eventually(lambda: running.timers.get("t").failures == 1)  # type: ignore[union-attr]
    running.advance(3 * SECOND)

    assert running.is_gone("t")
    assert len(running.rings()) == 1


def test_after_its_retries_it_is_dead_until_somebody_resumes_it(
    on_both: Running, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    script.errors += ["one", "two", "three", "four"]
    call = on_both.action(Ringers.ring_then_fail, "b")
    on_both.timers.start_single_timer("t", SECOND, call, max_retries=1, backoff=EXACT)
    on_both.advance(SECOND)
    assert eventually(lambda: on_both.timers.get("t").failures == 1)  # type: ignore[union-attr]
    on_both.advance(3 * SECOND)
    assert eventually(lambda: on_both.timers.get("t").status == "dead")  # type: ignore[union-attr]

    on_both.restart(after=HOUR)
    status = on_both.timers.get("t")
    assert status is not None
    assert (status.status, status.next_at, status.last_error) == ("dead", None, "two")
    assert on_both.timers.list(dead_only=True) == [status]
    assert "is given up after 2 attempt(s)" in caplog.text

    assert on_both.timers.resume("t") is True
    assert on_both.timers.resume("t") is False
    assert eventually(lambda: len(script.contexts) == 3)
    assert eventually(lambda: on_both.timers.get("t").last_error == "three")  # type: ignore[union-attr]
    script.errors.clear()
    on_both.advance(MINUTE)

    assert on_both.is_gone("t")
    assert len(on_both.rings()) == 1
    assert on_both.causes("t")[:4] == ["start", "attempt", "attempt", "resume"]


def test_a_dead_timer_can_be_cancelled_or_replaced(running: Running) -> None:
    for name in ("c", "r"):
        running.timers.start_single_timer(name, SECOND, running.refuse(), max_retries=0)
    running.advance(SECOND)
    assert eventually(lambda: len(running.timers.list(dead_only=True)) == 2)

    assert running.timers.cancel("c")
    running.timers.start_single_timer("r", SECOND, running.ring())
    running.advance(SECOND)

    running.wait_for(1)
    assert running.is_gone("r")
    assert running.timers.resume("c") is False


def test_a_recurring_timer_counts_its_failures_anew(running: Running, script: Script) -> None:
    script.errors.append("once")
    call = running.action(Ringers.ring_then_fail, "b")
    running.timers.start_recurring_timer("t", call, every=HOUR, max_retries=1, backoff=EXACT)
    running.advance(HOUR)
    assert eventually(lambda: running.timers.get("t").failures == 1)  # type: ignore[union-attr]
    running.advance(3 * SECOND)

    assert eventually(lambda: running.timers.get("t").fired == 1)  # type: ignore[union-attr]
    status = running.timers.get("t")
    assert status is not None
    assert (status.status, status.failures, status.last_error) == ("waiting", 0, None)
    assert status.next_at == running.now() + HOUR - 3 * SECOND


def test_an_action_that_says_nothing_has_failed(running: Running) -> None:
    running.timers.start_single_timer("t", SECOND, running.action(Ringers.say_nothing))
    running.advance(SECOND)

    assert eventually(lambda: running.timers.get("t").failures == 1)  # type: ignore[union-attr]
    assert "ringers.say_nothing returned None" in str(running.timers.get("t"))


def test_an_attempt_that_takes_too_long_has_failed(running: Running, script: Script) -> None:
    script.gate.clear()
    call = running.action(Ringers.ring_then_fail, "b")
    running.timers.start_single_timer("t", SECOND, call, timeout=MINUTE, backoff=EXACT)
    running.advance(SECOND)
    running.wait_for(1)

    running.advance(MINUTE)
    assert eventually(lambda: running.timers.get("t").failures == 1)  # type: ignore[union-attr]
    assert script.contexts[0].cancellation.is_set()
    script.gate.set()
    running.advance(3 * SECOND)

    assert running.is_gone("t")
    assert len(running.rings()) == 1


def test_a_poison_timer_stops_no_other(running: Running, script: Script) -> None:
    """Neither one that fails for ever, nor one that never comes back."""
    script.gate.clear()
    stuck = running.action(Ringers.ring_then_fail, "stuck")
    running.timers.start_single_timer("stuck", SECOND, stuck)
    running.timers.start_recurring_timer("poison", running.refuse(), every=SECOND)
    for number in range(50):
        running.timers.start_single_timer(f"good-{number}", MINUTE, running.ring(f"b{number}"))

    running.advance(MINUTE)

    assert eventually(lambda: not running.timers.list(name_contains="good"))
    assert all(len(running.rings(f"b{number}")) == 1 for number in range(50))
    [failing] = running.timers.list(failing_only=True)
    assert failing.name == "poison"


# -- many, and crashes ---------------------------------------------------------------------


def test_a_thousand_timers_due_at_once(on_both: Running) -> None:
    """All of them fire, once each; nobody waits for the slowest."""
    for number in range(1000):
        call = on_both.ring(f"b{number % 10}", str(number))
        on_both.timers.start_single_timer(f"t{number}", HOUR, call)

    on_both.restart(after=HOUR)

    assert eventually(lambda: on_both.timers.list() == [], seconds=30)
    rung = [one.text for bell in range(10) for one in on_both.rings(f"b{bell}")]
    assert sorted(rung, key=int) == [str(number) for number in range(1000)]


@pytest.mark.parametrize("which", range(4))
def test_a_timer_gets_over_any_write_that_fails(
    running: Running, script: Script, which: int
) -> None:
    """Of what it calls, and of the record that it has; the call is carried out once."""
    call = running.action(Ringers.ring_then_fail, "b")
    script.errors.append("once")
    running.timers.start_single_timer("t", SECOND, call, backoff=EXACT)
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise StoreUnavailableError("gone for a moment")

    with interfering_with(running.runtime) as journal:
        journal.before = [*[lambda: None] * which, fail]
        running.advance(SECOND)
        assert eventually(lambda: failed.is_set() or bool(running.timers.list(failing_only=True)))
        for _ in range(100):
            if running.is_gone_now("t"):
                break
            running.advance(SECOND)
        assert failed.wait(10)

    assert running.is_gone("t")
    assert len(running.rings()) == 1


@pytest.mark.timeout(120)
def test_a_kill_between_the_call_and_its_record(database_url: str, tmp_path: Path) -> None:
    """The next process makes the call once more, and the bell has rung once."""
    marker = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.support.timer_process", database_url, str(marker)]
    killed = subprocess.run(command, cwd=ROOT, check=False, timeout=60)
    assert killed.returncode == -9
    assert marker.exists()

    settings = Settings(database_url=database_url)
    runtime = Runtime([Bell, Ringers], settings=settings)
    runtime.start()
    try:
        assert eventually(lambda: runtime.client.timers.get("t") is None, seconds=30)
        assert len(runtime.client.for_key_value_entity(Bell, "b").ask(Bell.rings)) == 1
        assert [one.cause for one in runtime.client.timers.history("t")] == ["start", "fired"]
    finally:
        runtime.stop()


def test_a_call_that_a_stop_cuts_off_is_made_again(on_both: Running, script: Script) -> None:
    """It does not count as failed, and what it has done already is not done twice."""
    script.gate.clear()
    on_both.timers.start_single_timer("t", SECOND, on_both.action(Ringers.ring_then_fail, "b"))
    on_both.advance(SECOND)
    on_both.wait_for(1)

    on_both.restart()
    assert script.contexts[0].cancellation.is_set()
    script.gate.set()

    assert on_both.is_gone("t")
    assert [one.attempt for one in script.contexts] == [1, 1]
    assert len(on_both.rings()) == 1
    assert on_both.causes("t") == ["start", "fired"]


@contextmanager
def a_process(url: str, script: Script) -> Iterator[Runtime]:
    settings = Settings(database_url=url, sweep_every=timedelta(seconds=0.2))
    runtime = Runtime([Bell, Ringers], settings=settings)
    runtime.start()
    try:
        yield runtime
    finally:
        script.gate.set()
        runtime.stop()


@pytest.mark.postgresql
@pytest.mark.timeout(120)
def test_processes_share_timers(postgres_url: str, script: Script) -> None:
    """Whoever is asked, the owner keeps the timer; each fires once, whoever is left."""
    with a_process(postgres_url, script) as first:
        with a_process(postgres_url, script) as second:
            both = (first, second)
            assert eventually(lambda: all(one.health()["slices"] == 32 for one in both))
            bell = first.client.for_key_value_entity(Bell, "b")
            for number in range(40):
                both[number % 2].client.timers.start_single_timer(
                    f"t{number}", timedelta(seconds=0.5), bell.deferred(Bell.ring, str(number))
                )
            names = [f"t{number}" for number in range(40)]
            here = [name for name in names if first._owner.owns(EntityRef(TIMERS, name))]
            assert 0 < len(here) < 40
            assert eventually(lambda: second.client.timers.list() == [], seconds=30)
            for number in range(40):
                both[number % 2].client.timers.start_single_timer(
                    f"u{number}", timedelta(seconds=3), bell.deferred(Bell.ring, str(number))
                )
            assert len(first.client.timers.list(name_contains="u")) == 40
        assert eventually(lambda: first.client.timers.list() == [], seconds=30)
        rung = [one.text for one in bell.ask(Bell.rings)]

    assert sorted(rung, key=int) == sorted([*map(str, range(40))] * 2, key=int)


def test_a_step_that_runs_again_does_not_start_its_timer_again(running: Running) -> None:
    """The step fails once after it has started the timer."""
    workflow = running.client.for_workflow(AlarmClock, "w")
    workflow.ask(AlarmClock.wind, "b")
    assert eventually(lambda: workflow.status().attempt == 2)
    running.advance(MINUTE)
    assert eventually(lambda: workflow.status().status == "ended")

    assert running.causes("wake-b") == ["start"]
    status = running.timers.get("wake-b")
    assert status is not None
    assert status.due_at == running.now() + HOUR - MINUTE


# -- what the code has no more -------------------------------------------------------------


@component("ringers")
class FewerRingers(Ringers):
    """Later code, in which two methods have changed."""

    ring_then_fail = None  # type: ignore[assignment]

    def ring_and_start_again(self, bell: int, left: str) -> Any:
        raise NotImplementedError


def test_a_timer_whose_target_is_gone_is_told_of_and_given_up(
    on_both: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """At start, before it is due; when it is due it does not try for ever."""
    timers = on_both.timers
    timers.start_single_timer("gone", HOUR, on_both.action(Ringers.ring_then_fail, "b"))
    timers.start_single_timer("also", HOUR, on_both.action(Ringers.ring_then_fail, "c"))
    timers.start_single_timer(
        "component",
        HOUR,
        on_both.client.for_workflow(AlarmClock, "w").deferred(AlarmClock.wind, "b"),
    )
    timers.start_single_timer("right", HOUR, on_both.ring())

    with caplog.at_level(logging.ERROR):
        on_both.restart(Bell, FewerRingers)
        assert eventually(lambda: "no component 'alarm-clock'" in caplog.text)
    assert "2 timer(s), as 'also': Component 'ringers' has no command handler" in caplog.text
    on_both.advance(HOUR)

    on_both.wait_for(1)
    assert eventually(lambda: len(on_both.timers.list(dead_only=True)) == 3)
    on_both.restart()
    assert on_both.timers.resume("gone")
    assert on_both.is_gone("gone")


# -- looking -------------------------------------------------------------------------------


def test_timers_are_listed(on_both: Running) -> None:
    timers = on_both.timers
    for name in ("order-3", "Order-1", "order-2", "50%_off"):
        timers.start_single_timer(name, HOUR, on_both.ring())
    timers.start_recurring_timer("fails", on_both.refuse(), every=MINUTE)
    timers.start_single_timer("dead", MINUTE, on_both.refuse(), max_retries=0)
    on_both.advance(MINUTE)
    assert eventually(lambda: len(timers.list(failing_only=True)) == 2)

    def names(**chosen: Any) -> list[str]:
        return [one.name for one in timers.list(**chosen)]

    everything = ["50%_off", "Order-1", "dead", "fails", "order-2", "order-3"]
    assert names() == everything
    assert names(limit=2) == everything[:2]
    assert names(after="Order-1", limit=2) == ["dead", "fails"]
    assert names(name_contains="ORDER") == ["Order-1", "order-2", "order-3"]
    assert names(name_contains="%_") == ["50%_off"]
    assert names(failing_only=True) == ["dead", "fails"]
    assert names(dead_only=True) == ["dead"]
    assert names(due_before=on_both.now() + MINUTE) == ["fails"]
    assert asyncio.run(on_both.runtime.async_client.timers.list(dead_only=True)) == timers.list(
        dead_only=True
    )


async def test_coroutines_have_timers_of_their_own(running: Running) -> None:
    timers = running.runtime.async_client.timers
    bell = running.runtime.async_client.for_key_value_entity(Bell, "b")
    await timers.start_single_timer("once", HOUR, bell.deferred(Bell.ring))
    await timers.start_recurring_timer("often", bell.deferred(Bell.ring), every=HOUR)

    assert [one.name for one in await timers.list()] == ["often", "once"]
    assert (await timers.get("once")) is not None
    assert await timers.cancel("often") is True
    assert await timers.resume("once") is False
    assert [one.cause for one in await timers.history("often")] == ["start", "cancel"]


def test_a_blocking_scheduler_is_refused_on_the_loop(running: Running) -> None:
    async def on_a_loop() -> None:
        running.timers.cancel("t")

    with pytest.raises(BlockingCallError):
        asyncio.run(on_a_loop())


# -- mistakes ------------------------------------------------------------------------------

NAIVE = datetime(2031, 1, 1)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda t, c: t.start_single_timer("t", timedelta(0), c), "a timer's delay needs a time"),
        (lambda t, c: t.start_single_timer("t", -SECOND, c), "a timer's delay needs a time above"),
        (lambda t, c: t.start_single_timer("t", 5, c), "must be a datetime with a time zone"),
        (lambda t, c: t.start_single_timer("t", NAIVE, c), "must be a datetime with a time zone"),
        (lambda t, c: t.start_single_timer("t", timedelta.max, c), "leads past the year 9990"),
        (
            lambda t, c: t.start_single_timer("t", datetime.max.replace(tzinfo=UTC), c),
            "is past the year 9990",
        ),
        (lambda t, c: t.start_single_timer("t", SECOND, c, max_retries=-1), "max_retries must be"),
        (
            lambda t, c: t.start_single_timer("t", SECOND, c, timeout=timedelta(0)),
            "timeout needs a time above zero",
        ),
        (
            lambda t, c: t.start_single_timer("t", SECOND, Bell.ring),
            "A timer makes a deferred call",
        ),
        (
            lambda t, c: t.start_single_timer("t", SECOND, DeferredCall("no", "i", "ring", "{}")),
            "A timer can't call no/i.ring: the service has no component 'no'",
        ),
        (
            lambda t, c: t.start_single_timer("t", SECOND, DeferredCall("bell", "i", "no", "{}")),
            "Component 'bell' has no command handler 'no'",
        ),
        (
            lambda t, c: t.start_single_timer("t", SECOND, DeferredCall("bell", "", "ring", "{}")),
            "must have 1 to 255 characters",
        ),
        (lambda t, c: t.start_recurring_timer("t", c), "needs every=... or cron=..."),
        (
            lambda t, c: t.start_recurring_timer("t", c, every=SECOND, cron="* * * * *"),
            "needs every=... or cron=...",
        ),
        (lambda t, c: t.start_recurring_timer("t", c, cron="7:30"), "'7:30' is no cron expression"),
        (
            lambda t, c: t.start_recurring_timer("t", c, cron="0 0 30 2 *"),
            "'0 0 30 2 *' is no cron expression: Bad day-of-month",
        ),
        (
            lambda t, c: t.start_recurring_timer("t", c, cron="* * * * *", timezone="Mars/Base"),
            "'Mars/Base' is no time zone",
        ),
        (lambda t, c: t.list(due_before=NAIVE), "due_before must be a datetime with a time zone"),
    ],
)
def test_mistakes_are_told_at_once(
    running: Running, mistake: Callable[..., object], told: str
) -> None:
    with pytest.raises(InvalidCallError, match=re.escape(told)):
        mistake(running.timers, running.ring())
    assert running.timers.list() == []


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", 5])
def test_a_name_is_what_an_instance_id_may_be(running: Running, name: Any) -> None:
    with pytest.raises(InvalidIdError):
        running.timers.start_single_timer(name, SECOND, running.ring())
    with pytest.raises(InvalidIdError):
        running.timers.cancel(name)


def test_only_timed_actions_are_called_as_such(running: Running) -> None:
    with pytest.raises(InvalidCallError, match="Bell is no timed action"):
        running.client.for_timed_action(Bell)  # type: ignore[type-var]
    with pytest.raises(InvalidCallError, match=r"call for_timed_action\(Ringers, \.\.\.\)"):
        running.client.for_key_value_entity(Ringers, "b")  # type: ignore[type-var]
    with pytest.raises(InvalidCallError, match=r"call for_key_value_entity\(Bell, \.\.\.\)"):
        running.client.for_workflow(Bell, "b")  # type: ignore[type-var]
