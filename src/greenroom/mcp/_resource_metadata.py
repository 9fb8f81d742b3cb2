"""Where an OAuth client learns who gives out tokens for an endpoint (RFC 9728)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from greenroom.edge import Guard, HostCheck
    from greenroom.mcp._body import Receive

    Scope = MutableMapping[str, Any]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ResourceMetadata:
    """An ASGI application that describes one endpoint as a protected resource.

    It is for everybody: a client asks it because it has no token yet.
    """

    def __init__(self, guard: Guard, hosts: HostCheck) -> None:
        self._guard = guard
        self._hosts = hosts

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        refusal = self._hosts.refusal_of(scope["headers"])
        extra: list[tuple[bytes, bytes]] = []
        if refusal is not None:
            status, body = refusal.status, orjson.dumps({"error": refusal.text})
        elif scope["method"] not in ("GET", "HEAD"):
            status, body = 405, orjson.dumps({"error": "Send a GET"})
            extra.append((b"allow", b"GET, HEAD"))
        else:
            status, body = 200, orjson.dumps(self._guard.metadata(scope))
        extra += [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": status, "headers": extra})
        sent = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": sent})
