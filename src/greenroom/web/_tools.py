"""The tools of an MCP endpoint as plain HTTP routes: JSON in, JSON out, shown in OpenAPI."""

from __future__ import annotations

from http import HTTPStatus
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi import APIRouter, Depends
from fastapi.responses import Response
from starlette.requests import ClientDisconnect, Request

from greenroom.components import McpContext, MethodTool, current_request
from greenroom.edge import RefusedError, asking, request_context, traceparent_of
from greenroom.errors import InvalidArgumentsError, PayloadTooLargeError
from greenroom.logs import correlation_id, new_correlation_id
from greenroom.nesting import MAX_DEPTH, is_too_deep
from greenroom.web._problems import problem_response
from greenroom.web._security import TokenShown, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from greenroom.components import HandlerDefinition, Tool
    from greenroom.edge import Guard, HostCheck, ToolCaller

_PROBLEM: Final = {
    "description": "A problem (RFC 9457)",
    "content": {"application/problem+json": {"schema": {"type": "object"}}},
}
_MAX_KEY: Final = 255


def tool_router(
    tools: Iterable[Tool],
    caller: ToolCaller,
    hosts: HostCheck,
    *,
    path: str,
    max_body_bytes: int,
    guard: Guard | None = None,
) -> APIRouter:
    """`POST <path>/tools/<name>` for each tool that answers with something JSON can hold.

    Args:
        tools: The tools; those that answer with media are left to MCP.
        caller: Carries them out.
        hosts: Who may be asked, and from which pages.
        path: Of the endpoint.
        max_body_bytes: The largest body.
        guard: Of the endpoint: who may come in, and use which tool; None lets everybody.
    """
    router = APIRouter(
        prefix=f"{path}/tools",
        tags=[path.strip("/") or "tools"],
        dependencies=[Depends(TokenShown())] if guard is not None and guard.takes_tokens else None,
        responses=_refusals(guard),
    )
    for tool in tools:
        if not (isinstance(tool, MethodTool) and tool.shape == "content"):
            _add(router, _Route(tool, caller, hosts, max_body_bytes, guard))
    return router


def _refusals(guard: Guard | None) -> dict[int | str, dict[str, Any]]:
    """What callers are told who may not come in."""
    if guard is None:
        return {}
    statuses = (401, 403, 429) if guard.takes_tokens else (403, 429)
    return dict.fromkeys(statuses, _PROBLEM)


def _add(router: APIRouter, route: _Route) -> None:
    tool = route.tool
    body: dict[str, Any] = {"content": {"application/json": {"schema": _shown(tool.input_schema)}}}
    if tool.input_schema.get("required"):
        body["required"] = True
    handler = _handler_of(tool)
    done: dict[int | str, dict[str, Any]]
    if handler.reply_type is NoneType:
        done = {204: {"description": "Carried out"}}
    else:
        schema = {"schema": _reply_schema(tool)}
        done = {200: {"description": "The reply", "content": {"application/json": schema}}}
    router.add_api_route(
        f"/{tool.name}",
        route.answer,
        methods=["POST"],
        name=tool.name,
        operation_id=tool.name,
        summary=getattr(tool, "title", None) or tool.name.replace("_", " ").capitalize(),
        description=tool.description,
        status_code=next(iter(done)),
        response_class=Response,
        responses={**done, 400: _PROBLEM, 422: _PROBLEM, 503: _PROBLEM},
        openapi_extra={"requestBody": body},
    )


class _Route:
    """Answers requests for one tool."""

    def __init__(
        self,
        tool: Tool,
        caller: ToolCaller,
        hosts: HostCheck,
        max_body_bytes: int,
        guard: Guard | None,
    ) -> None:
        self._guard = guard
        self.tool = tool
        self._caller = caller
        self._hosts = hosts
        self._max_body_bytes = max_body_bytes

    async def answer(self, request: Request) -> Response:
        refusal = self._hosts.refusal_of(request.scope["headers"])
        if refusal is not None:
            raise RefusedError(refusal)
        guard = self._guard
        traceparent = traceparent_of(request.headers.get("traceparent"))
        try:
            if guard is not None:
                principal = await guard.admit(request.scope)
                current_request.set(request_context(request.scope, principal))
            arguments = await self._arguments(request)
            context = self._context(request)
            if guard is not None:
                guard.check_tool(self.tool, arguments, context, traceparent)
            result = await self._caller.carry_out(
                self.tool, arguments, context, traceparent=traceparent
            )
            if _handler_of(self.tool).reply_type is NoneType:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            return Response(reply_of(self.tool, result.text), media_type="application/json")
        except RefusedError as error:
            refuse(request, error.refusal, guard)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        except Exception as error:
            return problem_response(error, target=self.tool.name)

    async def _arguments(self, request: Request) -> dict[str, Any]:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self._max_body_bytes:
                raise PayloadTooLargeError(
                    "The body",
                    size=len(body),
                    limit=self._max_body_bytes,
                    setting="GREENROOM_MAX_BODY_BYTES",
                )
        if not body:
            return {}
        try:
            arguments = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise InvalidArgumentsError(self.tool.name, [f"the body is no JSON: {error}"]) from None
        if type(arguments) is not dict:
            raise InvalidArgumentsError(self.tool.name, ["the body must be an object"])
        if is_too_deep(arguments):
            text = f"the body is nested deeper than {MAX_DEPTH} levels"
            raise InvalidArgumentsError(self.tool.name, [text])
        return arguments

    def _context(self, request: Request) -> McpContext:
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= _MAX_KEY:
            text = f"an idempotency key must be text of 1 to {_MAX_KEY} characters"
            raise InvalidArgumentsError(self.tool.name, [text])
        return McpContext(
            principal=asking(),
            idempotency_key=key,
            headers=request.headers,
            correlation_id=correlation_id.get() or new_correlation_id(),
        )


def reply_of(tool: Tool, text: str) -> bytes:
    """A reply as JSON: what a tool shows, without what is there for MCP alone."""
    if tool.shape == "list":
        return text[len('{"result":') : -1].encode()
    if tool.shape == "text" and _handler_of(tool).answers_text:
        return orjson.dumps(text)
    return text.encode()


def _reply_schema(tool: Tool) -> dict[str, Any]:
    schema = tool.output_schema
    if schema is None:
        return {"type": "string"} if _handler_of(tool).answers_text else {}
    if tool.shape == "list" and "$defs" not in schema:
        shown: dict[str, Any] = schema["properties"]["result"]
        return shown
    return _shown(schema)


def _shown(schema: dict[str, Any]) -> dict[str, Any]:
    # Within an OpenAPI document, a reference to "#/$defs/..." leads nowhere; only types that
    # refer to themselves have some.
    return {"type": "object"} if "$defs" in schema else schema


def _handler_of(tool: Tool) -> HandlerDefinition:
    return tool.method.handler if isinstance(tool, MethodTool) else tool.handler
