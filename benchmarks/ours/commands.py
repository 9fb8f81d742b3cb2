"""Durable commands per second, each with an idempotency key, from a thread or from asyncio."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.ours.ledger import LedgerEntity
from benchmarks.pace import SWITCH_INTERVAL, TEXT, Pace, settle
from greenroom.runtime import Runtime
from greenroom.settings import Settings


def run(
    database_url: str,
    callers: int,
    entities: int,
    seconds: float,
    door: str = "asyncio",
    dispatcher: str = "loop",
    history: int = 10,
) -> dict[str, float]:
    """`door` is `thread` (one caller, blocking client) or `asyncio`."""
    settings = Settings(database_url=database_url, dispatcher=dispatcher)  # type: ignore[arg-type]
    runtime = Runtime([LedgerEntity], settings=settings)
    names = [f"ledger-{number}" for number in range(entities)]
    if door == "thread":
        return _from_a_thread(runtime, names, seconds, history)
    figures: dict[str, float] = _on_a_loop(_from_asyncio(runtime, names, callers, seconds, history))
    return figures


def _from_a_thread(
    runtime: Runtime, names: Sequence[str], seconds: float, history: int
) -> dict[str, float]:
    runtime.start()
    try:
        client = runtime.client
        for name in names:
            ledger = client.for_event_sourced_entity(LedgerEntity, name)
            ledger.ask(LedgerEntity.record_often, TEXT, history)
        commits = _Commits(runtime)
        settle(switch_interval=SWITCH_INTERVAL)
        pace = Pace(seconds)
        pace.start()
        for number in itertools.count():
            ledger = client.for_event_sourced_entity(LedgerEntity, names[number % len(names)])
            ledger.with_options(idempotency_key=f"key-{number}").ask(LedgerEntity.record, TEXT)
            if pace.done():
                break
        figures = pace.figures() | commits.figures(pace.total)
        recorded = sum(
            client.for_event_sourced_entity(LedgerEntity, name).ask(LedgerEntity.entries)
            for name in names
        )
        _check(recorded, len(names) * history + pace.total)
        return figures
    finally:
        runtime.stop()


async def _from_asyncio(
    runtime: Runtime, names: Sequence[str], callers: int, seconds: float, history: int
) -> dict[str, float]:
    await runtime.start_async()
    try:
        client = runtime.async_client
        for name in names:
            ledger = client.for_event_sourced_entity(LedgerEntity, name)
            await ledger.ask(LedgerEntity.record_often, TEXT, history)
        commits = _Commits(runtime)
        settle(switch_interval=SWITCH_INTERVAL)
        pace = Pace(seconds)
        numbers = itertools.count()

        async def call_until_time_is_up() -> None:
            for number in numbers:
                ledger = client.for_event_sourced_entity(LedgerEntity, names[number % len(names)])
                keyed = ledger.with_options(idempotency_key=f"key-{number}")
                await keyed.ask(LedgerEntity.record, TEXT)
                if pace.done():
                    return

        pace.start()
        await asyncio.gather(*(call_until_time_is_up() for _ in range(callers)))
        figures = pace.figures() | commits.figures(pace.total)
        recorded = 0
        for name in names:
            ledger = client.for_event_sourced_entity(LedgerEntity, name)
            recorded += await ledger.ask(LedgerEntity.entries)
        _check(recorded, len(names) * history + pace.total)
        return figures
    finally:
        await runtime.stop_async()


class _Commits:
    """Counts transactions, to know how many commands one of them carries."""

    def __init__(self, runtime: Runtime) -> None:
        self._count = 0
        writer: Any = runtime._writer
        self._journal = writer._journal
        writer._journal = self

    def commit(self, batch: Any) -> Any:
        self._count += 1
        return self._journal.commit(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def figures(self, commands: int) -> dict[str, float]:
        return {"batch": commands / max(1, self._count)}


def _on_a_loop(main: Any) -> Any:
    # uvicorn, and so `greenroom run`, takes uvloop where it is installed.
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _check(recorded: int, expected: int) -> None:
    if recorded != expected:
        sys.exit(f"{recorded} entries were recorded, but {expected} acknowledged")
