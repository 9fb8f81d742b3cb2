"""What every timed run has in common: garbage out of the way, a warm-up, a clock, a count."""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass, field

WARM_UP = 0.5
TEXT = "x" * 170
"""With its JSON around it, an event of about 200 bytes."""
SWITCH_INTERVAL = 0.0005
"""As `greenroom run` sets it."""


def settle(*, switch_interval: float | None = None) -> None:
    """As a server does after its start: take what lives out of the collector's sight."""
    if switch_interval is not None:
        sys.setswitchinterval(switch_interval)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@dataclass(slots=True)
class Pace:
    """Counts what was done between the end of the warm-up and the end of the run."""

    seconds: float
    warm_up: float = WARM_UP
    total: int = 0
    """Everything that was done, the warm-up included."""
    latencies: list[float] = field(default_factory=list)
    """Seconds that each counted call took, where that is known."""
    _counted: int = 0
    _began: float = field(default_factory=time.perf_counter)
    _cpu_at: float = 0.0
    _start: float = 0.0
    _end: float = 0.0

    def start(self) -> None:
        """The warm-up begins now."""
        self._began = time.perf_counter()
        self._start = self._began + self.warm_up
        self._end = self._start + self.seconds

    def done(self, count: int = 1, *, since: float | None = None) -> bool:
        """Count, and say whether the time is up; `since` is when a call was sent."""
        now = time.perf_counter()
        self.total += count
        if now < self._start:
            self._cpu_at = 0.0
            return False
        if self._cpu_at == 0.0:
            self._cpu_at = time.process_time()
        if now < self._end:
            self._counted += count
            if since is not None:
                self.latencies.append(now - since)
            return False
        return True

    def counts(self) -> bool:
        """Whether the warm-up is over, and the time is not up."""
        return self._start <= time.perf_counter() < self._end

    def figures(self) -> dict[str, float]:
        """Rate per second, and processor time of this process for one."""
        used = time.process_time() - self._cpu_at
        found = {
            "value": self._counted / self.seconds,
            "cpu_us": used / max(1, self._counted) * 1e6,
        }
        if self.latencies:
            ordered = sorted(self.latencies)
            found["p50_us"] = ordered[len(ordered) // 2] * 1e6
            found["p99_us"] = ordered[len(ordered) * 99 // 100] * 1e6
        return found


@dataclass(slots=True)
class Latencies:
    """How long things took that ended while they were counted."""

    _seconds: list[float] = field(default_factory=list)

    def add(self, pace: Pace, seconds: float) -> None:
        """One more, unless the warm-up is not over."""
        if pace.counts():
            self._seconds.append(seconds)

    def figures(self) -> dict[str, float]:
        """Median and 99th percentile, in milliseconds."""
        ordered = sorted(self._seconds) or [0.0]
        return {
            f"p{percent}_ms": ordered[min(len(ordered) * percent // 100, len(ordered) - 1)] * 1000
            for percent in (50, 99)
        }
