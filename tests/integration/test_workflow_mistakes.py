"""Workflows whose code is wrong, or to which things happen at the worst moment."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from greenroom import (
    BranchEffect,
    ChildOutcome,
    ComponentClient,
    Effect,
    Fail,
    ReadOnlyEffect,
    Retry,
    StepEffect,
    TimerScheduler,
    Workflow,
    WorkflowClient,
    WorkflowSettings,
    call,
    component,
    step,
)
from greenroom.errors import HandlerError, TransitionNotAllowedError
from greenroom.ids import EntityRef
from greenroom.persistence import Chain, CommandWrite, Encoded, NewRecord, RecordKind
from greenroom.runtime import Runtime
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.components import Counter
from tests.support.eventually import eventually
from tests.support.workflows import HOUR, QUICK

SECOND = timedelta(seconds=1)


class Stage:
    """What the steps of a test wait for, and what they have done."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.gate = threading.Event()
        self.trace: list[str] = []

    def hold(self, name: str) -> int:
        """A step begins and waits; returns how often it has."""
        self.trace.append(name)
        self.reached.release()
        self.gate.wait(20)
        return self.trace.count(name)

    def wait_for(self, steps: int) -> None:
        """Wait until so many more steps have begun."""
        for _ in range(steps):
            assert self.reached.acquire(timeout=10)


stage = Stage()


class UnshowableError(Exception):
    """Its text can't be had."""

    def __str__(self) -> str:
        raise RuntimeError("a bug in an error")


@component("careless")
class Careless(Workflow[int]):
    """Says of all its steps what is no good for compensations."""

    def empty_state(self) -> int:
        return 0

    def settings(self) -> WorkflowSettings:
        failed = Retry(max_retries=1, backoff=QUICK, failover_to=Fail("enough"))
        return WorkflowSettings(recovery=failed)

    def go_elsewhere(self) -> Effect[str]:
        return self.effects.pause("elsewhere").then_reply("elsewhere")

    def set(self, to: int) -> Effect[int]:
        return self.effects.update_state(to).then_reply(to)

    def start(self) -> Effect[str]:
        recorded = self.effects.compensate_with(self.undo, 1).compensate_with(self.undo, 2)
        return recorded.compensate("changed my mind").then_reply("compensating")

    @step
    def undo(self, number: int) -> StepEffect:
        stage.trace.append(f"undo {number}")
        if stage.trace.count(f"undo {number}") < 5:
            raise ValueError("not yet")
        return self.step_effects.done()


