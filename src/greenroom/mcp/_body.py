"""Reading a request's body: within its limits, as JSON that is not nested too deep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import orjson

from greenroom.mcp._wire import INVALID_REQUEST, PARSE_ERROR, WireError
from greenroom.nesting import MAX_DEPTH, is_too_deep

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class BodyTooLargeError(Exception):
    """The body is over the limit."""


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """The whole body.

    Raises:
        BodyTooLargeError: It is, or says it is, over the limit; the rest was not read.
        ClientGoneError: There is nobody to answer.
    """
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLargeError
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGoneError
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        return await _read_on(receive, body, limit)
    if len(body) > limit:
        raise BodyTooLargeError
    return body


async def _read_on(receive: Receive, first: bytes, limit: int) -> bytes:
    parts = [first]
    size = len(first)
    more = True
    while more:
        if size > limit:
            raise BodyTooLargeError
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    if size > limit:
        raise BodyTooLargeError
    return b"".join(parts)


def parse(body: bytes) -> Any:
    """The body as JSON.

    Raises:
        WireError: It is not JSON in UTF-8, or nested deeper than `MAX_DEPTH`.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise WireError(PARSE_ERROR, f"The body is not JSON: {error}") from None
    # Only a body with that many brackets can be nested that deep, and few have.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and is_too_deep(value):
        raise WireError(INVALID_REQUEST, f"The body is nested deeper than {MAX_DEPTH} levels")
    return value
