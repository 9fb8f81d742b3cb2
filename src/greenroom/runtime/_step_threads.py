"""Threads for steps that block: as many as are needed, gone when they are not."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("greenroom.runtime")

IDLE_SECONDS = 10.0
"""How long a thread without work stays."""


class StepThreads:
    """Runs each piece of work on a thread of its own, up to a limit; then they wait in line.

    A piece of work that was given up (its step has timed out, but its code can't be stopped)
    is no longer counted, so that code which never returns can't use up the threads of others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._waiting: deque[Work] = deque()
        self._idle = 0
        self._counted = 0
        self._started = 0
        self._stopping = False

    def submit(self, run: Callable[[], None]) -> Work:
        """Run something soon, in the context of the caller."""
        work = Work(run, contextvars.copy_context(), self)
        with self._lock:
            self._waiting.append(work)
            if self._idle >= len(self._waiting):
                self._wake.notify()
            elif self._counted < self._limit:
                self._start()
        return work

    def stop(self) -> None:
        """End the threads that have nothing to do; the others when they have done it."""
        with self._lock:
            self._stopping = True
            self._waiting.clear()
            self._wake.notify_all()

    def _start(self) -> None:
        self._counted += 1
        self._started += 1
        name = f"greenroom-step-{self._started}"
        # Daemons: code that never returns must not keep the process from ending.
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while True:
            work = self._next()
            if work is None:
                return
            try:
                work.context.run(work.run)
            except BaseException:
                _log.exception("A step's thread failed; this is a bug in greenroom")
            with self._lock:
                if work.given_up:
                    # Another thread was let in for this one.
                    return
                work.done = True
            # An idle thread must not keep what it last worked on.
            del work

    def _next(self) -> Work | None:
        with self._lock:
            while not self._waiting:
                if self._stopping:
                    self._counted -= 1
                    return None
                self._idle += 1
                woken = self._wake.wait(IDLE_SECONDS)
                self._idle -= 1
                if not woken and not self._waiting:
                    self._counted -= 1
                    return None
            work = self._waiting.popleft()
            work.started = True
            return work

    def give_up(self, work: Work) -> None:
        """Nobody waits for this any more: forget it, or stop counting its thread."""
        with self._lock:
            if work.done or work.given_up:
                return
            work.given_up = True
            if not work.started:
                # A stop has emptied the line.
                with contextlib.suppress(ValueError):
                    self._waiting.remove(work)
                return
            self._counted -= 1
            if self._waiting and self._counted < self._limit:
                self._start()


class Work:
    """One piece of work, and what has become of it."""

    __slots__ = ("_threads", "context", "done", "given_up", "run", "started")

    def __init__(
        self, run: Callable[[], None], context: contextvars.Context, threads: StepThreads
    ) -> None:
        self.run = run
        self.context = context
        self.started = False
        self.done = False
        self.given_up = False
        self._threads = threads

    def give_up(self) -> None:
        """Nobody waits for this any more."""
        self._threads.give_up(self)
