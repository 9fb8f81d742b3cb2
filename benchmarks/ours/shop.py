"""The service that is called over MCP."""

from __future__ import annotations

from benchmarks.ours.ledger import LedgerEntity
from greenroom import Service, mcp_endpoint, mcp_tool


@mcp_endpoint(path="/mcp", server_name="bench", server_version="1.0.0", tools=[LedgerEntity])
class LedgerMcp:
    """The ledger's tools, and two of its own."""

    @mcp_tool(description="Adds two numbers.")
    def add(self, a: int, b: int) -> int:
        return a + b

    @mcp_tool(description="Adds two numbers.")
    async def add_async(self, a: int, b: int) -> int:
        return a + b


service = Service("bench", components=[LedgerEntity], endpoints=[LedgerMcp])
app = service.app
