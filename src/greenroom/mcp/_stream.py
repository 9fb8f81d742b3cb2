"""An answer over HTTP: as JSON, or as a stream of events once something comes before it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from greenroom.mcp._outlet import QueuedOutlet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping

    from greenroom.mcp._body import Receive
    from greenroom.mcp._outlet import Outlet

    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Work = Callable[[Outlet | None], Awaitable[tuple[int, bytes]]]

KEEP_ALIVE_SECONDS: Final = 15.0
"""Proxies close connections on which nothing is said; a comment is sent as often."""

_JSON: Final = (b"content-type", b"application/json")
_EVENTS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    # Or nginx would keep the events to itself until the end.
    (b"x-accel-buffering", b"no"),
]
_COMMENT: Final = b": still here\n\n"


async def send_whole(
    send: Send, status: int, body: bytes, extra: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """An answer in one piece."""
    headers = [(b"content-length", b"%d" % len(body)), *extra]
    if body:
        headers.append(_JSON)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def converse(
    work: Work, receive: Receive, send: Send, *, accepts_events: bool, leaving_cancels: bool
) -> tuple[int, bytes] | None:
    """Carry out a request that may say something before its answer, and watch the client.

    Args:
        work: Makes the answer; takes the place where it may say something.
        receive: Tells when the client leaves.
        send: Takes the stream.
        accepts_events: Whether the client takes a stream; it gets the answer alone otherwise.
        leaving_cancels: Whether the work ends when the client leaves.

    Returns:
        The answer, still to be sent as JSON; None when it went out as a stream, or nobody is
        there to get it.
    """
    outlet = QueuedOutlet()
    answer = asyncio.ensure_future(work(outlet if accepts_events else None))
    leaving = asyncio.ensure_future(_left(receive))
    answer.add_done_callback(outlet.wake)
    leaving.add_done_callback(outlet.wake)
    stream = _Stream(send)
    try:
        while not answer.done() and not leaving.done():
            if await outlet.wait(KEEP_ALIVE_SECONDS):
                await stream.events(outlet.take())
            else:
                await stream.comment()
        outlet.gone = not answer.done()
        if outlet.gone and leaving_cancels:
            answer.cancel()
        return await _ended(answer, outlet, stream)
    finally:
        leaving.cancel()
        answer.cancel()


async def _ended(
    answer: asyncio.Future[tuple[int, bytes]], outlet: QueuedOutlet, stream: _Stream
) -> tuple[int, bytes] | None:
    try:
        status, body = await answer
    except asyncio.CancelledError:
        if not answer.cancelled():
            raise  # not the work was cancelled, but who waits for it
        return None
    if outlet.gone:
        return None
    await stream.events(outlet.take())
    if not stream.begun:
        return status, body
    await stream.end(body)
    return None


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Stream:
    """Events of one response; begins with the first of them."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def events(self, messages: list[bytes]) -> None:
        if not messages:
            return
        if not self.begun:
            self.begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        body = b"".join(map(_event, messages))
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def comment(self) -> None:
        """Keep the connection open; only of a stream, since JSON has no comments."""
        if self.begun:
            await self._send({"type": "http.response.body", "body": _COMMENT, "more_body": True})

    async def end(self, message: bytes) -> None:
        await self._send({"type": "http.response.body", "body": _event(message)})


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: %b\n\n" % message
