"""What the methods of the protocol do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from greenroom.components import ToolContext
from greenroom.edge import RequestHeaders, asking, traceparent_of
from greenroom.logs import correlation_id, new_correlation_id
from greenroom.mcp._envelope import header
from greenroom.mcp._listing import ToolListing
from greenroom.mcp._results import ResultWriter, dump
from greenroom.mcp._wire import (
    IDEMPOTENCY_KEY,
    INVALID_PARAMS,
    MODERN_VERSIONS,
    NEWEST_LEGACY,
    REVISIONS,
    Revision,
    WireError,
)

if TYPE_CHECKING:
    from greenroom.components import McpEndpointDefinition
    from greenroom.edge import Guard, ToolCaller

_TTL_MS: Final = 300_000
"""How long clients may keep lists. Tools change with a deployment only; five minutes after one,
every client has seen it."""

_MAX_KEY: Final = 255


@dataclass(slots=True)
class McpRequest:
    """One request that passed every check of its revision."""

    revision: Revision
    params: Mapping[str, Any]
    headers: Mapping[bytes, bytes]
    alone: bool = True
    """Not part of a batch; a batch can't share one `Idempotency-Key` header."""


class Methods:
    """Answers the methods that the wire table names, with the JSON of their results.

    A method that is not in the table does not exist; resources and prompts come with a row
    there and a method here.
    """

    def __init__(
        self, endpoint: McpEndpointDefinition, caller: ToolCaller, guard: Guard | None = None
    ) -> None:
        info = {"name": endpoint.server_name, "version": endpoint.server_version}
        capabilities: dict[str, Any] = {"tools": {}}
        self._caller = caller
        self._guard = guard
        self._caching = _PUBLIC if guard is None else _PRIVATE
        self._tools = {tool.name: tool for tool in endpoint.tools}
        self._listing = ToolListing(endpoint.tools)
        self._listings: dict[tuple[str, ...], ToolListing] = {}
        self._legacy = ResultWriter(None)
        self._modern = ResultWriter(info)
        about: dict[str, Any] = {"capabilities": capabilities}
        if endpoint.instructions:
            about["instructions"] = endpoint.instructions
        self._introduction = about | {"serverInfo": info}
        self._discovery = self._modern.result(
            dump(about | {"supportedVersions": MODERN_VERSIONS})[1:-1] + self._caching
        )

    async def initialize(self, request: McpRequest) -> bytes:
        """The legacy handshake: the version that was asked for, or the newest before 2026-07-28."""
        requested = request.params.get("protocolVersion")
        if not isinstance(requested, str):
            raise WireError(INVALID_PARAMS, "protocolVersion must be a string")
        revision = REVISIONS.get(requested)
        spoken = NEWEST_LEGACY if revision is None or revision.modern else revision
        return dump({"protocolVersion": spoken.version, **self._introduction})

    async def ping(self, _request: McpRequest) -> bytes:
        """Nothing, to show that somebody is there."""
        return b"{}"

    async def discover(self, _request: McpRequest) -> bytes:
        """What this server is and can do."""
        return self._discovery

    async def list_tools(self, request: McpRequest) -> bytes:
        """One page of the tools."""
        page = self._listing_for().page(request.params.get("cursor"))
        if request.revision.modern:
            return self._modern.result(page + self._caching)
        return self._legacy.result(page)

    def _listing_for(self) -> ToolListing:
        """The tools that the caller is shown; few such sets exist, and each is written once."""
        if self._guard is None:
            return self._listing
        principal = asking()
        shown = [one for one in self._tools.values() if self._guard.offers(one, principal)]
        if len(shown) == len(self._tools):
            return self._listing
        names = tuple(one.name for one in shown)
        if names not in self._listings:
            self._listings[names] = ToolListing(shown)
        return self._listings[names]

    async def call_tool(self, request: McpRequest) -> bytes:
        """What a tool answered; a failure is an answer too, which a model can act on."""
        params = request.params
        name = params.get("name")
        tool = self._tools.get(name) if type(name) is str else None
        if tool is None:
            raise WireError(INVALID_PARAMS, f"Unknown tool: {name}")
        arguments = params.get("arguments")
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            raise WireError(INVALID_PARAMS, "arguments must be an object")
        meta = params.get("_meta")
        if type(meta) is not dict:
            meta = {}
        context, traceparent = _context(request, meta), _traceparent(request, meta)
        if self._guard is not None:
            self._guard.check_tool(tool, arguments, context, traceparent)
        outcome = await self._caller.call(tool, arguments, context, traceparent=traceparent)
        writer = self._modern if request.revision.modern else self._legacy
        return writer.tool_result(outcome)


_PUBLIC: Final = b',"ttlMs":%d,"cacheScope":"public"' % _TTL_MS
# What depends on who asks must not be kept for others.
_PRIVATE: Final = b',"ttlMs":%d,"cacheScope":"private"' % _TTL_MS


def _context(request: McpRequest, meta: Mapping[str, Any]) -> ToolContext:
    return ToolContext(
        principal=asking(),
        session=None,
        turn=None,
        idempotency_key=_idempotency_key(request, meta),
        deadline=None,
        headers=RequestHeaders(request.headers),
        correlation_id=correlation_id.get() or new_correlation_id(),
    )


def _idempotency_key(request: McpRequest, meta: Mapping[str, Any]) -> str | None:
    in_body = meta.get(IDEMPOTENCY_KEY)
    in_header = header(request.headers, b"idempotency-key") if request.alone else None
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


def _traceparent(request: McpRequest, meta: Mapping[str, Any]) -> str | None:
    found = meta.get("traceparent") or header(request.headers, b"traceparent")
    return traceparent_of(found)
