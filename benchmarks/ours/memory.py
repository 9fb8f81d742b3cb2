"""What a live, idle entity takes: resident memory after each has handled a command."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from datetime import timedelta
from typing import Any

from benchmarks.ours.ledger import Ledger, LedgerEntity
from benchmarks.resident import resident_bytes
from greenroom.runtime import Runtime
from greenroom.settings import Settings

BEFORE = 1000
"""Entities that are made before the first look, so that what is made once is not counted."""
AT_A_TIME = 1000


def run(database_url: str, entities: int) -> dict[str, float]:
    """Bytes per entity."""
    settings = Settings(
        database_url=database_url,
        max_live_instances=2 * entities + BEFORE,
        passivate_after=timedelta(days=1),
        ask_timeout=timedelta(minutes=1),
    )
    return asyncio.run(_measured(Runtime([LedgerEntity], settings=settings), entities))


async def _measured(runtime: Runtime, entities: int) -> dict[str, float]:
    await runtime.start_async()
    try:
        await _use(runtime, range(BEFORE))
        gc.collect()
        before = resident_bytes()
        await _use(runtime, range(BEFORE, BEFORE + entities))
        gc.collect()
        after = resident_bytes()
        live: Any = (await asyncio.to_thread(runtime.health))["live"]
        if live != BEFORE + entities:
            sys.exit(f"only {live} entities are live")
        return {
            "value": (after - before) / entities,
            "state": _bytes_of_a_state(),
            "process_mib": after / 1024**2,
        }
    finally:
        await runtime.stop_async()


def _bytes_of_a_state() -> float:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    states = [Ledger(entries=number) for number in range(1000)]
    size = (tracemalloc.get_traced_memory()[0] - before) / len(states)
    tracemalloc.stop()
    return size


async def _use(runtime: Runtime, numbers: range) -> None:
    client = runtime.async_client
    for first in range(numbers.start, numbers.stop, AT_A_TIME):
        await asyncio.gather(
            *(
                client.for_event_sourced_entity(LedgerEntity, f"ledger-{number}").ask(
                    LedgerEntity.record, "opened"
                )
                for number in range(first, min(first + AT_A_TIME, numbers.stop))
            )
        )
