"""The answer to an ask: blocks a thread on `get()`, suspends a coroutine on `await`.

pykka's own futures block the event loop when they are awaited (pykka's `Future.__await__`
calls `get()`); this one never does. Setting it a second time is ignored: an asker may have
given up, and a held answer may be delivered by two threads that both saw it come due.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import pykka

from greenroom.errors import BlockingCallError

if TYPE_CHECKING:
    from types import TracebackType

    OptExcInfo: TypeAlias = tuple[
        type[BaseException] | None, BaseException | None, TracebackType | None
    ]

T = TypeVar("T")

_UNSET: Any = object()
blocked_threads: dict[int, str] = {}
"""Threads on which a blocking wait is refused, by ident, with the reason.

Event loops that run actors put themselves here for as long as they run; a slice of an actor
puts its thread here while it runs, whatever thread that is.
"""


def refuse_blocking_here() -> None:
    """Raises `BlockingCallError` where a blocking wait would stop others."""
    reason = blocked_threads.get(get_ident())
    if reason is not None:
        raise BlockingCallError(f"A blocking call was made {reason}. {_REMEDY}")
    if asyncio._get_running_loop() is not None:
        raise BlockingCallError(f"A blocking call was made on a running event loop. {_REMEDY}")


_REMEDY = (
    "Use the asynchronous client and await it, or make the call from a thread; "
    "an entity handler computes and returns an effect instead of calling."
)


class ReplyFuture(pykka.Future[T]):
    """A pykka future that both threads and coroutines can wait for."""

    __slots__ = ("_error", "_value", "_waiters")

    def __init__(self) -> None:
        # Not pykka's constructor: it would allocate a sentinel object for each future.
        self._get_hook = None
        self._value: Any = _UNSET
        self._error: BaseException | None = None
        # Appending to a list is atomic under the GIL. Whoever waits appends first and looks for
        # the value then; whoever answers sets the value first and looks for waiters then.
        self._waiters: list[Any] = []

    def done(self) -> bool:
        """Whether there is an answer."""
        return self._value is not _UNSET

    def failed(self) -> bool:
        """Whether the answer is an error."""
        return self._error is not None

    def set(self, value: T | None = None) -> None:
        """Answer; ignored when there is an answer already."""
        if self._value is _UNSET:
            self._value = value
            if self._waiters:
                _wake(self._waiters)

    def fail(self, error: BaseException) -> None:
        """Answer with an error; ignored when there is an answer already."""
        if self._value is _UNSET:
            # The error first: whoever sees a value must see the error that belongs to it.
            self._error = error
            self._value = None
            if self._waiters:
                _wake(self._waiters)

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Pykka's way to answer with an error: the given one, or the one being handled."""
        error = (exc_info or sys.exc_info())[1]
        self.fail(error if error is not None else RuntimeError("set_exception without an error"))

    def set_later(self, value: T, wakeups: Wakeups) -> None:
        """Answer, but leave waking coroutines to one call per loop at the end of a batch."""
        if self._value is _UNSET:
            self._value = value
            if self._waiters:
                wakeups.add(self._waiters)

    def result(self) -> T:
        """The answer that is there: the value, or raises the error."""
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def get(self, *, timeout: float | None = None) -> T:
        """Wait for the answer, blocking this thread.

        Raises:
            BlockingCallError: On a thread where that would stop others.
            pykka.Timeout: No answer within `timeout` seconds.
        """
        if self._get_hook is not None:
            return super().get(timeout=timeout)
        if self._value is _UNSET:
            refuse_blocking_here()
            gate = allocate_lock()
            gate.acquire()
            self._waiters.append(gate)
            wait = -1 if timeout is None else timeout
            answered = self._value is not _UNSET or gate.acquire(timeout=wait)
            if not answered and self._value is _UNSET:
                raise pykka.Timeout(f"{timeout} seconds")
        return self.result()

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Pykka derives futures (`map`, `join`, `stop`) by a hook that runs in the getter."""
        self._get_hook_result = pykka._future._Unset()
        super().set_get_hook(func)

    def __await__(self) -> Generator[Any, Any, T]:
        if self._get_hook is not None:
            # A hook may block, so it has to run on another thread.
            loop = asyncio.get_running_loop()
            return (yield from loop.run_in_executor(None, self.get).__await__())
        if self._value is _UNSET:
            gate = asyncio.get_running_loop().create_future()
            self._waiters.append(gate)
            if self._value is _UNSET:
                yield from gate
        return self.result()


class Wakeups:
    """Collects who has to be woken, so that a batch wakes each event loop once."""

    __slots__ = ("_gates",)

    def __init__(self) -> None:
        self._gates: list[Any] = []

    def add(self, waiters: list[Any]) -> None:
        """Wake these when the batch is done; threads are woken at once."""
        for waiter in waiters:
            if isinstance(waiter, asyncio.Future):
                self._gates.append(waiter)
            else:
                _open(waiter)

    def send(self) -> None:
        """Wake every coroutine that was collected."""
        if self._gates:
            _wake_coroutines(self._gates)
            self._gates = []


def _wake(waiters: list[Any]) -> None:
    gates = []
    for waiter in tuple(waiters):
        if isinstance(waiter, asyncio.Future):
            gates.append(waiter)
        else:
            _open(waiter)
    if gates:
        _wake_coroutines(gates)


def _open(gate: Any) -> None:
    # A waiter that timed out, or was woken by two threads, finds its gate open: harmless.
    with contextlib.suppress(RuntimeError):
        gate.release()


def _wake_coroutines(gates: list[asyncio.Future[None]]) -> None:
    here = asyncio._get_running_loop()
    loops = {gate.get_loop() for gate in gates}
    for loop in loops:
        mine = gates if len(loops) == 1 else [gate for gate in gates if gate.get_loop() is loop]
        if loop is here:
            _resolve(mine)
        else:
            try:
                loop.call_soon_threadsafe(_resolve, mine)
            except RuntimeError:
                # The asker's loop was closed meanwhile; nobody is left to be told.
                continue


def _resolve(gates: Iterable[asyncio.Future[None]]) -> None:
    for gate in gates:
        if not gate.done():
            gate.set_result(None)
