"""A load generator for MCP over HTTP/1.1: bare sockets, kept alive, every answer looked at."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from benchmarks.pace import Pace

MODERN, LEGACY = "2026-07-28", "2025-11-25"

Requests = Iterator[bytes]

_NUMBER = b"1073741824"
"""Stands for the number of a request in a template; as many digits as any that is used."""
FIRST = 2_000_000_000
DIFFERENT = 400
"""Requests with different arguments."""


def tool_calls(
    tool: str, arguments: Callable[[int], dict[str, Any]], *, version: str, keyed: bool
) -> Requests:
    """Requests without end; with `keyed`, each under an idempotency key of its own.

    Made from a few finished ones, in which only the number differs: the generator must not be
    what is measured.
    """
    templates = [
        _request(tool, arguments(number), version=version, keyed=keyed)
        for number in range(DIFFERENT)
    ]
    for number in itertools.count(FIRST):
        yield templates[number % DIFFERENT].replace(_NUMBER, b"%d" % number)


def listings(*, version: str) -> Requests:
    """`tools/list` without end."""
    template = _message("tools/list", {}, version=version)
    for number in itertools.count(FIRST):
        yield template.replace(_NUMBER, b"%d" % number)


def _request(tool: str, arguments: dict[str, Any], *, version: str, keyed: bool) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return _message("tools/call", params, version=version, name=tool, keyed=keyed)


def _message(
    method: str,
    params: dict[str, Any],
    *,
    version: str,
    name: str | None = None,
    keyed: bool = False,
) -> bytes:
    modern = version == MODERN
    if modern:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
        }
    number = int(_NUMBER)
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    body = json.dumps(message, separators=(",", ":")).encode()
    lines = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {version}",
        f"Content-Length: {len(body)}",
    ]
    if modern:
        lines.append(f"Mcp-Method: {method}")
        if name is not None:
            lines.append(f"Mcp-Name: {name}")
    if keyed:
        lines.append(f"Idempotency-Key: key-{number}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def generate_alone(port: int, requests: Requests, expected: bytes, pace: Pace) -> None:
    """`generate` for one connection, on a blocking socket: a loop would cost as much as a call.

    Raises:
        RuntimeError: An answer was not a success, with that answer.
    """
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pace.start()
        while True:
            sent = time.perf_counter()
            connection.sendall(next(requests))
            received = b""
            while not _is_whole(received):
                data = connection.recv(65536)
                if not data:
                    raise RuntimeError("the server closed the connection")
                received += data
            _check(received, expected)
            if pace.done(since=sent):
                return


async def generate(
    port: int, connections: int, requests: Requests, expected: bytes, pace: Pace
) -> None:
    """Send over so many connections, one request at a time on each, until the time is up.

    Raises:
        RuntimeError: An answer was not a success, with that answer.
    """
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(
            lambda: _Connection(requests, expected, pace), "127.0.0.1", port
        )
        clients.append(client)
    pace.start()
    for client in clients:
        client.send()
    await asyncio.gather(*(client.finished for client in clients))


class _Connection(asyncio.Protocol):
    def __init__(self, requests: Requests, expected: bytes, pace: Pace) -> None:
        self._requests = requests
        self._expected = expected
        self._pace = pace
        self._received = b""
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    _sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        if not _is_whole(received):
            return
        self._received = b""
        try:
            _check(received, self._expected)
        except RuntimeError as error:
            self._end(error)
            return
        if self._pace.done(since=self._sent):
            self._end(None)
        else:
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or RuntimeError("the server closed the connection"))

    def _end(self, error: Exception | None) -> None:
        if not self.finished.done():
            if error is None:
                self.finished.set_result(None)
            else:
                self.finished.set_exception(error)
        self._transport.close()


def _check(received: bytes, expected: bytes) -> None:
    end = received.find(b"\r\n\r\n")
    if (
        received.startswith(b"HTTP/1.1 200")
        and received.find(b'"result"', end) > 0
        and received.find(b'"isError":true', end) < 0
        and received.find(expected, end) > 0
    ):
        return
    raise RuntimeError(received.decode("utf-8", "replace"))


def _is_whole(received: bytes) -> bool:
    end = received.find(b"\r\n\r\n")
    return end > 0 and len(received) >= end + 4 + _length(received, end)


def _length(received: bytes, end: int) -> int:
    head = received[:end].lower()
    at = head.index(b"content-length:") + len(b"content-length:")
    stop = head.find(b"\r\n", at)
    return int(head[at : stop if stop > 0 else end])
