"""Workflows whose code is wrong, or to which things happen at the worst moment."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from greenroom import (
    Backoff,
    BranchEffect,
    ComponentClient,
    Effect,
    Fail,
    ReadOnlyEffect,
    Retry,
    StepEffect,
    Workflow,
    WorkflowClient,
    WorkflowSettings,
    call,
    component,
    step,
)
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


@component("clumsy")
class Clumsy(Workflow[int]):
    """Does everything that one should not."""

    def __init__(self, client: ComponentClient) -> None:
        self.client = client

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

    # -- steps

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
        self.runtime = Runtime([Counter, Clumsy], settings=settings, clock=self.clock)
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
