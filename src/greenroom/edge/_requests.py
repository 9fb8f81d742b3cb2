"""What came along with a request, and who makes the one that is being worked on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from greenroom.components import ANONYMOUS, Principal, RequestContext, current_request
from greenroom.ids import is_plain_text
from greenroom.logs import correlation_id, new_correlation_id

_MAX_TRACEPARENT: Final = 255

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?\Z")


class RequestHeaders(Mapping[str, str]):
    """Headers by their names in any case, decoded only when somebody looks at them.

    Example:
        >>> RequestHeaders({b"x-tenant": b" acme "})["X-Tenant"]
        'acme'
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        value = self._raw.get(name.lower().encode("latin-1", "replace"))
        if value is None:
            raise KeyError(name)
        # httptools leaves white space around a value, which is not part of it.
        return value.decode("latin-1").strip(" \t")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def request_context(scope: Mapping[str, Any], principal: Principal) -> RequestContext:
    """What is known of a request, from its ASGI scope."""
    headers = RequestHeaders(dict(scope["headers"]))
    return RequestContext(
        principal,
        headers,
        correlation_id.get() or new_correlation_id(),
        traceparent_of(headers.get("traceparent")),
    )


def target_of(scope: Mapping[str, Any]) -> str:
    """What was asked for, fit for a line of a log: a path may hold line breaks.

    Example:
        >>> target_of({"type": "http", "method": "GET", "path": "/a"})
        'GET /a'
    """
    shown = scope["path"].encode("unicode_escape").decode("ascii")
    return f"{scope.get('method', scope['type'])} {shown}"


def asking() -> Principal:
    """Who makes the request that the running code works for."""
    request = current_request.get()
    return ANONYMOUS if request is None else request.principal


def traceparent_of(found: object) -> str | None:
    """A trace context that came from outside; a malformed one is ignored, as W3C asks."""
    if not isinstance(found, str) or not is_plain_text(found, _MAX_TRACEPARENT):
        return None
    return found if _TRACEPARENT.match(found) else None
