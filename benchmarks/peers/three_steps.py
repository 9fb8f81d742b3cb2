"""The same three steps as a workflow of DBOS."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import sys
import threading
from time import perf_counter
from typing import Any

from dbos import DBOS, DBOSConfig

from benchmarks.pace import SWITCH_INTERVAL, Latencies, Pace, settle

STEPS = 3


@DBOS.step()
def add_one(number: int) -> int:
    """A step that does next to nothing."""
    return number + 1


@DBOS.workflow()
def three_steps(number: int) -> int:
    """Functions."""
    return add_one(add_one(add_one(number)))


@DBOS.step()
async def add_one_async(number: int) -> int:
    """A step that does next to nothing."""
    return number + 1


@DBOS.workflow()
async def three_steps_async(number: int) -> int:
    """Coroutines."""
    return await add_one_async(await add_one_async(await add_one_async(number)))


def run(database_url: str, concurrent: int, seconds: float, steps: str) -> dict[str, float]:
    """`steps` is `def` (a thread for each caller) or `async def`."""
    if database_url.startswith("sqlite:///"):
        # DBOS leaves the file in rollback mode; WAL, which is quicker, stays with the file.
        # It leaves synchronous at its default, which is FULL.
        with sqlite3.connect(database_url.removeprefix("sqlite:///")) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": database_url,
        "log_level": "WARNING",
        "run_admin_server": False,
        "sys_db_pool_size": max(20, concurrent),
    }
    DBOS(config=config)
    DBOS.launch()
    logging.getLogger("dbos").setLevel(logging.WARNING)
    try:
        settle(switch_interval=SWITCH_INTERVAL)
        pace, latencies = Pace(seconds), Latencies()
        numbers = itertools.count()
        if steps == "def":
            _from_threads(concurrent, pace, latencies, numbers)
        else:
            asyncio.run(_from_coroutines(concurrent, pace, latencies, numbers))
        return pace.figures() | latencies.figures()
    finally:
        DBOS.destroy()


def _from_threads(concurrent: int, pace: Pace, latencies: Latencies, numbers: Any) -> None:
    lock = threading.Lock()

    def one_after_the_other() -> None:
        for number in numbers:
            began = perf_counter()
            _check(three_steps(number), number)
            with lock:
                latencies.add(pace, perf_counter() - began)
                if pace.done(STEPS):
                    return

    if concurrent == 1:
        pace.start()
        one_after_the_other()
        return
    threads = [threading.Thread(target=one_after_the_other) for _ in range(concurrent)]
    pace.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _from_coroutines(concurrent: int, pace: Pace, latencies: Latencies, numbers: Any) -> None:
    async def one_after_the_other() -> None:
        for number in numbers:
            began = perf_counter()
            _check(await three_steps_async(number), number)
            latencies.add(pace, perf_counter() - began)
            if pace.done(STEPS):
                return

    pace.start()
    await asyncio.gather(*(one_after_the_other() for _ in range(concurrent)))


def _check(result: int, number: int) -> None:
    if result != number + STEPS:
        sys.exit(f"{number} became {result}")
