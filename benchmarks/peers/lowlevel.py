"""The official SDK's low-level server: a trivial tool, and as many more as are asked for."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from benchmarks.places import tools_wanted

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
NAMES = ["add", *(f"add_{number}" for number in range(1, tools_wanted()))]
TOOLS = ListToolsResult(
    tools=[Tool(name=name, description="Adds two numbers.", input_schema=SCHEMA) for name in NAMES]
)


async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
    """All of them, made once."""
    return TOOLS


async def call_tool(_context: Any, params: Any) -> CallToolResult:
    """Add, with no more checking than the tool itself does."""
    arguments = params.arguments
    text = str(arguments["a"] + arguments["b"])
    return CallToolResult(content=[TextContent(type="text", text=text)])


server: Any = Server(
    "peer",
    version="1.0.0",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    # Without it, every call lists the tools.
    get_tool_input_schema=lambda _name: SCHEMA,
)
app = server.streamable_http_app(
    json_response=True,
    stateless_http=True,
    transport_security=TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=["127.0.0.1"]
    ),
)
