"""Notices handlers that hold a thread for long, and logs where they are.

A handler computes and never waits; on an event loop a slow one stops every other instance and
every request. It can't be interrupted, but it can be named.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from time import monotonic

from greenroom.runtime._dispatch import running_slices

_log = logging.getLogger("greenroom.runtime")

HOLD_SECONDS = 0.1
"""A slice that runs longer is reported (a slice ends itself after 5 ms between messages)."""


class Watchdog:
    """Looks at the running slices twenty times a second."""

    def __init__(self, hold_seconds: float = HOLD_SECONDS) -> None:
        self._hold_seconds = hold_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="greenroom-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; a report that is being written is finished."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        reported: dict[int, float] = {}
        while not self._stopped.wait(self._hold_seconds / 2):
            now = monotonic()
            for thread, since in running_slices.copy().items():
                if now - since > self._hold_seconds and reported.get(thread) != since:
                    reported[thread] = since
                    self._report(thread, now - since)

    def _report(self, thread: int, seconds: float) -> None:
        frame = sys._current_frames().get(thread)
        if frame is None:
            return
        stack = "".join(traceback.format_stack(frame))
        _log.warning(
            "A handler has held its thread for %.0f ms; entity handlers compute and never wait "
            "(a long garbage collection looks the same). It is at:\n%s",
            seconds * 1000,
            stack,
        )
