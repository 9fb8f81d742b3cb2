"""A service's MCP endpoint, as a client sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenroom.mcp import IDEMPOTENCY_KEY, request_of

if TYPE_CHECKING:
    from starlette.testclient import TestClient


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool call came to, as the model is told."""

    text: str
    structured: dict[str, Any] | None = None
    """The reply as an object, where the tool has a schema for it."""
    is_error: bool = False
    """The component declined, the arguments don't fit, or it failed; the text says which."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Such as `greenroom/code` and `greenroom/retryable` of an error."""


class McpTestClient:
    """Calls the tools of one MCP endpoint; made by `ServiceTestKit.mcp`.

    Example:
        >>> mcp = kit.mcp("/mcp")                                             # doctest: +SKIP
        >>> mcp.call_tool("seat_take", {"seat_id": "a-1", "person": "Ada"})   # doctest: +SKIP
        ToolAnswer(text='Ada', ...)
    """

    def __init__(self, http: TestClient, path: str, headers: Mapping[str, str]) -> None:
        self._http = http
        self._path = path
        self._headers = dict(headers)

    def list_tools(self) -> list[dict[str, Any]]:
        """Every tool as it is listed: `name`, `description`, `inputSchema`, `annotations`, …"""
        return list(self._pages())

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> ToolAnswer:
        """Call a tool with JSON-able arguments. What it declined is an answer too.

        Raises:
            ValueError: The endpoint refused the request: there is no such tool, or the key
                can't be one.
        """
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments or {})}
        if idempotency_key is not None:
            params["_meta"] = {IDEMPOTENCY_KEY: idempotency_key}
        result = self._ask("tools/call", params)
        return ToolAnswer(
            "\n".join(part.get("text", "") for part in result["content"]),
            result.get("structuredContent"),
            result.get("isError", False),
            result.get("_meta", {}),
        )

    def _pages(self) -> Iterator[dict[str, Any]]:
        cursor: dict[str, Any] = {}
        while True:
            page = self._ask("tools/list", cursor)
            yield from page["tools"]
            if "nextCursor" not in page:
                return
            cursor = {"cursor": page["nextCursor"]}

    def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        headers, body = request_of(method, params, client="greenroom testkit")
        response = self._http.post(self._path, content=body, headers=self._headers | headers)
        is_json = response.headers.get("content-type") == "application/json"
        answer = response.json() if is_json else {}
        if "result" not in answer:
            reason = answer.get("error", {}).get("message") or f"HTTP {response.status_code}"
            message = f"The MCP endpoint at {self._path} refused {method}: {reason}"
            raise ValueError(message)
        result: dict[str, Any] = answer["result"]
        return result
