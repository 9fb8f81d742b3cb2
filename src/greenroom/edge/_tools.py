"""One tool call, from its arguments to what the caller is told; the same at every door."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from greenroom.components import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    InputNeededError,
    MethodTool,
    MissingCapabilityError,
    PdfContent,
    ResourceContent,
    TextContent,
    ToolRequest,
    ToolResult,
    render,
)
from greenroom.edge._approval import check_approval
from greenroom.edge._errors import report
from greenroom.edge._methods import contained
from greenroom.edge._tasks import Runtime, TaskCaller
from greenroom.errors import AccessDeniedError, InternalError, ToolError
from greenroom.ids import entity_ref
from greenroom.runtime import CallRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.components import (
        Authorize,
        HandlerDefinition,
        MessageContent,
        Tool,
        ToolContext,
        ToolDefinition,
    )
    from greenroom.edge._audit import Audit
    from greenroom.edge._methods import MethodRunner


@dataclass(slots=True)
class ToolOutcome:
    """What a tool call came to. `is_error` is for the model to act on, not a fault of the door."""

    is_error: bool
    text: str
    structured: bytes | None = None
    """JSON of an object, when the tool answers with one."""
    meta: dict[str, Any] | None = None
    contents: tuple[MessageContent, ...] = ()
    """Media and the like; when there are some, they stand in place of the text."""
    instance: str | None = None
    """Of the component that was called."""


class ToolCaller:
    """Carries out tool calls: of components through the runtime, of endpoints by their methods.

    What goes wrong is part of the outcome, in words a model can act on, and the rest of it is in
    the log.

    Args:
        runtime: Carries out the commands of components.
        runner: Runs the endpoint's own methods.
        max_result_bytes: The largest result that a model is shown.
        authorize: Whether a call on an instance may be made.
        audit: Where calls are recorded.
    """

    def __init__(
        self,
        runtime: Runtime,
        runner: MethodRunner | None = None,
        *,
        max_result_bytes: int = 1024**2,
        authorize: Authorize | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._runtime = runtime
        self._authorize = authorize
        self._audit = audit
        self._runner = runner
        self._max_result_bytes = max_result_bytes
        self.tasks = TaskCaller(runtime, audit)

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        *,
        traceparent: str | None = None,
    ) -> ToolOutcome:
        """Validate, call, and render the reply.

        The deadline of the context is on the monotonic clock.

        Raises:
            InputNeededError: The client must answer questions first.
            MissingCapabilityError: The client can't answer what must be asked.
        """
        reached: list[str] = []
        try:
            result = await self.carry_out(
                tool, arguments, context, traceparent=traceparent, reached=reached
            )
            result = _within(result, tool, self._limit_of(tool))
        except (InputNeededError, MissingCapabilityError):
            raise
        except Exception as error:
            return _failed(tool.name, error, context.correlation_id)
        return ToolOutcome(
            False,
            result.text,
            result.structured,
            contents=result.contents,
            instance=reached[0] if reached else None,
        )

    def outcome_of(
        self,
        tool: ToolDefinition,
        result: ToolResult | Exception,
        context: ToolContext,
        *,
        is_error: bool,
    ) -> ToolOutcome:
        """What a caller is told of the result of a task, or of the error in its place."""
        if isinstance(result, Exception):
            return _failed(tool.name, result, context.correlation_id)
        try:
            result = _within(result, tool, self._max_result_bytes)
        except ToolError as error:
            return _failed(tool.name, error, context.correlation_id)
        return ToolOutcome(is_error, result.text, result.structured)

    async def carry_out(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        *,
        traceparent: str | None = None,
        reached: list[str] | None = None,
    ) -> ToolResult:
        """The result of a call, however large; what goes wrong is raised.

        `reached` takes the instance that is called, once it is known.
        """
        reached = [] if reached is None else reached
        try:
            if isinstance(tool, MethodTool):
                result = await self._run(tool, arguments, context)
            else:
                result = await self._command(tool, arguments, context, traceparent, reached)
        except (InputNeededError, MissingCapabilityError):
            raise  # not its end: the client comes back
        except (Exception, asyncio.CancelledError, GeneratorExit) as error:
            self._audit_failed(tool, arguments, context, error, reached, traceparent)
            raise
        except BaseException as error:
            # A `bind=`, an `authorize=` or a `requires_approval=` that would end the process.
            failure = contained(tool.name, error)
            self._audit_failed(tool, arguments, context, failure, reached, traceparent)
            raise failure from error
        if self._audit is not None:
            self._audit.record(
                tool,
                arguments,
                context,
                instance=reached[0] if reached else None,
                traceparent=traceparent,
            )
        return result

    def _audit_failed(self, *what: Any) -> None:
        if self._audit is not None:
            self._audit.failed(*what)

    def _limit_of(self, tool: Tool) -> int:
        own = tool.max_result_bytes if isinstance(tool, MethodTool) else None
        return own or self._max_result_bytes

    async def _command(
        self,
        tool: ToolDefinition,
        arguments: Mapping[str, Any],
        context: ToolContext,
        traceparent: str | None,
        reached: list[str],
    ) -> ToolResult:
        instance, values = tool.parse(arguments, context)
        reached.append(instance)
        if self._authorize is not None or tool.access is not None:
            await self._check(tool, tool.handler, instance, values, context)
        if tool.requires_approval:
            check_approval(tool, instance, values, context)
        deadline = context.deadline
        answer = await self._runtime.call(
            CallRequest(
                ref=entity_ref(tool.handler.component, instance),
                handler=tool.handler,
                values=values,
                timeout=None if deadline is None else max(0.0, deadline - monotonic()),
                idempotency_key=context.idempotency_key,
                principal=context.principal.subject,
                correlation_id=context.correlation_id,
                traceparent=traceparent,
                as_json=True,
            )
        )
        return render(tool, answer.json)

    async def _run(
        self, tool: MethodTool, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult:
        if self._runner is None:
            message = f"{tool.name} is a method of an endpoint, which nobody runs here"
            raise InternalError(message)
        values = tool.parse(arguments)
        if self._authorize is not None or tool.access is not None:
            await self._check(tool, tool.method.handler, "", values, context)
        value = await self._runner.run(tool.method, values, context, timeout=tool.timeout)
        return tool.show(value)

    async def _check(
        self,
        tool: Tool,
        handler: HandlerDefinition,
        instance: str,
        values: tuple[Any, ...],
        context: ToolContext,
    ) -> None:
        """Raises unless the endpoint's and the tool's own `authorize` both allow the call."""
        own = None if tool.access is None else tool.access.authorize
        for authorize in (self._authorize, own):
            if authorize is None:
                continue
            names = (one.name for one in handler.parameters)
            arguments = dict(zip(names, values, strict=True))
            request = ToolRequest(
                context.principal, tool.name, handler.component, instance, arguments, context
            )
            allowed = authorize(request)
            if inspect.isawaitable(allowed):
                allowed = await allowed
            # Only a plain yes is one: a forgotten return is None.
            if allowed is not True:
                where = f" on this {handler.component}" if instance else ""
                raise AccessDeniedError(f"You may not use {tool.name}{where}.")


_CUT_OFF = (
    "\n[Cut off here: the whole is {size:,} bytes, and the limit is {limit:,}. Ask for less.]"
)


def _within(result: ToolResult, tool: Tool, limit: int) -> ToolResult:
    """The result, cut off where that can be done.

    Raises:
        ToolError: It is too large, and half of it would be no JSON or no picture.
    """
    if result.contents:
        size = sum(map(_size_of, result.contents))
    else:
        size = len(result.text) if result.text.isascii() else len(result.text.encode())
    if size <= limit:
        return result
    if result.contents or tool.output_schema is not None:
        raise ToolError(
            f"{tool.name} was carried out, but its result is {size:,} bytes, and the limit is "
            f"{limit:,}. Ask for less."
        )
    kept = result.text.encode()[:limit].decode(errors="ignore")
    return ToolResult(kept + _CUT_OFF.format(size=size, limit=limit))


def _size_of(content: MessageContent) -> int:
    match content:
        case TextContent(text=text):
            return len(text.encode())
        case ImageContent(data=data) | AudioContent(data=data) | PdfContent(data=data):
            return len(data)
        case EmbeddedResource(resource=ResourceContent(data=inner)):
            return len(inner)
        case _:
            return 0


def _failed(target: str, error: Exception, correlation_id: str) -> ToolOutcome:
    view = report(error, target=target, correlation_id=correlation_id)
    meta = {
        "greenroom/code": view.code,
        "greenroom/retryable": view.retryable,
        "greenroom/correlationId": view.correlation_id,
    }
    return ToolOutcome(True, view.text, None, meta)
