"""Workflows that several suites use: what a step does is decided by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from greenroom import (
    AsyncComponentClient,
    Backoff,
    BranchEffect,
    ChildOutcome,
    CommandError,
    Compensate,
    ComponentClient,
    Effect,
    Fail,
    ReadOnlyEffect,
    Retry,
    StepEffect,
    Workflow,
    WorkflowSettings,
    call,
    component,
    function_tool,
    step,
    type_name,
)
from tests.support.components import Counter

QUICK = Backoff(min=timedelta(milliseconds=1), max=timedelta(milliseconds=5))
HOUR = timedelta(hours=1)


class Script:
    """What the steps of a test do, what they have done, and gates that hold them up."""

    def __init__(self) -> None:
        self.trace: list[str] = []
        self.seen: list[Any] = []
        self.errors: dict[str, list[BaseException]] = {}
        self.gates: dict[str, threading.Event] = {}
        self.reached: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def enter(self, name: str, *seen: Any) -> None:
        """A step begins: note it, wait at its gate, and fail as often as was asked for."""
        with self._lock:
            self.trace.append(name)
            self.seen += seen
            failing = self.errors.get(name)
            error = failing.pop(0) if failing else None
        if name in self.reached:
            self.reached[name].set()
        gate = self.gates.get(name)
        if gate is not None:
            gate.wait(20)
        if error is not None:
            raise error

    def fail(self, name: str, times: int, error: Callable[[], BaseException] = ValueError) -> None:
        """Let a step fail the next times."""
        self.errors[name] = [error() for _ in range(times)]

    @contextmanager
    def held(self, name: str) -> Iterator[threading.Event]:
        """Hold a step up; gives the event that it has begun."""
        gate = self.gates[name] = threading.Event()
        reached = self.reached[name] = threading.Event()
        try:
            yield reached
        finally:
            del self.gates[name]
            gate.set()


script = Script()


def new_script() -> Script:
    """Forget what the steps of the test before have done."""
    global script  # noqa: PLW0603 - steps have no other way to their test
    script = Script()
    return script


@type_name("journey")
class Journey(BaseModel, frozen=True):
    """Where a journey has come."""

    places: tuple[str, ...] = ()

    def to(self, place: str) -> Journey:
        """One place further."""
        return Journey(places=(*self.places, place))


@type_name("leg")
class Leg(BaseModel, frozen=True):
    """The input of a step."""

    place: str
    adds: int = 1


@component("journeys")
class Journeys(Workflow[Journey]):
    """One of everything that workflows can do."""

    def __init__(self, client: ComponentClient, async_client: AsyncComponentClient) -> None:
        self.client = client
        self.async_client = async_client

    def empty_state(self) -> Journey:
        return Journey()

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(step_timeout=timedelta(seconds=5), recovery=Retry(backoff=QUICK))

    # -- commands

    @function_tool(description="Starts a journey.")
    def start(self, place: str, adds: int = 1) -> Effect[str]:
        if self.state.places:
            raise CommandError("The journey has begun.")
        leg = Leg(place=place, adds=adds)
        changed = self.effects.update_state(self.state.to("start"))
        return changed.transition_to(self.first, leg).then_reply("started")

    def start_at(self, name: str) -> Effect[str]:
        target = getattr(self, name)
        return self.effects.transition_to(target).then_reply("started")

    @function_tool
    def look(self) -> ReadOnlyEffect[Journey]:
        """Where the journey has come."""
        return self.effects.reply(self.state)

    def note(self, place: str) -> Effect[Journey]:
        changed = self.state.to(place)
        return self.effects.update_state(changed).then_reply(changed)

    def only_reply(self) -> Effect[bool]:
        return self.effects.reply(self.is_deleted)

    def pause(self, reason: str | None = None) -> Effect[str]:
        return self.effects.pause(reason).then_reply("paused")

    def pause_for(self, seconds: float) -> Effect[str]:
        long = timedelta(seconds=seconds)
        paused = self.effects.pause("waiting", timeout=long, on_timeout=call(self.too_late, "late"))
        return paused.then_reply("paused")

    def too_late(self, place: str) -> Effect[None]:
        script.enter("too_late")
        return self.effects.update_state(self.state.to(place)).end("nobody came").then_reply(None)

    def look_only(self, seconds: float) -> Effect[str]:
        long = timedelta(seconds=seconds)
        paused = self.effects.pause("waiting", timeout=long, on_timeout=call(self.peek))
        return paused.then_reply("paused")

    def peek(self) -> Effect[None]:
        script.enter("peek")
        return self.effects.reply(None)

    def stop(self, reason: str | None = None) -> Effect[str]:
        return self.effects.end(reason).then_reply("stopped")

    def give_up(self, reason: str) -> Effect[str]:
        return self.effects.fail(reason).then_reply("failed")

    def remove(self) -> Effect[str]:
        return self.effects.delete("done with it").then_reply("deleted")

    def raise_it(self) -> Effect[str]:
        raise RuntimeError("a bug")

    def visit_all(self, places: list[str], at_once: int) -> Effect[str]:
        fanned = self.effects.for_each(
            self.visit, places, then=self.collect, max_concurrency=at_once
        )
        return fanned.then_reply("visiting")

    def both(self) -> Effect[str]:
        fanned = self.effects.parallel(
            call(self.visit, "a"), call(self.count, "b"), then=self.collect_both
        )
        return fanned.then_reply("both")

    def send(self, children: list[str]) -> Effect[str]:
        starts = [
            self.client.for_workflow(Journeys, one).deferred(Journeys.start, one)
            for one in children
        ]
        return self.effects.parallel(*starts, then=self.welcome).then_reply("sent")

    def book(self, fails_at: int) -> Effect[str]:
        return self.effects.transition_to(self.reserve, 1, fails_at).then_reply("booking")

    # -- steps

    @step
    def first(self, leg: Leg) -> StepEffect:
        script.enter("first", self.step_context)
        self.client.for_event_sourced_entity(Counter, leg.place).ask(Counter.increase, leg.adds)
        script.enter("first called")
        changed = self.step_effects.update_state(self.state.to(leg.place))
        return changed.transition_to(self.second, leg)

    @step
    async def second(self, leg: Leg) -> StepEffect:
        script.enter("second", self.step_context)
        counter = self.async_client.for_event_sourced_entity(Counter, leg.place)
        await counter.ask(Counter.increase, leg.adds)
        script.enter("second called")
        return self.step_effects.update_state(self.state.to("end")).end()

    @step
    def wait(self) -> StepEffect:
        script.enter("wait")
        return self.step_effects.pause("waiting")

    @step
    def vanish(self) -> StepEffect:
        return self.step_effects.delete()

    @step
    def nothing(self) -> StepEffect:
        script.enter("nothing")
        return None  # type: ignore[return-value]

    @step
    def unstorable(self) -> StepEffect:
        script.enter("unstorable")
        return self.step_effects.transition_to(self.first, "no leg")  # type: ignore[arg-type]

    @step
    def visit(self, place: str) -> BranchEffect[str]:
        script.enter("visit", place)
        self.client.for_event_sourced_entity(Counter, f"visit-{place}").ask(Counter.increase, 1)
        script.enter(f"visited {place}")
        return self.step_effects.result(place.upper())

    @step
    async def count(self, place: str) -> BranchEffect[int]:
        script.enter("count", place)
        return self.step_effects.result(len(place))

    @step
    def collect(self, places: list[str]) -> StepEffect:
        script.enter("collect")
        return self.step_effects.update_state(Journey(places=tuple(places))).end()

    @step
    def collect_both(self, results: list[str | int]) -> StepEffect:
        script.enter("collect_both", results)
        return self.step_effects.end()

    @step
    def welcome(self, outcomes: list[ChildOutcome]) -> StepEffect:
        script.enter("welcome", outcomes)
        return self.step_effects.end()

    @step(recovery=Retry(max_retries=0, failover_to=Compensate()))
    def reserve(self, number: int, fails_at: int) -> StepEffect:
        script.enter(f"reserve {number}")
        if number == fails_at:
            raise ValueError(f"no room {number}")
        recorded = self.step_effects.compensate_with(self.cancel, number)
        if number == 3:
            return recorded.end("booked")
        return recorded.transition_to(self.reserve, number + 1, fails_at)

    @step
    def cancel(self, number: int) -> StepEffect:
        script.enter(f"cancel {number}", self.step_context.reason)
        return self.step_effects.done()


@component("strict-journeys")
class StrictJourneys(Workflow[Journey]):
    """Retries that end, and what comes then."""

    def empty_state(self) -> Journey:
        return Journey()

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(
            recovery=Retry(max_retries=2, backoff=QUICK, failover_to=call(self.fall_back, "x")),
            step_timeout=timedelta(seconds=5),
        )

    def start_at(self, name: str) -> Effect[str]:
        return self.effects.transition_to(getattr(self, name)).then_reply("started")

    @step
    def work(self) -> StepEffect:
        script.enter("work", self.step_context)
        return self.step_effects.update_state(self.state.to("worked")).end()

    @step(recovery=Retry(max_retries=1, backoff=QUICK))
    def suspend_after(self) -> StepEffect:
        script.enter("suspend_after")
        return self.step_effects.end()

    @step(recovery=Retry(max_retries=0, failover_to=Fail("no way")))
    def fail_after(self) -> StepEffect:
        script.enter("fail_after")
        return self.step_effects.end()

    @step(
        recovery=Retry(
            backoff=QUICK,
            give_up_on=(KeyError,),
            failover_to=Fail("hopeless"),
            on={OSError: Retry(max_retries=0, failover_to=Fail("no disk"))},
        )
    )
    def picky(self) -> StepEffect:
        script.enter("picky")
        return self.step_effects.end()

    @step
    def fall_back(self, place: str) -> StepEffect:
        script.enter("fall_back", place)
        return self.step_effects.update_state(self.state.to("fell")).end()

    @step(
        timeout=timedelta(milliseconds=30),
        recovery=Retry(max_retries=1, backoff=QUICK, failover_to=Fail("too slow")),
    )
    def slow(self) -> StepEffect:
        script.enter("slow", self.step_context)
        return self.step_effects.end()


@component("hurried-journeys")
class HurriedJourneys(Workflow[Journey]):
    """A workflow with a time limit and one last step."""

    def empty_state(self) -> Journey:
        return Journey()

    def settings(self) -> WorkflowSettings:
        return WorkflowSettings(
            timeout=HOUR,
            on_timeout=call(self.last, "late"),
            recovery=Retry(backoff=QUICK),
            delete_after=timedelta(days=3),
        )

    def start(self, then: str = "sleep") -> Effect[str]:
        return self.effects.update_state(Journey(places=(then,))).pause("asleep").then_reply("ok")

    @step
    def last(self, place: str) -> StepEffect:
        script.enter("last", place)
        if self.state.places == ("go on",):
            return self.step_effects.update_state(self.state.to(place)).pause()
        return self.step_effects.update_state(self.state.to(place)).end("out of time")
