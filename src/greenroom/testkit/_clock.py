"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_START = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock:
    """Time for tests: it moves only by `advance`.

    Example:
        >>> clock = ManualClock()
        >>> before = clock.now_ms()
        >>> clock.advance(timedelta(seconds=1))
        >>> clock.now_ms() - before
        1000
    """

    def __init__(self, start: datetime = _START) -> None:
        self._now_ms = int(start.timestamp() * 1000)

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""
        return self._now_ms

    def advance(self, duration: timedelta) -> None:
        """Let time pass."""
        self._now_ms += duration // timedelta(milliseconds=1)
