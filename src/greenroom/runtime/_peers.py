"""Calls between processes that share one PostgreSQL: to whoever owns the instance.

Frames of JSON with a length in front, over one connection per peer, many calls at a time.
A peer proves with its first frame that it knows the secret kept in the database. Nothing of
pykka and no pickle crosses a process: errors travel as their class's name and their parts, and
only classes that this process already knows are rebuilt.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson

from greenroom.components import Metadata
from greenroom.errors import (
    CallTimeoutError,
    GreenroomError,
    InvalidCallError,
    NotOwnerError,
    PayloadTooLargeError,
    UnknownComponentError,
)
from greenroom.ids import EntityRef
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._wire_errors import decode_error, encode_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from greenroom.components import ComponentDefinition

_log = logging.getLogger("greenroom.runtime")

MAX_FRAME = 64 * 1024**2
MAX_HELLO = 1024
"""Who has not shown the secret yet may not make this process keep more."""
CONNECT_SECONDS = 2.0
_GRACE = 1.0
"""Seconds a caller waits past the deadline for the peer's own word that it passed."""


def encode_request(request: CallRequest) -> dict[str, Any]:
    """A call as JSON; its deadline travels as the seconds that are left."""
    return {
        "component": request.ref.component,
        "instance": request.ref.instance,
        "handler": request.handler.name,
        "arguments": request.handler.encode_arguments(request.values).decode(),
        "timeout": max(0.0, request.deadline - monotonic()),
        "metadata": list(request.metadata) if request.metadata else None,
        "key": request.idempotency_key,
        "key_expires_at": request.receipt_expires_at,
        "expected": request.expected_version,
        "principal": request.principal,
        "correlation": request.correlation_id,
        "causation": request.causation,
        "traceparent": request.traceparent,
        "chain": [list(ref) for ref in request.chain],
    }


def decode_request(
    wire: Mapping[str, Any], definitions: Mapping[str, ComponentDefinition]
) -> CallRequest:
    """The call again, against this process's definitions."""
    definition = definitions.get(wire["component"])
    if definition is None:
        raise UnknownComponentError(wire["component"], sorted(definitions))
    handler = definition.handler_named(wire["handler"])
    metadata = wire["metadata"]
    return CallRequest(
        EntityRef(wire["component"], wire["instance"]),
        handler,
        handler.decode_arguments(wire["arguments"].encode()),
        timeout=wire["timeout"],
        metadata=Metadata((key, value) for key, value in metadata) if metadata else None,
        idempotency_key=wire["key"],
        receipt_expires_at=wire["key_expires_at"],
        expected_version=wire["expected"],
        principal=wire["principal"],
        correlation_id=wire["correlation"],
        causation=wire["causation"],
        traceparent=wire["traceparent"],
        chain=tuple(EntityRef(*ref) for ref in wire["chain"]),
        as_json=True,
    )


def _framed(what: str, frame: Mapping[str, Any]) -> bytes:
    """A frame as bytes. Refused here, since the other side could only hang up on it."""
    try:
        data = orjson.dumps(frame)
    except TypeError as error:
        raise InvalidCallError(f"{what} can't be sent to another process: {error}.") from error
    if len(data) > MAX_FRAME:
        raise PayloadTooLargeError(
            what, size=len(data), limit=MAX_FRAME, setting="the limit of a frame between processes"
        )
    return len(data).to_bytes(4, "big") + data


async def _receive(reader: asyncio.StreamReader, limit: int) -> dict[str, Any]:
    length = int.from_bytes(await reader.readexactly(4), "big")
    if length > limit:
        raise ConnectionError(f"a frame of {length:,} bytes is over the limit of {limit:,}")
    frame = orjson.loads(await reader.readexactly(length))
    if not isinstance(frame, dict):
        raise ConnectionError("a frame that is no object")
    return frame


