"""FastMCP with as many trivial tools as are asked for."""

from __future__ import annotations

from fastmcp import FastMCP

from benchmarks.places import tools_wanted


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


mcp = FastMCP("peer", version="1.0.0")
for number in range(tools_wanted()):
    name = f"add_{number}" if number else "add"
    mcp.tool(add, name=name, description="Adds two numbers.")
app = mcp.http_app(path="/mcp", stateless_http=True, json_response=True)
