"""Timers as they are stored: listed for those who look, and read at start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.components import DEAD, RETRYING, TIMERS, StoredTimer, TimerStatus
from greenroom.runtime._timer_requests import milliseconds_of

if TYPE_CHECKING:
    from datetime import datetime

    from greenroom.persistence import Codec, Journal, StoredRecord


def stored_timers(  # noqa: PLR0913 - options, by name
    journal: Journal,
    codec: Codec,
    *,
    name_contains: str | None = None,
    failing_only: bool = False,
    dead_only: bool = False,
    due_before: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[TimerStatus]:
    """Timers as they are stored, in the order of their names. Blocks on the database."""
    steps = (DEAD,) if dead_only else (RETRYING, DEAD) if failing_only else ()
    records = journal.latest(
        TIMERS,
        after=after,
        containing=name_contains,
        due_before=None if due_before is None else milliseconds_of("due_before", due_before),
        steps=steps,
        limit=limit,
    )
    found = ((one.ref.instance, read_timer(codec, one)) for one in records)
    return [timer.status(name) for name, timer in found if timer is not None]


def read_timer(codec: Codec, record: StoredRecord) -> StoredTimer | None:
    return None if record.value is None else codec.decode(record.value)
