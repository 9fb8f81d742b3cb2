"""Workflows of three steps: how many steps a second, and how long from the start to the end."""

from __future__ import annotations

import asyncio
import itertools
import sys
from time import perf_counter
from typing import Any

import uvloop

from benchmarks.pace import SWITCH_INTERVAL, Latencies, Pace, settle
from greenroom import Effect, StepEffect, Workflow, component, step
from greenroom.components import OUTCOME
from greenroom.ids import EntityRef
from greenroom.runtime import CallRequest, Runtime
from greenroom.settings import Settings

STEPS = 3


@component("three-threads")
class OnThreads(Workflow[int]):
    """Its steps are functions."""

    def empty_state(self) -> int:
        return 0

    def start(self, number: int) -> Effect[str]:
        return self.effects.transition_to(self.one, number).then_reply("started")

    @step
    def one(self, number: int) -> StepEffect:
        return self.step_effects.update_state(number).transition_to(self.two, number + 1)

    @step
    def two(self, number: int) -> StepEffect:
        return self.step_effects.update_state(number).transition_to(self.three, number + 1)

    @step
    def three(self, number: int) -> StepEffect:
        return self.step_effects.update_state(number).end()


@component("three-coroutines")
class OnLoop(Workflow[int]):
    """Its steps are coroutines."""

    def empty_state(self) -> int:
        return 0

    def start(self, number: int) -> Effect[str]:
        return self.effects.transition_to(self.one, number).then_reply("started")

    @step
    async def one(self, number: int) -> StepEffect:
        return self.step_effects.update_state(number).transition_to(self.two, number + 1)

    @step
    async def two(self, number: int) -> StepEffect:
        return self.step_effects.update_state(number).transition_to(self.three, number + 1)

    @step
    async def three(self, number: int) -> StepEffect:
        return self.step_effects.update_state(number).end()


def run(database_url: str, concurrent: int, seconds: float, steps: str) -> dict[str, float]:
    """`steps` is `def` or `async def`."""
    runtime = Runtime([OnThreads, OnLoop], settings=Settings(database_url=database_url))
    workflow = OnThreads if steps == "def" else OnLoop
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measured(runtime, workflow, concurrent, seconds))


async def _measured(
    runtime: Runtime, workflow: Any, concurrent: int, seconds: float
) -> dict[str, float]:
    await runtime.start_async()
    try:
        definition = runtime.definition_of(workflow)
        outcome = definition.operations[OUTCOME]
        settle(switch_interval=SWITCH_INTERVAL)
        pace, latencies = Pace(seconds), Latencies()
        numbers = itertools.count()

        async def one_after_the_other() -> None:
            for number in numbers:
                began = perf_counter()
                name = f"w-{number}"
                client = runtime.async_client.for_workflow(workflow, name)
                await client.ask(workflow.start, number)
                # What a parent asks its child: answered when the end is durable.
                request = CallRequest(EntityRef(definition.id, name), outcome, ())
                ended = (await runtime.call(request)).value
                latencies.add(pace, perf_counter() - began)
                if ended.status != "ended":
                    sys.exit(f"{name} is {ended.status}")
                if pace.done(STEPS):
                    return

        pace.start()
        await asyncio.gather(*(one_after_the_other() for _ in range(concurrent)))
        figures = pace.figures() | latencies.figures()
        last = await runtime.async_client.state_at(workflow, "w-0")
        if last != STEPS - 1:
            sys.exit(f"the state is {last}")
        return figures
    finally:
        await runtime.stop_async()
