"""The only place that asks for the time, so that tests can move it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time it is, for everything that is stored or comes due."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC: the form in which times are stored."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""
        return time.time_ns() // 1_000_000


def to_datetime(milliseconds: int) -> datetime:
    """The aware time of a stored number of milliseconds."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