@component("clumsy")
class Clumsy(Workflow[int]):
    """Does everything that one should not."""

    def __init__(self, client: ComponentClient, timers: TimerScheduler) -> None:
        self.client = client
        self.timers = timers

    def empty_state(self) -> int:
        return 0

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(
            timeout=HOUR, on_timeout=call(self.last), recovery=Retry(backoff=QUICK)
        )

    # -- commands

    def start_at(self, name: str) -> Effect[str]:
        return self.effects.transition_to(getattr(self, name)).then_reply("started")

    def fan_out(self) -> Effect[str]:
        branches = [call(self.strict_branch), call(self.branch), call(self.branch)]
        return self.effects.parallel(*branches, then=self.collect).then_reply("fanned out")

    def fan_out_wrongly(self) -> Effect[str]:
        fanned = self.effects.parallel(call(self.branch), then=self.wants_more)  # type: ignore[arg-type]
        return fanned.then_reply("fanned out")

    def read_wrongly(self) -> ReadOnlyEffect[int]:
        raise RuntimeError("a bug in a read")

    def read(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.state)

    def stop(self) -> Effect[str]:
        return self.effects.end("stopped").then_reply("stopped")

    def set(self, to: int) -> Effect[int]:
        return self.effects.update_state(to).then_reply(to)

    def send(self, children: list[str]) -> Effect[str]:
        starts = [
            self.client.for_workflow(Clumsy, one).deferred(Clumsy.wait, "in a child")
            for one in children
        ]
        return self.effects.parallel(*starts, then=self.welcome).then_reply("sent")

    def wait(self, reason: str) -> Effect[str]:
        return self.effects.pause(reason).then_reply("waiting")

    def wait_for_bug(self) -> Effect[str]:
        paused = self.effects.pause("waiting", timeout=SECOND, on_timeout=call(self.wake_wrongly))
        return paused.then_reply("waiting")

    def wake_wrongly(self) -> Effect[None]:
        stage.trace.append("woken")
        if len(stage.trace) < 15:
            raise RuntimeError("a bug in a handler")
        return self.effects.end("woken").then_reply(None)

    # -- steps

    @step
    def welcome(self, outcomes: list[ChildOutcome]) -> StepEffect:
        return self.step_effects.end("welcome")

    @step
    def wants_more(self, results: list[int], more: str) -> StepEffect:
        return self.step_effects.end(more)

    @step
    def work(self) -> StepEffect:
        stage.hold("work")
        return self.step_effects.end("worked")

    @step
    def cancels_wrongly(self) -> StepEffect:
        def fail() -> None:
            raise RuntimeError("a bug in a callback")

        cancellation = self.step_context.cancellation
        cancellation.on_cancel(fail)
        cancellation.on_cancel(lambda: stage.trace.append("cancelled"))
        stage.hold("cancels")
        return self.step_effects.end()

    @step
    def starts_threads(self) -> StepEffect:
        counter = self.client.for_event_sourced_entity(Counter, "threads")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: counter.ask(Counter.increase, 1), range(20)))
        start = self.client.for_workflow(Clumsy, "timed").deferred(Clumsy.wait, "late")
        timer = threading.Thread(
            target=self.timers.start_single_timer, args=("timer", SECOND * 1000, start)
        )
        timer.start()
        timer.join()
        stage.trace.append("threads")
        if len(stage.trace) < 3:
            raise ValueError("once more")
        return self.step_effects.end()

    @step
    def raises_wrongly(self) -> StepEffect:
        stage.trace.append("raises")
        if len(stage.trace) < 3:
            raise UnshowableError
        return self.step_effects.end(self.step_context.last_error)

    @step
    def last(self) -> StepEffect:
        stage.trace.append("last")
        return self.step_effects.fail("out of time")

    @step(timeout=SECOND, recovery=Retry(max_retries=0, failover_to=Fail("it hung")))
    def hang(self) -> StepEffect:
        stage.hold("hang")
        return self.step_effects.end()

    @step(timeout=SECOND, recovery=Retry(max_retries=0, failover_to=call(last)))
    def strict_branch(self) -> BranchEffect[int]:
        return self.step_effects.result(stage.hold("strict"))

    @step(timeout=SECOND)
    def branch(self) -> BranchEffect[int]:
        return self.step_effects.result(stage.hold("branch"))

    @step
    def collect(self, results: list[int]) -> StepEffect:
        return self.step_effects.update_state(sum(results)).end("collected")


class Running:
    """A runtime on a clock that stands still."""

    def __init__(self, url: str) -> None:
        self.clock = ManualClock()
        settings = Settings(database_url=url, sweep_every=timedelta(seconds=0.05))
        self.runtime = Runtime([Counter, Clumsy, Careless], settings=settings, clock=self.clock)
        self.runtime.start()

    def clumsy(self, name: str = "c") -> WorkflowClient[Clumsy]:
        return self.runtime.client.for_workflow(Clumsy, name)

    def advance(self, duration: timedelta) -> None:
        self.clock.advance(duration)
        asyncio.run(self.runtime.sweep())

    def comes_to(self, status: str, name: str = "c") -> bool:
        return eventually(lambda: self.clumsy(name).status().status == status)

    def causes(self, name: str = "c") -> list[tuple[str, str]]:
        entries = self.runtime.client.workflow_history(Clumsy, name)
        return [(one.cause, one.name) for one in entries]


@pytest.fixture
def running(sqlite_url: str) -> Iterator[Running]:
    global stage  # noqa: PLW0603 - steps have no other way to their test
    stage = Stage()
    made = Running(sqlite_url)
    yield made
    stage.gate.set()
    made.runtime.stop()


# -- at the same moment --------------------------------------------------------------------


def test_a_workflow_that_failed_as_its_time_ran_out_is_over(running: Running) -> None:
    running.clumsy().ask(Clumsy.start_at, "hang")
    stage.wait_for(1)
    running.advance(2 * HOUR)

    assert running.comes_to("failed")
    assert running.clumsy().status().reason == "it hung"
    assert running.causes() == [("command", "start_at"), ("attempt", "hang")]


def test_of_branches_that_time_out_together_the_first_leads_elsewhere(running: Running) -> None:
    running.clumsy().ask(Clumsy.fan_out)
    stage.wait_for(3)
    running.advance(2 * SECOND)

    assert running.comes_to("failed")
    assert running.causes() == [
        ("command", "fan_out"),
        ("attempt", "strict_branch"),
        ("step", "last"),
    ]


# -- commands ------------------------------------------------------------------------------


def test_a_read_that_raises_does_not_disturb_the_step(running: Running) -> None:
    running.clumsy().ask(Clumsy.start_at, "work")
    stage.wait_for(1)
    for _ in range(12):
        with pytest.raises(HandlerError):
            running.clumsy().ask(Clumsy.read_wrongly)

    assert running.clumsy().ask(Clumsy.read) == 0
    stage.gate.set()
    assert running.comes_to("ended")
    assert stage.trace == ["work"]


