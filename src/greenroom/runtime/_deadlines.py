"""Ends the waiting of calls whose deadline has passed, at next to no cost for those in time.

A timer of the event loop for each call would cost as much as delivering it. Calls nearly
always wait equally long, so those of one duration stand in the order of their deadlines: one
queue for each duration, looked at a few times a second.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from greenroom.errors import CallTimeoutError

if TYPE_CHECKING:
    import asyncio

    from greenroom.runtime._calls import CallRequest

TICK_SECONDS = 0.02
"""How late a caller may learn that its deadline has passed."""


class Deadlines:
    """Watches calls that wait. `watch` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[float, deque[CallRequest]] = {}
        self._ticking = False

    def watch(self, request: CallRequest) -> None:
        """Answer a call with a timeout, if it is not answered by its deadline."""
        timeout = request.timeout or 0.0
        queue = self._waiting.get(timeout)
        if queue is None:
            queue = self._waiting[timeout] = deque()
        queue.append(request)
        # What was answered in time leaves as newer calls come, so that nothing piles up.
        _drop_answered(queue)
        if not self._ticking:
            self._ticking = True
            self._loop.call_soon_threadsafe(self._tick)

    def _tick(self) -> None:
        now = monotonic()
        for timeout, queue in tuple(self._waiting.items()):
            _drop_answered(queue)
            while queue and queue[0].deadline <= now:
                request = queue.popleft()
                if request.reply_to is not None:
                    request.reply_to.fail(timed_out(request))
            if not queue:
                # A duration that nobody uses any more must not stay for ever.
                self._waiting.pop(timeout, None)
        if self._waiting:
            self._loop.call_later(TICK_SECONDS, self._tick)
        else:
            self._ticking = False


def _drop_answered(queue: deque[CallRequest]) -> None:
    for _ in range(2):
        if not queue or queue[0].reply_to is None or not queue[0].reply_to.done():
            return
        queue.popleft()


def timed_out(request: CallRequest) -> CallTimeoutError:
    """What a caller is told whose deadline has passed."""
    return CallTimeoutError(request.ref, request.handler.name, seconds=request.timeout or 0.0)
