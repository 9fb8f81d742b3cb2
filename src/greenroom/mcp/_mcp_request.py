"""A request of the protocol, and what is read from it for those who work on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from greenroom.components import ToolContext
from greenroom.edge import RequestHeaders, asking, traceparent_of
from greenroom.logs import correlation_id, new_correlation_id
from greenroom.mcp._envelope import header
from greenroom.mcp._wire import IDEMPOTENCY_KEY, INVALID_PARAMS, Revision, WireError

if TYPE_CHECKING:
    from greenroom.mcp._outlet import Outlet

_MAX_KEY: Final = 255


@dataclass(slots=True)
class McpRequest:
    """One request that passed every check of its revision."""

    revision: Revision
    method: str
    params: Mapping[str, Any]
    headers: Mapping[bytes, bytes] | None
    """None where the transport has none."""
    id: str | int | None = None
    alone: bool = True
    """Not part of a batch; a batch can't share one `Idempotency-Key` header."""
    outlet: Outlet | None = None
    """Where something may be said before the answer; None where there is no such place."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        found = self.params.get("_meta")
        return found if type(found) is dict else {}


def text_of(request: McpRequest, name: str) -> str:
    """A parameter that must be a text."""
    value = request.params.get(name)
    if type(value) is not str:
        raise WireError(INVALID_PARAMS, f"{name} must be a string")
    return value


def no_resource(request: McpRequest, uri: str, text: str) -> WireError:
    """What a client is told that asks for a resource which is not there."""
    return WireError(request.revision.no_resource, text, {"uri": uri})


def tool_context(request: McpRequest) -> ToolContext:
    """What a component's tool is told of the request."""
    return ToolContext(
        principal=asking(),
        session=None,
        turn=None,
        idempotency_key=_idempotency_key(request),
        deadline=None,
        headers=RequestHeaders(request.headers or {}),
        correlation_id=correlation_id.get() or new_correlation_id(),
    )


def _idempotency_key(request: McpRequest) -> str | None:
    in_body = request.meta.get(IDEMPOTENCY_KEY)
    in_header = _header(request, b"idempotency-key") if request.alone else None
    if in_body is None and in_header is None:
        return None
    if in_body is not None and in_header is not None and in_body != in_header:
        raise WireError(
            INVALID_PARAMS, f"The Idempotency-Key header and _meta[{IDEMPOTENCY_KEY!r}] differ"
        )
    key = in_header if in_body is None else in_body
    if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY:
        raise WireError(
            INVALID_PARAMS, f"An idempotency key must be text of 1 to {_MAX_KEY} characters"
        )
    return key


def traceparent_in(request: McpRequest) -> str | None:
    """The trace that the request belongs to."""
    found = request.meta.get("traceparent") or _header(request, b"traceparent")
    return traceparent_of(found)


def _header(request: McpRequest, name: bytes) -> str | None:
    return None if request.headers is None else header(request.headers, name)
