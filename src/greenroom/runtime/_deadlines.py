"""Ends the waiting of calls whose deadline has passed, at next to no cost for those in time.

A timer of the event loop for each call would cost as much as delivering it. Calls nearly
always wait equally long, so those of one duration stand in the order of their deadlines: one
queue for each duration, looked at a few times a second.
"""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from greenroom.errors import CallTimeoutError
from greenroom.runtime._future import ReplyFuture

if TYPE_CHECKING:
    import asyncio

    from greenroom.runtime._calls import Answer, CallRequest

TICK_SECONDS = 0.02
"""How late a caller may learn that its deadline has passed."""


class Deadlines:
    """Watches calls that wait. `watch` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, deque[CallRequest]] = {}
        self._lock = threading.Lock()
        self._ticking = False

    def watch(self, request: CallRequest) -> None:
        """Answer a call with a timeout, if it is not answered by its deadline."""
        # Durations that were computed differ in every digit; a few hundredths are one queue.
        duration = int((request.timeout or 0.0) / TICK_SECONDS)
        with self._lock:
            queue = self._waiting.get(duration)
            if queue is None:
                queue = self._waiting[duration] = deque()
            queue.append(request)
            # What was answered in time leaves as newer calls come, so that nothing piles up.
            _drop_answered(queue, 2)
            if self._ticking:
                return
            self._ticking = True
        self._loop.call_soon_threadsafe(self._tick)

    def _tick(self) -> None:
        with self._lock:
            late = self._take_late(monotonic())
            again = self._ticking = bool(self._waiting)
        for request in late:
            if request.reply_to is not None:
                request.reply_to.fail(timed_out(request))
        if again:
            self._loop.call_later(TICK_SECONDS, self._tick)

    def _take_late(self, now: float) -> list[CallRequest]:
        late = []
        for duration, queue in tuple(self._waiting.items()):
            while queue and queue[0].deadline <= now:
                late.append(queue.popleft())
            _drop_answered(queue, len(queue))
            if not queue:
                # A duration that nobody uses any more must not stay for ever.
                del self._waiting[duration]
        return late


def _drop_answered(queue: deque[CallRequest], most: int) -> None:
    for _ in range(most):
        if not queue or queue[0].reply_to is None or not queue[0].reply_to.done():
            return
        queue.popleft()


def timed_out(request: CallRequest, *, carried_out: bool = False) -> CallTimeoutError:
    """What a caller is told whose deadline has passed."""
    return CallTimeoutError(
        request.ref,
        request.handler.name,
        seconds=request.timeout or 0.0,
        carried_out=carried_out,
    )


def refuse_late(request: CallRequest, future: ReplyFuture[Answer]) -> ReplyFuture[Answer]:
    """The answer of a handler that ran on its caller's thread, or a timeout if it came too late.

    Nobody could end the wait meanwhile, so it is looked at afterwards. An error stays: it says
    better than a timeout what became of the command.
    """
    if monotonic() <= request.deadline or future.failed():
        return future
    late: ReplyFuture[Answer] = ReplyFuture()
    late.fail(timed_out(request, carried_out=True))
    return late
