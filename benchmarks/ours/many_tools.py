"""An endpoint with as many trivial methods as are asked for."""

from __future__ import annotations

from typing import Any

from benchmarks.places import tools_wanted
from greenroom import Service, mcp_endpoint, mcp_tool


def _adding(number: int) -> Any:
    def add(_self: Any, a: int, b: int) -> int:
        return a + b

    name = f"add_{number}" if number else "add"
    return mcp_tool(name=name, description="Adds two numbers.")(add)


_methods = {f"add_{number}": _adding(number) for number in range(tools_wanted())}
Many = mcp_endpoint(path="/mcp", server_name="bench", server_version="1.0.0")(
    type("Many", (), _methods)
)
service = Service("bench", endpoints=[Many])
app = service.app
