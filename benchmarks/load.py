"""A load generator for MCP over HTTP/1.1: bare sockets, kept alive, every answer looked at."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from benchmarks.pace import Pace

MODERN, LEGACY = "2026-07-28", "2025-11-25"

Requests = Iterator[bytes]


def tool_calls(
    tool: str, arguments: Callable[[int], dict[str, Any]], *, version: str, keyed: bool
) -> Requests:
    """Requests without end; with `keyed`, each under an idempotency key of its own."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    }
    modern = version == MODERN
    for number in itertools.count(1):
        params = {"name": tool, "arguments": arguments(number)}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        if modern:
            params["_meta"] = meta
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
            lines += ["Mcp-Method: tools/call", f"Mcp-Name: {tool}"]
        if keyed:
            lines.append(f"Idempotency-Key: key-{number}")
        yield "\r\n".join([*lines, "", ""]).encode() + body


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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(b"\r\n\r\n")
        if end < 0 or len(received) < end + 4 + _length(received, end):
            return
        self._received = b""
        if not received.startswith(b"HTTP/1.1 200") or not self._succeeded(received, end):
            self._end(RuntimeError(received.decode("utf-8", "replace")))
        elif self._pace.done():
            self._end(None)
        else:
            self.send()

    def _succeeded(self, received: bytes, end: int) -> bool:
        return (
            received.find(b'"result"', end) > 0
            and received.find(b'"isError":true', end) < 0
            and received.find(self._expected, end) > 0
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or RuntimeError("the server closed the connection"))

    def _end(self, error: Exception | None) -> None:
        if not self.finished.done():
            if error is None:
                self.finished.set_result(None)
            else:
                self.finished.set_exception(error)
        self._transport.close()


def _length(received: bytes, end: int) -> int:
    head = received[:end].lower()
    at = head.index(b"content-length:") + len(b"content-length:")
    stop = head.find(b"\r\n", at)
    return int(head[at : stop if stop > 0 else end])
