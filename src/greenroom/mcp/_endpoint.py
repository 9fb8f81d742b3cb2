"""The endpoint: one POST in, one answer out.

A bare ASGI application, to be hung into a router as a plain route: FastAPI's path operations
cost as much as the whole protocol work here (decision: docs/decisions). Nothing is kept between
requests, so it needs no start-up and any number of workers may serve it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from greenroom.components import current_request
from greenroom.edge import Refusal, RefusedError, asking, request_context
from greenroom.logs import correlation_id, new_correlation_id
from greenroom.mcp._body import BodyTooLargeError, ClientGoneError, parse, read_body
from greenroom.mcp._envelope import (
    check_shape,
    is_modern,
    refuse_doubled_headers,
    revision_in_body,
    revision_of,
    revision_of_notification,
)
from greenroom.mcp._mcp_request import McpRequest
from greenroom.mcp._methods import Methods
from greenroom.mcp._results import dump, failure, response
from greenroom.mcp._stream import converse, send_whole
from greenroom.mcp._wire import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNNAMED,
    Revision,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping

    from greenroom.components import McpEndpointDefinition
    from greenroom.edge import Guard, HostCheck, MethodRunner, ToolCaller
    from greenroom.mcp._body import Receive
    from greenroom.mcp._outlet import Outlet
    from greenroom.mcp._state import StateSeal

    Scope = MutableMapping[str, Any]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger("greenroom.mcp")

MAX_BATCH: Final = 100
"""Messages in a body, in the one revision that has batches."""

_NO_ID: Final = b"null"


class McpEndpoint:
    """An ASGI application that speaks MCP over stateless Streamable HTTP."""

    def __init__(
        self,
        definition: McpEndpointDefinition,
        caller: ToolCaller,
        hosts: HostCheck,
        *,
        max_body_bytes: int,
        runner: MethodRunner | None = None,
        seal: StateSeal | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.path = definition.path
        self._hosts = hosts
        self._guard = guard
        self._max_body_bytes = max_body_bytes
        self.methods = Methods(definition, caller, runner, seal, guard)
        self.dispatcher = Dispatcher(self.methods)

    def end_streams(self) -> None:
        """End what clients listen to, so that a server can stop; called on the event loop."""
        self.methods.changes.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        extra: tuple[tuple[bytes, bytes], ...] = ()
        # Who asks is known for this request alone, also where one task answers many.
        before = None if self._guard is None else current_request.set(None)
        try:
            answer = await self._answer(scope, receive, send)
            if answer is None:
                return  # as a stream, which is at its end
            status, body = answer
        except RefusedError as error:
            refusal = error.refusal
            status, body, extra = refusal.status, _refused(refusal.text), refusal.headers
            if self._guard is not None:
                extra = self._guard.headers(refusal, scope)
        except ClientGoneError:
            return
        finally:
            if before is not None:
                current_request.reset(before)
        await send_whole(send, status, body, extra)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> tuple[int, bytes] | None:
        pairs = scope["headers"]
        headers = dict(pairs)
        self._check_caller(pairs)
        if self._guard is not None:
            current_request.set(request_context(scope, await self._guard.admit(scope)))
        _check_http(scope["method"], headers)
        body = await self._read(receive, headers)
        try:
            if len(headers) != len(pairs):
                refuse_doubled_headers(pairs)
            message = parse(body)
        except WireError as error:
            return 400, failure(_NO_ID, error)
        if type(message) is list:
            if self._guard is not None:
                self._guard.spend(asking(), scope, len(message) - 1)
            return await self.dispatcher.batch(headers, message)
        if type(message) is dict and self.methods.may_talk(message):
            return await converse(
                partial(self.dispatcher.message, headers, message),
                receive,
                send,
                accepts_events=_accepts_events(headers.get(b"accept")),
                leaving_cancels=is_modern(headers),
            )
        return await self.dispatcher.message(headers, message)

    def _check_caller(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        refusal = self._hosts.refusal_of(headers)
        if refusal is not None:
            raise RefusedError(refusal)

    async def _read(self, receive: Receive, headers: Mapping[bytes, bytes]) -> bytes:
        try:
            return await read_body(receive, headers, self._max_body_bytes)
        except BodyTooLargeError:
            text = f"The body is over the limit of {self._max_body_bytes:,} bytes"
            # What is left of the body is not read, so the connection is of no more use.
            close = ((b"connection", b"close"),)
            raise RefusedError(Refusal(413, "too-large", text, headers=close)) from None


class Dispatcher:
    """From a parsed body to a status and the bytes of the answer."""

    def __init__(self, methods: Methods) -> None:
        self._methods = methods

    async def message(
        self,
        headers: Mapping[bytes, bytes] | None,
        message: Any,
        outlet: Outlet | None = None,
        *,
        alone: bool = True,
        agreed: Revision = UNNAMED,
    ) -> tuple[int, bytes]:
        """Answer one message; 202 and no body where none is due.

        Args:
            headers: Of the HTTP request; None where the transport has none.
            message: The parsed message.
            outlet: Where something may be said before the answer.
            alone: Whether it is not part of a batch.
            agreed: The revision of a handshake, where there are no headers to say it.
        """
        id_ = _NO_ID
        revision = None
        try:
            if type(message) is dict:
                id_ = _id_of(message)
                if "id" not in message or "method" not in message:
                    return _acknowledge(headers, message)
            check_shape(message)
            if headers is None:
                revision = revision_in_body(message, agreed)
            else:
                revision = revision_of(headers, message)
            name = message["method"]
            method = self._method(revision, name)
            params = message.get("params", {})
            request = McpRequest(revision, name, params, headers, message["id"], alone, outlet)
            result = await method(request)
        except WireError as error:
            # Until its revision is known, what is wrong with a message is its form.
            status = 400 if revision is None else revision.statuses.get(error.code, 200)
            return status, failure(id_, error)
        except RefusedError as error:
            if alone and headers is not None:
                raise
            # One of many can't have a status of its own, and without HTTP there is none.
            return 200, failure(id_, WireError(INVALID_REQUEST, error.refusal.text))
        except Exception:
            return 500, failure(id_, _unexpected())
        return 200, response(id_, result)

    def _method(self, revision: Revision, name: str) -> Callable[[McpRequest], Awaitable[bytes]]:
        found = revision.methods.get(name)
        if found is None or not self._methods.offers(name):
            raise WireError(METHOD_NOT_FOUND, f"Method not found: {name}")
        method: Callable[[McpRequest], Awaitable[bytes]] = attrgetter(found)(self._methods)
        return method

    async def batch(
        self,
        headers: Mapping[bytes, bytes] | None,
        messages: list[Any],
        *,
        agreed: Revision = UNNAMED,
    ) -> tuple[int, bytes]:
        """Answer a body of several messages, where the revision has such."""
        try:
            _check_batch(agreed if headers is None else revision_of_notification(headers), messages)
        except WireError as error:
            return 400, failure(_NO_ID, error)
        answers = await asyncio.gather(
            *(self.message(headers, one, alone=False, agreed=agreed) for one in messages)
        )
        bodies = [body for _, body in answers if body]
        return (200, b"[" + b",".join(bodies) + b"]") if bodies else (202, b"")


def _check_http(method: str, headers: Mapping[bytes, bytes]) -> None:
    if method != "POST":
        # No session to delete and no stream to open, in either era.
        allow = ((b"allow", b"POST"),)
        raise RefusedError(Refusal(405, "not-post", "Send a POST", headers=allow))
    if not _is_json(headers.get(b"content-type")):
        text = "The content type must be application/json"
        raise RefusedError(Refusal(415, "not-json", text))
    if not _accepts_json(headers.get(b"accept")):
        text = "Accept application/json, and text/event-stream for progress"
        raise RefusedError(Refusal(406, "no-json-accepted", text))


def _check_batch(revision: Revision, messages: list[Any]) -> None:
    if not revision.batches:
        raise WireError(INVALID_REQUEST, f"{revision.version} has one message in a body")
    if not 0 < len(messages) <= MAX_BATCH:
        raise WireError(INVALID_REQUEST, f"A batch must have 1 to {MAX_BATCH} messages")
    if any(type(one) is dict and one.get("method") == "initialize" for one in messages):
        raise WireError(INVALID_REQUEST, "initialize must not be part of a batch")


def _acknowledge(
    headers: Mapping[bytes, bytes] | None, message: dict[str, Any]
) -> tuple[int, bytes]:
    """What needs no answer: a notification, or a response to a request we never sent."""
    revision = UNNAMED if headers is None else revision_of_notification(headers)
    if "method" in message:
        check_shape(message)
    elif revision.modern or not ("result" in message or "error" in message):
        raise WireError(INVALID_REQUEST, "A message must be a request or a notification")
    return 202, b""


def _accepts_events(accept: bytes | None) -> bool:
    """Whether messages may be sent before the answer."""
    return accept is not None and (b"text/event-stream" in accept or b"*/*" in accept)


def _id_of(message: dict[str, Any]) -> bytes:
    id_ = message.get("id")
    return dump(id_) if type(id_) in (str, int) else _NO_ID


def _refused(text: str) -> bytes:
    return failure(_NO_ID, WireError(INVALID_REQUEST, text))


def _unexpected() -> WireError:
    reference = correlation_id.get() or new_correlation_id()
    _log.exception("MCP request failed", extra={"correlation_id": reference})
    return WireError(INTERNAL_ERROR, f"Internal error. Reference: {reference}")


def _is_json(content_type: bytes | None) -> bool:
    if content_type is None or content_type == b"application/json":
        return True
    kind = content_type.partition(b";")[0].strip().lower()
    return kind == b"application/json" or kind.endswith(b"+json")


def _accepts_json(accept: bytes | None) -> bool:
    """Whether JSON may be sent. The specification wants two types named; many clients name one."""
    if accept is None or b"application/json" in accept or b"*/*" in accept:
        return True
    kinds = {kind.partition(b";")[0].strip().lower() for kind in accept.split(b",")}
    return kinds == {b""} or not kinds.isdisjoint({b"application/json", b"application/*"})
