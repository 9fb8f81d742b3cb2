"""Paused workflows in one process: what each takes in memory, and resuming all after a restart."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from datetime import timedelta
from time import perf_counter
from typing import Any

import uvloop

from benchmarks.pace import SWITCH_INTERVAL, settle
from benchmarks.resident import resident_bytes
from greenroom import Effect, StepEffect, Workflow, call, component, step
from greenroom.components import OUTCOME
from greenroom.ids import EntityRef
from greenroom.runtime import AsyncComponentClient, CallRequest, Runtime
from greenroom.settings import Settings

BEFORE = 1000
"""Workflows that are made before the first look, so that what is made once is not counted."""
AT_A_TIME = 1000


@component("approval")
class Approval(Workflow[int]):
    """Waits for somebody, for a month at most; then does one step."""

    def empty_state(self) -> int:
        return 0

    def wait(self, number: int) -> Effect[str]:
        changed = self.effects.update_state(number)
        return changed.pause(
            "to be approved", timeout=_MONTH, on_timeout=call(self.forget)
        ).then_reply("paused")

    def forget(self) -> Effect[None]:
        return self.effects.fail("nobody approved").then_reply(None)

    def approve(self) -> Effect[str]:
        return self.effects.transition_to(self.carry_out).then_reply("approved")

    @step
    async def carry_out(self) -> StepEffect:
        return self.step_effects.end()


_MONTH = timedelta(days=30)


def run(database_url: str, workflows: int) -> dict[str, float]:
    """Bytes for each while all are live, and seconds to resume all of them after a restart."""
    settle(switch_interval=SWITCH_INTERVAL)
    settings = Settings(
        database_url=database_url,
        max_live_instances=2 * workflows + BEFORE,
        passivate_after=timedelta(days=1),
        ask_timeout=timedelta(minutes=5),
    )
    runtime = Runtime([Approval], settings=settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        live = runner.run(_made(runtime, workflows))
        return live | runner.run(_resumed(runtime, workflows))


async def _made(runtime: Runtime, workflows: int) -> dict[str, float]:
    client = runtime.async_client
    await runtime.start_async()
    try:
        await _each(range(BEFORE), lambda number: _wait(client, number))
        gc.collect()
        before = resident_bytes()
        began = perf_counter()
        await _each(range(BEFORE, BEFORE + workflows), lambda number: _wait(client, number))
        seconds = perf_counter() - began
        gc.collect()
        after = resident_bytes()
        live: Any = (await asyncio.to_thread(runtime.health))["live"]
        if live != BEFORE + workflows:
            sys.exit(f"only {live} workflows are live")
        return {
            "value": (after - before) / workflows,
            "paused_per_s": workflows / seconds,
            "process_mib": after / 1024**2,
        }
    finally:
        await runtime.stop_async()


async def _resumed(runtime: Runtime, workflows: int) -> dict[str, float]:
    """After a restart none is in memory: each is read, goes on, and comes to its end."""
    began = perf_counter()
    await runtime.start_async()
    try:
        started = perf_counter()
        outcome = runtime.definition_of(Approval).operations[OUTCOME]

        async def resume(number: int) -> None:
            workflow = runtime.async_client.for_workflow(Approval, f"a-{number}")
            await workflow.ask(Approval.approve)
            request = CallRequest(EntityRef("approval", f"a-{number}"), outcome, ())
            if (await runtime.call(request)).value.status != "ended":
                sys.exit(f"a-{number} has not ended")

        await _each(range(BEFORE + workflows), resume)
        seconds = perf_counter() - started
        return {
            "restart_s": started - began,
            "resume_s": seconds * workflows / (BEFORE + workflows),
        }
    finally:
        await runtime.stop_async()


async def _wait(client: AsyncComponentClient, number: int) -> None:
    await client.for_workflow(Approval, f"a-{number}").ask(Approval.wait, number)


async def _each(numbers: range, act: Callable[[int], Any]) -> None:
    for first in range(numbers.start, numbers.stop, AT_A_TIME):
        last = min(first + AT_A_TIME, numbers.stop)
        await asyncio.gather(*(act(number) for number in range(first, last)))
