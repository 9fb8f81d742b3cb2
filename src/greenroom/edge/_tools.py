"""One tool call, from its arguments to what the caller is told; the same at every door."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from greenroom.components import render
from greenroom.edge._errors import report
from greenroom.errors import ToolError
from greenroom.ids import entity_ref
from greenroom.runtime import CallRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.components import ToolContext, ToolDefinition
    from greenroom.runtime import Answer


class Caller(Protocol):
    """What carries out a command: the runtime."""

    async def call(self, request: CallRequest) -> Answer:
        """The handler's answer; errors are raised."""
        ...


@dataclass(slots=True)
class ToolOutcome:
    """What a tool call came to. `is_error` is for the model to act on, not a fault of the door."""

    is_error: bool
    text: str
    structured: bytes | None = None
    """JSON of an object, when the tool answers with one."""
    meta: dict[str, Any] | None = None


class ToolCaller:
    """Carries out tool calls through the runtime.

    Never raises, except when the calling task is cancelled: what went wrong is part of the
    outcome, in words a model can act on, and the rest of it is in the log.
    """

    def __init__(self, runtime: Caller) -> None:
        self._runtime = runtime

    async def call(
        self,
        tool: ToolDefinition,
        arguments: Mapping[str, Any],
        context: ToolContext,
        *,
        traceparent: str | None = None,
    ) -> ToolOutcome:
        """Validate, call, and render the reply.

        The deadline of the context is on the monotonic clock.
        """
        try:
            refuse_unapproved(tool)
            instance, values = tool.parse(arguments, context)
            deadline = context.deadline
            answer = await self._runtime.call(
                CallRequest(
                    ref=entity_ref(tool.handler.component, instance),
                    handler=tool.handler,
                    values=values,
                    timeout=None if deadline is None else max(0.0, deadline - monotonic()),
                    idempotency_key=context.idempotency_key,
                    principal=context.principal,
                    correlation_id=context.correlation_id,
                    traceparent=traceparent,
                    as_json=True,
                )
            )
            result = render(tool, answer.json)
        except Exception as error:
            return _failed(tool.name, error, context.correlation_id)
        return ToolOutcome(False, result.text, result.structured)


def refuse_unapproved(tool: ToolDefinition) -> None:
    """Raises where a person must agree first and can't be asked.

    A predicate counts as "yes" here: approval must never be bypassed by a door that has no way
    to ask for it.
    """
    if tool.requires_approval:
        message = (
            f"{tool.name} needs the approval of a person, which can't be given over this "
            "connection. Ask the operator of the service to carry it out."
        )
        raise ToolError(message)


def _failed(target: str, error: Exception, correlation_id: str) -> ToolOutcome:
    view = report(error, target=target, correlation_id=correlation_id)
    meta = {
        "greenroom/code": view.code,
        "greenroom/retryable": view.retryable,
        "greenroom/correlationId": view.correlation_id,
    }
    return ToolOutcome(True, view.text, None, meta)
