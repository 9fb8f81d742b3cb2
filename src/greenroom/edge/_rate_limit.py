"""How often a principal may call: a bucket of tokens each, in this process."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from greenroom.clock import Clock
    from greenroom.components.security import RateLimit

MAX_BUCKETS: Final = 100_000
"""Callers that are remembered; a bound, since addresses come from outside."""


class RateLimiter:
    """Buckets that fill up evenly, one per caller.

    A bucket is kept as what is missing in it, in units of which a millisecond gives `calls`
    back and a call takes `per` (in milliseconds): whole numbers, so nothing is rounded away.

    Example:
        >>> from greenroom.clock import SystemClock
        >>> from greenroom.components import RateLimit
        >>> limiter = RateLimiter(RateLimit(1, per=timedelta(hours=1)), SystemClock())
        >>> limiter.spend("ada"), limiter.spend("ada") > 0
        (0, True)
    """

    def __init__(self, limit: RateLimit, clock: Clock, *, max_buckets: int = MAX_BUCKETS) -> None:
        self._clock = clock
        self._back_per_ms = limit.calls
        self._cost = limit.per // timedelta(milliseconds=1)
        self._size = self._cost * (limit.burst or limit.calls)
        self._max_buckets = max_buckets
        self._missing: dict[str, tuple[int, int]] = {}
        """By caller: what is missing, and at what time in milliseconds that was."""

    def spend(self, caller: str, calls: int = 1) -> int:
        """Take some calls out of a caller's bucket, all or none.

        Returns:
            0 when they were there; else the milliseconds until they are. More than the bucket
            holds are never there; the time is then that until it is full.
        """
        now = self._clock.now_ms()
        missing = self._missing_at(caller, now)
        cost = calls * self._cost
        over = missing + cost - self._size
        if over > 0:
            return max(1, -(-min(over, missing) // self._back_per_ms))
        if caller not in self._missing and len(self._missing) >= self._max_buckets:
            self._make_room(now)
        self._missing[caller] = (missing + cost, now)
        return 0

    def _missing_at(self, caller: str, now: int) -> int:
        missing, since = self._missing.get(caller, (0, now))
        # The clock of a machine may be set back; that gives nothing back, and takes nothing.
        return max(0, missing - max(0, now - since) * self._back_per_ms)

    def _make_room(self, now: int) -> None:
        # A full bucket is like none. If too few are full, the oldest go: a flood of addresses
        # may win itself full buckets so, but no more memory.
        for caller in list(self._missing):
            if self._missing_at(caller, now) == 0:
                del self._missing[caller]
        too_many = max(0, len(self._missing) - self._max_buckets * 9 // 10)
        for caller in list(self._missing)[:too_many]:
            del self._missing[caller]

    def __len__(self) -> int:
        return len(self._missing)
