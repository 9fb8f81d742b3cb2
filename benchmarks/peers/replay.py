"""Events replayed per second when `eventsourcing` loads an aggregate."""

from __future__ import annotations

import sys
import time

from benchmarks.pace import TEXT, settle
from benchmarks.peers.ledger import Ledger, application, new_ledger


def run(database_url: str, events: int, instances: int) -> dict[str, float]:
    """From the request for an aggregate to having it; nothing is cached, no snapshots."""
    app = application(database_url, cached=None, pool=5)
    warm_up, *ids = [new_ledger(app, TEXT, events) for _ in range(1 + instances)]
    app.repository.get(warm_up)
    settle()
    began = time.perf_counter()
    for one in ids:
        ledger: Ledger = app.repository.get(one)
        if ledger.entries != events:
            sys.exit("not every event was replayed")
    elapsed = time.perf_counter() - began
    app.close()
    return {"value": events * instances / elapsed}