class PeerServer:
    """Takes calls from other processes for the instances that this one owns."""

    def __init__(
        self,
        definitions: Mapping[str, ComponentDefinition],
        call: Callable[[CallRequest], Awaitable[Answer]],
        secret: str,
    ) -> None:
        self._definitions = definitions
        self._call = call
        self._secret = secret.encode()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> str:
        """Listen; returns the address that peers use."""
        self._server = await asyncio.start_server(self._serve, host, port)
        bound = self._server.sockets[0].getsockname()
        return f"{bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """Finish the calls that are under way, then close."""
        if self._server is not None:
            self._server.close()
        if self._answering:
            await asyncio.wait(self._answering, timeout=CONNECT_SECONDS)
        serving = [*self._open.values(), *self._answering]
        for writer in self._open:
            # At once: a peer that does not read must not keep this one from stopping.
            writer.transport.abort()
        if serving:
            await asyncio.wait(serving, timeout=CONNECT_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        self._open[writer] = task
        try:
            hello = await asyncio.wait_for(_receive(reader, MAX_HELLO), CONNECT_SECONDS)
            if not self._knows_secret(hello):
                _log.warning("A connection to the peer port did not know the secret; closed")
                return
            while True:
                frame = await _receive(reader, MAX_FRAME)
                answering = asyncio.create_task(self._answer(frame, writer))
                self._answering.add(answering)
                answering.add_done_callback(self._answering.discard)
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            _log.debug("A connection to the peer port ended: %r", error)
        finally:
            del self._open[writer]
            writer.close()

    def _knows_secret(self, hello: dict[str, Any]) -> bool:
        shown = str(hello.get("secret")).encode(errors="replace")
        return hmac.compare_digest(shown, self._secret)

    async def _answer(self, frame: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        number = frame.get("id")
        reply = await self._reply(frame)
        try:
            data = _framed("A reply", {"id": number, **reply})
        except GreenroomError as error:
            data = _framed("An error", {"id": number, "error": encode_error(error)})
        # A peer that went away before its answer has nobody to be told.
        with contextlib.suppress(OSError):
            writer.write(data)
            await writer.drain()

    async def _reply(self, frame: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._call(decode_request(frame["call"], self._definitions))
            metadata = answer.metadata
            return {
                "json": answer.json.decode(),
                "sequence_number": answer.sequence_number,
                "metadata": list(metadata) if metadata else None,
            }
        except Exception as error:
            if not isinstance(error, GreenroomError):
                _log.exception("A call from another process failed in a way it should not")
            return {"error": encode_error(error)}


class _Connection:
    """One open connection to a peer, shared by every call to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        # None answers those whose connection broke.
        self._waiting: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        self._numbers = count(1)
        self._listener = asyncio.create_task(self._listen(reader))

    def is_open(self) -> bool:
        return not self._writer.is_closing()

    async def ask(self, what: str, frame: dict[str, Any], seconds: float) -> dict[str, Any]:
        number = next(self._numbers)
        data = _framed(what, {"id": number, **frame})
        if not self.is_open():
            raise NotOwnerError("The peer closed the connection; nothing was sent.")
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            # Sending waits too, for a peer that does not read.
            async with asyncio.timeout(seconds):
                self._writer.write(data)
                await self._writer.drain()
                reply: dict[str, Any] | None = await future
        finally:
            del self._waiting[number]
        if reply is None:
            raise ConnectionError("the peer closed the connection")
        return reply

    async def close(self) -> None:
        self._writer.transport.abort()
        await asyncio.wait([self._listener], timeout=CONNECT_SECONDS)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                frame = await _receive(reader, MAX_FRAME)
                future = self._waiting.get(frame.get("id", 0))
                if future is not None and not future.done():
                    future.set_result(frame)
        except (OSError, EOFError, ValueError) as error:
            _log.debug("A connection to a peer ended: %r", error)
        finally:
            self._writer.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_result(None)


class PeerClients:
    """Calls other processes, over one connection to each. Belongs to one event loop."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._connections: dict[str, _Connection] = {}
        self._attempts: dict[str, asyncio.Task[_Connection | None]] = {}
        self._stopped = False

    async def call(self, address: str, request: CallRequest) -> Answer:
        """Make a call at a peer.

        Raises:
            NotOwnerError: The peer can't be reached, or is not the owner; nothing was done.
            CallTimeoutError: The connection broke or was silent; it may have been carried out.
            GreenroomError: What the peer answered.
        """
        connection = await self._connect(address, request.deadline - monotonic())
        left = max(0.0, request.deadline - monotonic()) + _GRACE
        try:
            reply = await connection.ask(
                f"The call of {request.target}", {"call": encode_request(request)}, left
            )
        except (OSError, TimeoutError) as error:
            raise CallTimeoutError(
                request.ref, request.handler.name, seconds=request.timeout or 0.0
            ) from error
        if "error" in reply:
            raise decode_error(reply["error"])
        answer = Answer.stored(request.handler, reply["json"].encode(), reply["sequence_number"])
        if reply["metadata"]:
            answer.metadata = Metadata((key, value) for key, value in reply["metadata"])
        return answer

    async def stop(self) -> None:
        """Close every connection."""
        self._stopped = True
        attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _connect(self, address: str, seconds: float) -> _Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open():
            connection = await self._connect_anew(address, seconds)
        if connection is None:
            raise NotOwnerError(f"The peer at {address} can't be reached.")
        return connection

    async def _connect_anew(self, address: str, seconds: float) -> _Connection | None:
        if self._stopped:
            return None
        # One attempt for all who wait: in a queue, the last would wait for everybody's.
        attempt = self._attempts.get(address)
        if attempt is None:
            attempt = self._attempts[address] = asyncio.create_task(self._open(address))
            attempt.add_done_callback(lambda _: self._attempts.pop(address, None))
        done, _ = await asyncio.wait([attempt], timeout=max(0.0, seconds))
        return None if not done or attempt.cancelled() else attempt.result()

    async def _open(self, address: str) -> _Connection | None:
        host, _, port = address.rpartition(":")
        hello = _framed("A greeting", {"secret": self._secret})
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(host, int(port))
        except (OSError, TimeoutError):
            return None
        writer.write(hello)
        # Peers that are gone had addresses of their own, which nobody will ask for again.
        self._connections = {name: one for name, one in self._connections.items() if one.is_open()}
        connection = self._connections[address] = _Connection(reader, writer)
        return connection
