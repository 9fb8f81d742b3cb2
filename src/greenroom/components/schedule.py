"""When something that is done again and again is next due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from greenroom.clock import to_datetime


@dataclass(frozen=True, slots=True)
class Schedule:
    """Every so often, or as a cron expression says; neither is once.

    Example:
        >>> Schedule(every_ms=60_000).after(due=0, now=150_000)
        180000
    """

    every_ms: int | None = None
    cron: str | None = None
    timezone: str = "UTC"
    """The IANA name of the zone in which the cron expression is read."""

    def first(self, now: int) -> int:
        """When it is due for the first time, in milliseconds since 1970.

        Raises:
            ValueError: The expression or the zone is wrong, or the expression fits no date.
        """
        due = self.after(due=now, now=now)
        if due is None:
            message = "a recurring timer needs every=... or cron=..."
            raise ValueError(message)
        return due

    def after(self, *, due: int, now: int) -> int | None:
        """When it is due next, later than now; None when it was due once.

        What was missed is left out: whoever comes late comes once.
        """
        if self.every_ms is not None:
            missed = max(0, now - due) // self.every_ms
            return due + (missed + 1) * self.every_ms
        if self.cron is None:
            return None
        return round(next(self._occurrences(max(due, now))).timestamp() * 1000)

    def _occurrences(self, after: int) -> Iterator[datetime]:
        assert self.cron is not None
        try:
            zone = ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            message = (
                f"{self.timezone!r} is no time zone that this machine knows; give an IANA name, "
                'as "Europe/Paris" (the tzdata package has them all)'
            )
            raise ValueError(message) from None
        try:
            return self._dated(CronSim(self.cron, to_datetime(after).astimezone(zone)))
        except CronSimError as error:
            message = (
                f"{self.cron!r} is no cron expression: {error}; write minute, hour, day, month "
                'and weekday, as "30 7 * * MON-FRI"'
            )
            raise ValueError(message) from None

    def _dated(self, occurrences: Iterator[datetime]) -> Iterator[datetime]:
        yield from occurrences
        message = f"{self.cron!r} fits no date"
        raise ValueError(message)

    def __str__(self) -> str:
        if self.cron is not None:
            return f"{self.cron} ({self.timezone})"
        return "once" if self.every_ms is None else f"every {self.every_ms / 1000:g} s"
