"""Where slices of actors run: on an event loop, or on shared worker threads.

A slice is a call without arguments that works off some messages of one actor. Both
dispatchers keep the same contract (tests/unit/runtime/test_dispatch.py): each slice that was
scheduled runs once, slices of different actors may run at the same time, nothing that a
slice raises ends the dispatcher.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from _thread import get_ident
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Protocol, TypeVar

from greenroom.runtime._future import blocked_threads

_log = logging.getLogger("greenroom.runtime")

T = TypeVar("T")

Slice = Callable[[], None]

running_slices: dict[int, float] = {}
"""Since when a slice has been running on a thread, by the thread's ident."""


class Dispatcher(Protocol):
    """Runs slices, somewhere other than in the caller's frame."""

    def schedule(self, run: Slice) -> None:
        """Run the slice soon. May be called from any thread."""
        ...

    def run_soon(self, run: Callable[[T], None], first: T) -> None:
        """Run the slice soon, or here and now where that stops nobody: in a loop's own turn."""
        ...

    def at_end_of_turn(self, run: Slice) -> None:
        """Run something, once, after the slices that are about to run on this thread."""
        ...

    def blocking_allowed(self) -> bool:
        """Whether the thread that asks may wait for the disk."""
        ...

    def stop(self) -> None:
        """Finish what was scheduled, then take nothing more."""
        ...


class LoopDispatcher:
    """Runs slices on an event loop, between its other callbacks; no thread is held."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = 0
        self._at_end: set[Slice] = set()

    def attach(self) -> None:
        """Called on the loop's own thread, once it runs."""
        self._thread = get_ident()

    def schedule(self, run: Slice) -> None:
        """Run the slice in one of the loop's next turns."""
        if get_ident() == self._thread:
            self._loop.call_soon(_fenced, run)
        else:
            self._loop.call_soon_threadsafe(_fenced, run)

    def run_soon(self, run: Callable[[T], None], first: T) -> None:
        """On the loop's own thread the slice runs at once, which saves a turn of the loop."""
        thread = get_ident()
        if thread == self._thread and thread not in running_slices:
            run(first)
        else:
            self.schedule(partial(run, first))

    def at_end_of_turn(self, run: Slice) -> None:
        """After what the loop has in hand. From another thread: at once."""
        if get_ident() != self._thread:
            run()
        elif run not in self._at_end:
            self._at_end.add(run)
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        ending, self._at_end = self._at_end, set()
        for run in ending:
            _fenced(run)

    def blocking_allowed(self) -> bool:
        """A thread that lends itself to a slice may wait for the disk; the loop may not."""
        return get_ident() != self._thread

    def stop(self) -> None:
        """The loop belongs to somebody else; there is nothing to end."""


class PoolDispatcher:
    """Runs slices on a few worker threads; for handlers that may block."""

    def __init__(self, workers: int) -> None:
        # Bare queue and threads: ThreadPoolExecutor makes a future per slice, 15-30 % slower.
        self._queue: SimpleQueue[Slice | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"greenroom-worker-{n}", daemon=True)
            for n in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def schedule(self, run: Slice) -> None:
        """Run the slice on the next free worker."""
        self._queue.put(run)

    def run_soon(self, run: Callable[[T], None], first: T) -> None:
        """Run the slice on the next free worker."""
        self._queue.put(partial(run, first))

    def at_end_of_turn(self, run: Slice) -> None:
        """A worker has no turns."""
        run()

    def blocking_allowed(self) -> bool:
        """Workers are there to wait."""
        return True

    def stop(self) -> None:
        """Finish what was scheduled, then end the workers."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self) -> None:
        while True:
            run = self._queue.get()
            if run is None:
                return
            _fenced(run)
            # An idle worker must not keep its last actor alive.
            del run


def _fenced(run: Slice) -> None:
    try:
        run()
    # A worker that ends on a SystemExit would leave its slices to nobody.
    except BaseException:
        _log.exception("A slice of an actor failed; this is a bug in greenroom")


class OwnLoop:
    """An event loop on a thread of its own, for runtimes that are started from a script."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="greenroom-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        blocked_threads[get_ident()] = "on the runtime's event loop"
        while not self._ran_to_its_end():
            pass
        blocked_threads.pop(get_ident(), None)

    def _ran_to_its_end(self) -> bool:
        try:
            self.loop.run_forever()
        except BaseException:
            # asyncio lets the SystemExit of any task end the loop; here others work on it too.
            _log.exception("A task wanted to end the process; the event loop goes on")
            return False
        return True

    def stop(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
