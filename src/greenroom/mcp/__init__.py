"""Components over MCP: a thin, stateless endpoint for both eras of the protocol."""

from greenroom.mcp._endpoint import McpEndpoint
from greenroom.mcp._request import request_of
from greenroom.mcp._resource_metadata import ResourceMetadata
from greenroom.mcp._state import StateSeal
from greenroom.mcp._stdio import StdioServer
from greenroom.mcp._wire import HANDLER_KEY, ID_PARAMETER_KEY, IDEMPOTENCY_KEY

__all__ = [
    "HANDLER_KEY",
    "IDEMPOTENCY_KEY",
    "ID_PARAMETER_KEY",
    "McpEndpoint",
    "ResourceMetadata",
    "StateSeal",
    "StdioServer",
    "request_of",
]
