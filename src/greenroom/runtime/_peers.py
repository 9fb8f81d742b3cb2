"""Calls between processes that share one PostgreSQL: to whoever owns the instance.

Frames of JSON with a length in front, over one connection per peer, many calls at a time.
A peer proves with its first frame that it knows the secret kept in the database. Nothing of
pykka and no pickle crosses a process: errors travel as their class's name and their parts, and
only classes that this process already knows are rebuilt.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson

from greenroom.components import Metadata
from greenroom.errors import (
    CallError,
    CommandError,
    EntityUnavailableError,
    GreenroomError,
    InternalError,
    NotOwnerError,
    UnknownComponentError,
)
from greenroom.ids import EntityRef
from greenroom.runtime._calls import Answer, CallRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from greenroom.components import ComponentDefinition

_log = logging.getLogger("greenroom.runtime")

MAX_FRAME = 64 * 1024**2
CONNECT_SECONDS = 2.0
_GRACE = 1.0
"""Seconds a caller waits past the deadline for the peer's own word that it passed."""


def encode_error(error: BaseException) -> dict[str, Any]:
    """An error as JSON: its class, its message and those of its parts that are JSON."""
    if not isinstance(error, GreenroomError):
        error = InternalError(f"{type(error).__name__}: {error}")
    kind = type(error)
    return {
        "type": f"{kind.__module__}:{kind.__qualname__}",
        "code": kind.code,
        "command": isinstance(error, CommandError),
        "retryable": kind.retryable,
        "args": [str(part) for part in error.args],
        "parts": {name: part for name, part in vars(error).items() if _is_json(part)},
    }


def decode_error(wire: Mapping[str, Any]) -> GreenroomError:
    """The error again, as its own class where this process knows it."""
    kind = _known_errors().get(wire["type"])
    if kind is None:
        kind = CommandError if wire["command"] else CallError
        if wire["retryable"]:
            kind = EntityUnavailableError
    error = kind.__new__(kind)
    error.args = tuple(wire["args"])
    error.__dict__.update(wire["parts"])
    return error


def _known_errors() -> dict[str, type[GreenroomError]]:
    known: dict[str, type[GreenroomError]] = {}
    waiting: list[type[GreenroomError]] = [GreenroomError]
    while waiting:
        kind = waiting.pop()
        known[f"{kind.__module__}:{kind.__qualname__}"] = kind
        waiting += kind.__subclasses__()
    return known


def _is_json(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


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
    )


async def _send(writer: asyncio.StreamWriter, frame: Mapping[str, Any]) -> None:
    data = orjson.dumps(frame)
    writer.write(len(data).to_bytes(4, "big") + data)
    await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    length = int.from_bytes(await reader.readexactly(4), "big")
    if length > MAX_FRAME:
        raise ConnectionError(f"a frame of {length:,} bytes is over the limit of {MAX_FRAME:,}")
    frame: dict[str, Any] = orjson.loads(await reader.readexactly(length))
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
        self._secret = secret
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> str:
        """Listen; returns the address that peers use."""
        self._server = await asyncio.start_server(self._serve, host, port)
        bound = self._server.sockets[0].getsockname()
        return f"{bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """Finish the calls that are under way, then close."""
        if self._server is not None:
            self._server.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CONNECT_SECONDS)
        for writer in tuple(self._open):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            hello = await asyncio.wait_for(_receive(reader), CONNECT_SECONDS)
            if not hmac.compare_digest(str(hello.get("secret")), self._secret):
                _log.warning("A connection to the peer port did not know the secret; closed")
                return
            while True:
                frame = await _receive(reader)
                task = asyncio.create_task(self._answer(frame, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (OSError, EOFError, TimeoutError, ValueError):
            return
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, frame: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        reply: dict[str, Any]
        try:
            answer = await self._call(decode_request(frame["call"], self._definitions))
            metadata = answer.metadata
            reply = {
                "json": answer.json.decode(),
                "sequence_number": answer.sequence_number,
                "metadata": list(metadata) if metadata else None,
            }
        except Exception as error:
            reply = {"error": encode_error(error)}
        try:
            await _send(writer, {"id": frame["id"], **reply})
        except OSError:
            _log.debug("A peer went away before its answer")


class _Connection:
    """One open connection to a peer, shared by every call to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = count(1)
        self._listener = asyncio.create_task(self._listen(reader))

    def is_open(self) -> bool:
        return not self._listener.done()

    async def ask(self, frame: dict[str, Any], seconds: float) -> dict[str, Any]:
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await _send(self._writer, {"id": number, **frame})
            return await asyncio.wait_for(future, seconds)
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        self._listener.cancel()
        self._writer.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                frame = await _receive(reader)
                future = self._waiting.get(frame["id"])
                if future is not None and not future.done():
                    future.set_result(frame)
        except (OSError, EOFError, ValueError):
            pass
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the peer closed the connection"))
            self._writer.close()


class PeerClients:
    """Calls other processes, over one connection to each."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._connections: dict[str, _Connection] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def call(self, address: str, request: CallRequest) -> Answer:
        """Make a call at a peer.

        Raises:
            EntityUnavailableError: The peer can't be reached; nothing was sent.
            CallTimeoutError: The connection broke or was silent; it may have been carried out.
            GreenroomError: What the peer answered.
        """
        from greenroom.errors import CallTimeoutError

        connection = await self._connect(address)
        left = max(0.0, request.deadline - monotonic()) + _GRACE
        try:
            reply = await connection.ask({"call": encode_request(request)}, left)
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
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _connect(self, address: str) -> _Connection:
        lock = self._locks.setdefault(address, asyncio.Lock())
        async with lock:
            connection = self._connections.get(address)
            if connection is not None and connection.is_open():
                return connection
            host, _, port = address.rpartition(":")
            try:
                reader, writer = await asyncio.wait_for(
                    asyncio.open_connection(host, int(port)), CONNECT_SECONDS
                )
                await _send(writer, {"secret": self._secret})
            except (OSError, TimeoutError) as error:
                raise EntityUnavailableError(f"The peer at {address} can't be reached.") from error
            connection = self._connections[address] = _Connection(reader, writer)
            return connection


__all__ = ["NotOwnerError", "PeerClients", "PeerServer", "decode_error", "encode_error"]
