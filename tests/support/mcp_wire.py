"""A bare hand on the MCP endpoint: requests as bytes, answers checked by the official types."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from mcp_types import JSONRPCError, JSONRPCResponse
from mcp_types.methods import validate_server_result

from greenroom.components import McpEndpointDefinition
from greenroom.edge import Guard, HostCheck, ToolOutcome
from greenroom.mcp import McpEndpoint
from greenroom.service import Service
from greenroom.settings import Settings

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
MIRRORED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
EVERY_REVISION = (*LEGACY, MODERN)

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
DEFAULT_HEADERS = {
    "Host": "localhost:8000",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


@dataclass
class Call:
    """One call that reached the tool caller."""

    tool: str
    arguments: Mapping[str, Any]
    context: Any
    traceparent: str | None


class ScriptedCaller:
    """Stands for the `ToolCaller`: remembers calls and answers with what it was given."""

    def __init__(self, outcome: ToolOutcome | BaseException | None = None) -> None:
        self.outcome = outcome or ToolOutcome(False, '{"total":5}', b'{"total":5}')
        self.calls: list[Call] = []

    async def call(
        self, tool: Any, arguments: Any, context: Any, *, traceparent: str | None = None
    ) -> ToolOutcome:
        self.calls.append(Call(tool.name, arguments, context, traceparent))
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def a_tool(name: str = "counter_increase", **changes: Any) -> Any:
    """A tool as the endpoint sees it."""
    hints = SimpleNamespace(read_only=False, destructive=None, idempotent=None, open_world=None)
    parts = {
        "name": name,
        "description": "Increases the counter.",
        "input_schema": {"type": "object", "properties": {"by": {"type": "integer"}}},
        "output_schema": {"type": "object", "properties": {"total": {"type": "integer"}}},
        "hints": hints,
        "handler": SimpleNamespace(component="counter", name="increase"),
        "id_parameter": "counter_id",
        "requires_approval": False,
        "task": None,
    }
    return SimpleNamespace(**{**parts, **changes})


def an_endpoint(
    caller: Any = None,
    tools: Any = None,
    *,
    hosts: HostCheck | None = None,
    limit: int = 4096,
    guard: Guard | None = None,
) -> McpEndpoint:
    """An endpoint with one tool, unless others are given."""
    definition = McpEndpointDefinition(
        cls=object,
        path="/mcp",
        server_name="counters",
        server_version="1.2.3",
        instructions="Count.",
        tools=tuple([a_tool()] if tools is None else tools),
    )
    return McpEndpoint(
        definition,
        caller or ScriptedCaller(),
        hosts or HostCheck(["localhost"]),
        max_body_bytes=limit,
        guard=guard,
    )


def served_by(endpoint: type[Any], **settings: Any) -> McpEndpoint:
    """What answers for an endpoint class with methods of its own; nothing needs to run."""
    service = Service("methods", endpoints=[endpoint], settings=Settings(**settings))
    return service.mcp_servers[0]


@dataclass
class HttpAnswer:
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def result(self) -> Any:
        """The result of the one response in the body."""
        return self.json["result"]

    @property
    def events(self) -> list[Any]:
        """The messages of a stream, the answer last."""
        assert self.headers["content-type"] == "text/event-stream"
        blocks = [one for one in self.body.decode().split("\n\n") if one.startswith("event:")]
        return [json.loads(one.split("data: ", 1)[1]) for one in blocks]

    @property
    def error(self) -> Any:
        """The error of the one response in the body, with the official types' blessing."""
        JSONRPCError.model_validate(self.json)
        return self.json["error"]


def send(
    endpoint: Any,
    body: bytes | Mapping[str, Any] | list[Any],
    headers: Mapping[str, str | None] | None = None,
    *,
    method: str = "POST",
    chunks: int = 1,
) -> HttpAnswer:
    """One HTTP request; a header that is None is left out."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {**DEFAULT_HEADERS, **(headers or {})}
    pairs = [(k.lower().encode(), v.encode()) for k, v in given.items() if v is not None]
    return asyncio.run(_exchange(endpoint, raw, pairs, method, chunks))


async def _exchange(
    endpoint: Any, body: bytes, headers: list[tuple[bytes, bytes]], method: str, chunks: int
) -> HttpAnswer:
    size = max(1, -(-len(body) // chunks))
    parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    sent: list[Any] = []

    async def receive() -> Any:
        if not parts:  # the client stays
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def keep(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": "/mcp", "headers": headers}
    await endpoint(scope, receive, keep)
    start, *contents = sent
    lines = {name.decode(): value.decode() for name, value in start["headers"]}
    assert [one.get("more_body", False) for one in contents][-1] is False
    return HttpAnswer(start["status"], lines, b"".join(one["body"] for one in contents))


def request(version: str, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A request as a client of this revision writes it."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": method}
    if version == MODERN:
        params = {**(params or {}), "_meta": {**ENVELOPE, **(params or {}).get("_meta", {})}}
    if params is not None:
        body["params"] = params
    return body


def headers_of(version: str, body: Mapping[str, Any]) -> dict[str, str | None]:
    """The headers a client of this revision sends with a request."""
    headers: dict[str, str | None] = {"MCP-Protocol-Version": version}
    if version == MODERN:
        headers["Mcp-Method"] = body["method"]
        if body["method"] in MIRRORED:
            headers["Mcp-Name"] = body["params"].get(MIRRORED[body["method"]])
    return headers


def ask(
    endpoint: Any,
    version: str,
    method: str,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, str | None] | None = None,
) -> HttpAnswer:
    """One request as a client of this revision sends it; a result is validated for it."""
    body = request(version, method, params)
    answer = send(endpoint, body, {**headers_of(version, body), **(headers or {})})
    if "result" in answer.json:
        JSONRPCResponse.model_validate(answer.json)
        assert answer.json["id"] == 7
        assert answer.headers["content-type"] == "application/json"
        validate_server_result(method, version, answer.result)
    return answer
