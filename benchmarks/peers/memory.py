"""What a live, idle `pykka.ThreadingActor` takes."""

from __future__ import annotations

import gc
from typing import Any

import pykka

from benchmarks.resident import resident_bytes

BEFORE = 50


class LedgerActor(pykka.ThreadingActor):
    """Counts."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0

    def on_receive(self, message: Any) -> int:  # noqa: ARG002 - counting is enough
        """Count one."""
        self.entries += 1
        return self.entries


def run(database_url: str, entities: int) -> dict[str, float]:  # noqa: ARG001 - keeps nothing
    """Bytes per actor; each has answered one message."""
    kept = [_used() for _ in range(BEFORE)]
    gc.collect()
    before = resident_bytes()
    kept += [_used() for _ in range(entities)]
    gc.collect()
    after = resident_bytes()
    pykka.ActorRegistry.stop_all()
    return {"value": (after - before) / entities, "process_mib": after / 1024**2}


def _used() -> pykka.ActorRef[LedgerActor]:
    actor = LedgerActor.start()
    actor.ask("record")
    return actor
