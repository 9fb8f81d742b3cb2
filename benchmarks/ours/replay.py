"""Events replayed per second when an instance is recovered."""

from __future__ import annotations

import sys
import time

from benchmarks.ours.ledger import LedgerEntity
from benchmarks.pace import TEXT, settle
from greenroom.runtime import Runtime
from greenroom.settings import Settings

NO_SNAPSHOTS = 1_000_000_000


def run(database_url: str, events: int, instances: int) -> dict[str, float]:
    """From the command that finds the instance cold to its answer."""
    settings = Settings(database_url=database_url, snapshot_every=NO_SNAPSHOTS)
    _write(settings, events, instances)
    runtime = Runtime([LedgerEntity], settings=settings)
    runtime.start()
    try:
        client = runtime.client
        client.for_event_sourced_entity(LedgerEntity, "warm-up").ask(LedgerEntity.entries)
        settle(switch_interval=0.0005)
        began = time.perf_counter()
        for number in range(instances):
            ledger = client.for_event_sourced_entity(LedgerEntity, f"ledger-{number}")
            if ledger.ask(LedgerEntity.entries) != events:
                sys.exit("not every event was replayed")
        elapsed = time.perf_counter() - began
        return {"value": events * instances / elapsed}
    finally:
        runtime.stop()


def _write(settings: Settings, events: int, instances: int) -> None:
    runtime = Runtime([LedgerEntity], settings=settings)
    runtime.start()
    try:
        for name in ("warm-up", *(f"ledger-{number}" for number in range(instances))):
            ledger = runtime.client.for_event_sourced_entity(LedgerEntity, name)
            for _ in range(events // 100):
                ledger.ask(LedgerEntity.record_often, TEXT, 100)
    finally:
        runtime.stop()
