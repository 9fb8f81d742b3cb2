"""The stdio transport: one message a line, in and out, all on one channel."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from greenroom.mcp._body import parse
from greenroom.mcp._methods import agreed_revision
from greenroom.mcp._results import failure
from greenroom.mcp._wire import INVALID_REQUEST, NEWEST_LEGACY, Revision, WireError

if TYPE_CHECKING:
    from greenroom.mcp._endpoint import McpEndpoint

_log = logging.getLogger("greenroom.mcp")

MAX_AT_ONCE: Final = 100
"""Messages that are worked on at the same time; the next is read when one is done."""

_Key = tuple[type[Any], str | int]


class StdioServer:
    """Serves one client over two streams of bytes, until the first of them ends.

    Args:
        endpoint: What is served.
        incoming: Where the client's messages come from.
        outgoing: Where ours go; nothing else may be written there.
        max_line_bytes: The longest message.
        drain_seconds: How long calls that are under way at the end are waited for.
    """

    def __init__(
        self,
        endpoint: McpEndpoint,
        incoming: BinaryIO,
        outgoing: BinaryIO,
        *,
        max_line_bytes: int,
        drain_seconds: float,
    ) -> None:
        self._endpoint = endpoint
        self._incoming = incoming
        self._outgoing = outgoing
        self._max_line_bytes = max_line_bytes
        self._drain_seconds = drain_seconds
        # One thread writes, in the order in which it is told to; a client that does not read
        # stops it and not the event loop.
        self._writer = ThreadPoolExecutor(1, "greenroom-stdio")
        self._agreed: Revision = NEWEST_LEGACY
        self._working: set[asyncio.Task[None]] = set()
        self._by_id: dict[_Key, tuple[asyncio.Task[None], _LineOutlet]] = {}

    async def serve(self) -> None:
        """Answer until the client closes its end; what it has sent by then is answered."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        loop = asyncio.get_running_loop()
        # A daemon: nobody can end a thread that waits for a line.
        threading.Thread(target=self._read, args=(loop, lines), daemon=True).start()
        places = asyncio.Semaphore(MAX_AT_ONCE)
        try:
            while (line := await lines.get()) is not None:
                await places.acquire()
                self._begin(line, places)
            await self._drain()
        finally:
            for task in self._working:
                task.cancel()
            await asyncio.gather(*self._working, return_exceptions=True)
            await asyncio.to_thread(self._writer.shutdown)

    def _read(self, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes | None]) -> None:
        """On a thread: hand over one line after the other, as fast as they are taken."""
        try:
            while line := self._incoming.readline(self._max_line_bytes + 1):
                if len(line) > self._max_line_bytes:
                    self._skip_rest(line)
                    self.write(failure(b"null", _too_long(self._max_line_bytes)))
                elif line.strip():
                    asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
            asyncio.run_coroutine_threadsafe(lines.put(None), loop).result()
        except (OSError, ValueError, RuntimeError):
            # The stream or the loop was closed under it: the server stops anyway.
            _log.debug("stdio ended", exc_info=True)

    def _skip_rest(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._incoming.readline(self._max_line_bytes)

    def _begin(self, line: bytes, places: asyncio.Semaphore) -> None:
        try:
            message = parse(line)
        except WireError as error:
            self.write(failure(b"null", error))
            places.release()
            return
        if type(message) is dict and message.get("method") == "notifications/cancelled":
            self._cancel(message)
            places.release()
            return
        outlet = _LineOutlet(self)
        task = asyncio.ensure_future(self._answer(message, outlet))
        self._working.add(task)
        key = _key_of(message)
        if key is not None:
            self._by_id[key] = (task, outlet)

        def done(_task: asyncio.Task[None]) -> None:
            self._working.discard(task)
            places.release()
            if key is not None and self._by_id.get(key, (None,))[0] is task:
                del self._by_id[key]

        task.add_done_callback(done)

    async def _answer(self, message: Any, outlet: _LineOutlet) -> None:
        dispatcher = self._endpoint.dispatcher
        if type(message) is list:
            _, body = await dispatcher.batch(None, message, agreed=self._agreed)
        else:
            _, body = await dispatcher.message(None, message, outlet, agreed=self._agreed)
            self._agree(message)
        if body:
            self.write(body)

    def _agree(self, message: Any) -> None:
        """Remember what a handshake has agreed on; on this channel it holds for what follows."""
        if type(message) is dict and message.get("method") == "initialize" and "id" in message:
            params = message.get("params")
            if type(params) is dict and type(params.get("protocolVersion")) is str:
                self._agreed = agreed_revision(params)

    def _cancel(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        key = _key_of(params, "requestId")
        found = None if key is None else self._by_id.get(key)
        if found is not None:
            task, outlet = found
            # In this order: not a word more about a call that is cancelled.
            outlet.gone = True
            task.cancel()

    async def _drain(self) -> None:
        self._endpoint.end_streams()
        if self._working:
            await asyncio.wait(self._working, timeout=self._drain_seconds)

    def write(self, message: bytes) -> None:
        """Send one message, soon; may be called from any thread."""
        try:
            self._writer.submit(self._write, message)
        except RuntimeError:
            _log.debug("a message came after the end of stdio")

    def _write(self, message: bytes) -> None:
        try:
            self._outgoing.write(message + b"\n")
            self._outgoing.flush()
        except (OSError, ValueError):
            _log.debug("the client of stdio is gone", exc_info=True)


class _LineOutlet:
    """What a request says before its answer is a line of its own."""

    def __init__(self, server: StdioServer) -> None:
        self._server = server
        self.gone = False

    def put(self, message: bytes) -> None:
        if not self.gone:
            self._server.write(message)


def _key_of(message: Any, name: str = "id") -> _Key | None:
    id_: Any = message.get(name) if type(message) is dict else None
    # 1 and "1" are two ids.
    return (type(id_), id_) if type(id_) in (str, int) else None


def _too_long(limit: int) -> WireError:
    return WireError(INVALID_REQUEST, f"The message is over the limit of {limit:,} bytes")