def test_a_step_for_results_takes_nothing_else(running: Running) -> None:
    with pytest.raises(HandlerError):
        running.clumsy().ask(Clumsy.fan_out_wrongly)
    assert running.clumsy().status().status == "not-started"


def test_commands_do_not_wait_for_the_end_of_children(running: Running) -> None:
    running.clumsy().ask(Clumsy.send, ["a", "b"])
    assert running.comes_to("paused", "a")
    assert running.comes_to("paused", "b")

    assert running.clumsy().ask(Clumsy.set, 7) == 7
    running.clumsy("a").ask(Clumsy.stop)
    assert running.clumsy().ask(Clumsy.stop) == "stopped"

    assert running.comes_to("terminated", "b")
    assert running.clumsy("a").status().status == "ended"
    assert running.runtime.client.state_at(Clumsy, "c") == 7


def test_the_handler_of_a_pause_is_tried_again_in_sight(running: Running) -> None:
    running.clumsy().ask(Clumsy.wait_for_bug)
    running.advance(2 * SECOND)
    assert eventually(lambda: running.clumsy().status().last_error is not None)
    status = running.clumsy().status()
    assert (status.status, status.last_error) == ("paused", "RuntimeError: a bug in a handler")

    def is_over() -> bool:
        running.advance(SECOND)
        return running.clumsy().status().status == "ended"

    assert eventually(is_over)
    assert stage.trace == ["woken"] * 15
    assert running.causes()[:3] == [
        ("command", "wait_for_bug"),
        ("attempt", "wake_wrongly"),
        ("attempt", "wake_wrongly"),
    ]


# -- steps ---------------------------------------------------------------------------------


def test_a_callback_that_raises_keeps_nothing_from_being_cancelled(running: Running) -> None:
    running.clumsy().ask(Clumsy.start_at, "cancels_wrongly")
    stage.wait_for(1)
    running.clumsy().terminate("enough")

    assert running.clumsy().status().status == "terminated"
    assert stage.trace == ["cancels", "cancelled"]


def test_an_error_that_can_t_be_shown_is_an_error_like_another(running: Running) -> None:
    running.clumsy().ask(Clumsy.start_at, "raises_wrongly")

    def is_over() -> bool:
        running.advance(SECOND)
        return running.clumsy().status().status == "ended"

    assert eventually(is_over)
    assert running.clumsy().status().reason == "UnshowableError (which can't be shown)"


def test_compensations_are_not_given_up_by_what_is_said_of_all_steps(running: Running) -> None:
    careless = running.runtime.client.for_workflow(Careless, "c")
    careless.ask(Careless.start)
    assert eventually(lambda: careless.status().status == "retrying")
    with pytest.raises(TransitionNotAllowedError, match="is compensating"):
        careless.ask(Careless.go_elsewhere)
    assert careless.ask(Careless.set, 5) == 5

    def is_over() -> bool:
        running.advance(SECOND)
        return careless.status().status == "failed"

    assert eventually(is_over)
    assert careless.status().reason == "changed my mind"
    assert stage.trace == ["undo 2"] * 5 + ["undo 1"] * 5


def test_what_threads_of_a_step_call_is_carried_out_once(running: Running) -> None:
    running.clumsy().ask(Clumsy.start_at, "starts_threads")

    def is_over() -> bool:
        running.advance(SECOND)
        return running.clumsy().status().status == "ended"

    assert eventually(is_over)
    client = running.runtime.client
    assert client.for_event_sourced_entity(Counter, "threads").ask(Counter.total) == 20
    assert [one.cause for one in client.timers.history("timer")] == ["start"]
    assert stage.trace == ["threads"] * 3


# -- children ------------------------------------------------------------------------------


def make_unreadable(runtime: Runtime, ref: EntityRef) -> None:
    """Store what no code can read."""
    store = runtime._store.journal
    head = store.load(ref).head
    record = NewRecord(RecordKind.TRANSITION, Encoded("int", 99, b"1"), b"{}")
    [outcome] = store.commit([Chain(ref, "workflow", head, [CommandWrite([record])])])
    assert outcome.error is None


def test_a_child_that_can_t_be_told_keeps_the_others_from_nothing(running: Running) -> None:
    make_unreadable(running.runtime, EntityRef("clumsy", "a"))
    running.clumsy().ask(Clumsy.send, ["a", "b"])
    assert running.comes_to("paused", "b")
    running.clumsy().terminate("enough")

    assert running.comes_to("terminated", "b")
    assert running.clumsy().status().status == "terminated"
    assert "children" not in [cause for cause, _ in running.causes()]
