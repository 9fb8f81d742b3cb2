"""What is to happen at a time: a heap of callbacks on the service's own clock.

What comes due is stored with its instance and found by sweeps; alarms only make it punctual
while the instance, or the knowledge of it, is in memory.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from typing import TYPE_CHECKING

from greenroom.clock import SystemClock

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from greenroom.clock import Clock

_log = logging.getLogger("greenroom.runtime")


class Alarm:
    """One callback at one time; can be called off."""

    __slots__ = ("at", "run")

    def __init__(self, at: int, run: Callable[[], None] | None) -> None:
        self.at = at
        self.run = run

    def call_off(self) -> None:
        """It will not be run."""
        self.run = None


class Alarms:
    """Runs callbacks at their times, on the runtime's event loop.

    With a clock that is moved by hand, `ring` has to be called after each move.
    """

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._by_itself = isinstance(clock, SystemClock)
        self._heap: list[tuple[int, int, Alarm]] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._stopped = False

    def set(self, at: int, run: Callable[[], None]) -> Alarm:
        """Run something at a time, or soon after; call from any thread.

        Args:
            at: Milliseconds since 1970, on the service's clock.
            run: Must be quick: it runs on the event loop.
        """
        alarm = Alarm(at, run)
        # heappush is one operation of C, so other threads find the heap in order.
        heapq.heappush(self._heap, (at, next(self._numbers), alarm))
        if self._by_itself and self._heap[0][2] is alarm and not self._stopped:
            self._loop.call_soon_threadsafe(self._wind)
        return alarm

    def ring(self) -> None:
        """Run what has come due. On the event loop."""
        now = self._clock.now_ms()
        while self._heap and self._heap[0][0] <= now:
            run = heapq.heappop(self._heap)[2].run
            if run is None:
                continue
            try:
                run()
            except Exception:
                _log.exception("An alarm failed; this is a bug in greenroom")
        if self._by_itself:
            self._wind()

    def next_at(self) -> int | None:
        """When the first alarm is due. On the event loop."""
        while self._heap and self._heap[0][2].run is None:
            popped = heapq.heappop(self._heap)
            if popped[2].run is not None:
                # Another thread has set an earlier one since the look at the first.
                heapq.heappush(self._heap, popped)
        return self._heap[0][0] if self._heap else None

    def stop(self) -> None:
        """Nothing is run any more. On the event loop."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wind(self) -> None:
        """Set the loop's timer to the first alarm."""
        at = self.next_at()
        if self._stopped or at is None:
            return
        if self._timer is not None:
            if self._timer_at <= at and self._timer.when() > self._loop.time():
                return
            self._timer.cancel()
        self._timer_at = at
        delay = max(0, at - self._clock.now_ms()) / 1000
        self._timer = self._loop.call_later(delay, self.ring)
