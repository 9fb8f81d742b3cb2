"""The protocol's revisions in one table: what to change when the specification moves.

Two eras share one endpoint. Up to 2025-11-25 a client opens with `initialize`; since 2026-07-28
each request stands alone and says everything about itself in `_meta` and headers. Sessions are
never made in either, so any worker can answer any request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
DECLINED: Final = -32000
"""What the application declined to read or to prompt, in its own words."""
LEGACY_NOT_FOUND: Final = -32002

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension that lets work go on after the answer."""
IDEMPOTENCY_KEY: Final = "greenroom/idempotencyKey"
HANDLER_KEY: Final = "greenroom/handler"
"""In the `_meta` of a listed tool: which component and handler it is, as `cart.add_item`."""
ID_PARAMETER_KEY: Final = "greenroom/idParameter"
"""In the `_meta` of a listed tool: the argument that takes the instance id."""


class WireError(Exception):
    """A request that is answered with a JSON-RPC error; never leaves this package."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Revision:
    """What one revision of the protocol asks of a server."""

    version: str
    methods: Mapping[str, str]
    """Method to where in `Methods` it is answered."""
    statuses: Mapping[int, int]
    """JSON-RPC error code to HTTP status; 200 where it is not named."""
    modern: bool = False
    """Requests carry their own version and capabilities; there is no handshake."""
    batches: bool = False
    """A body may hold several messages."""
    no_resource: int = INVALID_PARAMS
    """The code for a resource that is not there."""


_SHARED_METHODS: Final = {
    "tools/list": "tools.list",
    "tools/call": "tools.call",
    "resources/list": "resources.list",
    "resources/templates/list": "resources.list_templates",
    "resources/read": "resources.read",
    "prompts/list": "prompts.list",
    "prompts/get": "prompts.get",
    "completion/complete": "prompts.complete",
}
_LEGACY_METHODS: Final = {
    "initialize": "initialize",
    "ping": "ping",
    **_SHARED_METHODS,
    "logging/setLevel": "set_level",
    "resources/subscribe": "resources.subscribe",
    "resources/unsubscribe": "resources.subscribe",
}
_MODERN_METHODS: Final = {
    "server/discover": "discover",
    **_SHARED_METHODS,
    "subscriptions/listen": "resources.listen",
    "tasks/get": "tasks.get",
    "tasks/update": "tasks.update",
    "tasks/cancel": "tasks.cancel",
}

# A message whose form or envelope is wrong is a 400 in every revision, before this is asked.
_LEGACY_STATUSES: Final[Mapping[int, int]] = {}
_MODERN_STATUSES: Final = {
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    METHOD_NOT_FOUND: 404,
}


def _legacy(version: str, *, batches: bool = False) -> Revision:
    return Revision(
        version, _LEGACY_METHODS, _LEGACY_STATUSES, batches=batches, no_resource=LEGACY_NOT_FOUND
    )


REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        revision.version: revision
        for revision in (
            _legacy("2025-03-26", batches=True),
            _legacy("2025-06-18"),
            _legacy("2025-11-25"),
            Revision("2026-07-28", _MODERN_METHODS, _MODERN_STATUSES, modern=True),
        )
    }
)

UNNAMED: Final = REVISIONS["2025-03-26"]
"""What a request is taken for that names no version; later revisions require one."""

NEWEST_LEGACY: Final = REVISIONS["2025-11-25"]
"""Offered to an `initialize` that asks for a version this server does not speak."""

MODERN_VERSIONS: Final = tuple(r.version for r in REVISIONS.values() if r.modern)

MIRRORED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Method to the parameter that must come again in the `Mcp-Name` header (modern era)."""


def unsupported(requested: object, supported: tuple[str, ...]) -> WireError:
    """The answer to a protocol version that is not spoken here."""
    return WireError(
        UNSUPPORTED_VERSION,
        f"Unsupported protocol version {requested!r}; supported: {', '.join(supported)}",
        {"supported": list(supported), "requested": requested},
    )


ASKABLE: Final = frozenset(("tools/call", "prompts/get", "resources/read"))
"""Methods that may end with questions to the client (modern era)."""

LOG_LEVELS: Final = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip
