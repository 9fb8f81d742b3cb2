"""FastMCP's trivial tools, as an ordinary and as an `async` function."""

from __future__ import annotations

from fastmcp import FastMCP

mcp = FastMCP("peer", version="1.0.0")


@mcp.tool(description="Adds two numbers.")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@mcp.tool(description="Adds two numbers.")
async def add_async(a: int, b: int) -> int:
    """Add."""
    return a + b


app = mcp.http_app(path="/mcp", stateless_http=True, json_response=True)
