"""What a request may say before its answer: a queue that threads and coroutines put into."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

MAX_WAITING: Final = 1000
"""Messages that may wait to be sent; what comes beyond is left out, as a client that does not
read must not fill the memory."""


class Outlet(Protocol):
    """Where the messages of one request go before its answer."""

    gone: bool
    """Nobody listens any more."""

    def put(self, message: bytes) -> None:
        """Send a message, soon; never waits. May be called from any thread."""
        ...


class QueuedOutlet:
    """Keeps messages until the transport takes them; made on the event loop that does."""

    def __init__(self) -> None:
        self.gone = False
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes] = deque()
        self._woken = asyncio.Event()

    def put(self, message: bytes) -> None:
        """Send a message, soon."""
        if self.gone or len(self._waiting) >= MAX_WAITING:
            return
        self._waiting.append(message)
        self._loop.call_soon_threadsafe(self._woken.set)

    def wake(self, _task: object = None) -> None:
        """Make `wait` return."""
        self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Until there is something to do; false when nothing came in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def take(self) -> list[bytes]:
        """The messages that wait, in their order."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken
