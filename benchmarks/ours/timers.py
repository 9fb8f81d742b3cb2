"""Timers that are all due at the same moment: how many fire a second."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from time import perf_counter

import uvloop

from benchmarks.pace import SWITCH_INTERVAL, settle
from greenroom import Effect, KeyValueEntity, component
from greenroom.runtime import Runtime
from greenroom.settings import Settings

BELLS = 400
AT_A_TIME = 1000
LEAD = timedelta(seconds=30)
"""From the first start to the moment at which all are due; longer than the starts take."""
LONGEST = 300.0


@component("bench-bell")
class Bell(KeyValueEntity[int]):
    """Counts its rings."""

    def empty_state(self) -> int:
        return 0

    def ring(self) -> Effect[int]:
        return self.effects.update_state(self.state + 1).then_reply(self.state + 1)


def run(database_url: str, timers: int) -> dict[str, float]:
    """Timers a second, from the due time until the last one's call is carried out and recorded."""
    runtime = Runtime([Bell], settings=Settings(database_url=database_url))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measured(runtime, timers))


async def _measured(runtime: Runtime, timers: int) -> dict[str, float]:
    settle(switch_interval=SWITCH_INTERVAL)
    await runtime.start_async()
    try:
        client = runtime.async_client
        due = datetime.now(UTC) + LEAD
        began = perf_counter()

        async def start(number: int) -> None:
            bell = client.for_key_value_entity(Bell, f"b-{number % BELLS}")
            await client.timers.start_single_timer(f"t-{number}", due, bell.deferred(Bell.ring))

        for first in range(0, timers, AT_A_TIME):
            numbers = range(first, min(first + AT_A_TIME, timers))
            await asyncio.gather(*(start(number) for number in numbers))
        started = perf_counter()
        left = (due - datetime.now(UTC)).total_seconds()
        if left < 0:
            sys.exit(f"starting {timers} timers took longer than {LEAD}")
        await asyncio.sleep(left)
        fired = perf_counter()
        deadline = fired + LONGEST
        # A timer is gone once what came of its call is stored.
        while await client.timers.list(limit=1):
            if perf_counter() > deadline:
                sys.exit("timers are still there")
            await asyncio.sleep(0.02)
        seconds = perf_counter() - fired
        rings = 0
        for number in range(BELLS):
            rings += await client.state_at(Bell, f"b-{number}")
        if rings != timers:
            sys.exit(f"{timers} timers have rung {rings} times")
        return {"value": timers / seconds, "started_per_s": timers / (started - began)}
    finally:
        await runtime.stop_async()
