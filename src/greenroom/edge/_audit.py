"""A record of every tool call: who, what, with which arguments, and what came of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from greenroom.components import MethodTool
from greenroom.errors import AccessDeniedError, GreenroomError

if TYPE_CHECKING:
    from greenroom.clock import Clock
    from greenroom.components import HandlerDefinition, Principal, Tool, ToolContext

_log = logging.getLogger("greenroom.audit")
_MAX_NAMES: Final = 50
"""Arguments that are named; a caller may send any number."""
_MAX_TEXT: Final = 200
_PLAIN: Final[dict[type, str]] = {bool: "boolean", int: "number", float: "number"}
_SIZED: Final[dict[type, str]] = {str: "text", list: "array", dict: "object"}

Outcome = Literal["done", "failed", "denied", "abandoned"]
"""Abandoned: the caller went away before the answer, so the call may have been done."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One tool call, as it is kept."""

    at_ms: int
    """When it was answered, in milliseconds since 1970."""
    principal: str | None
    """The subject of who called; None for somebody unknown."""
    service: str | None
    """The service that called; None from the internet."""
    endpoint: str
    """The path of the endpoint."""
    tool: str
    component: str
    """Of a method of the endpoint itself, the name of its class."""
    handler: str
    instance: str | None
    """None where the call did not get so far."""
    arguments: Mapping[str, Any]
    """By name; what kind of value each was, or the value itself where the settings say so."""
    outcome: Outcome
    code: str | None
    """Of the error; None when it was done."""
    correlation_id: str
    idempotency_key: str | None
    traceparent: str | None


class AuditSink(Protocol):
    """Keeps audit records: a table, a queue, another service.

    Called on the event loop, so it must not wait; what it raises is logged, and the call is
    answered all the same.
    """

    def record(self, record: AuditRecord) -> None:
        """Keep a record."""
        ...


class AuditLog:
    """Writes each record as a line of the logger `greenroom.audit`, with its parts as extras."""

    def record(self, record: AuditRecord) -> None:
        """Write the line."""
        parts = asdict(record)
        reference = parts.pop("correlation_id")
        _log.info(
            "%s: %s by %s",
            record.tool,
            record.outcome,
            record.principal or "anonymous",
            extra={"correlation_id": reference, "audit": parts},
        )


class Audit:
    """Makes records of the calls at one endpoint, and gives them to the sink.

    Args:
        sink: What keeps them.
        endpoint: The path of the endpoint.
        clock: What time it is.
        shown: Names of arguments whose values are kept.
    """

    def __init__(
        self, sink: AuditSink, endpoint: str, clock: Clock, *, shown: Collection[str] = ()
    ) -> None:
        self._sink = sink
        self._endpoint = endpoint
        self._clock = clock
        self._shown = frozenset(shown)

    def record(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        *,
        outcome: Outcome = "done",
        code: str | None = None,
        instance: str | None = None,
        traceparent: str | None = None,
    ) -> None:
        """Keep what came of a call; never raises."""
        principal: Principal = context.principal
        handler = handler_of(tool)
        try:
            self._sink.record(
                AuditRecord(
                    at_ms=self._clock.now_ms(),
                    principal=principal.subject,
                    service=principal.service,
                    endpoint=self._endpoint,
                    tool=tool.name,
                    component=handler.component,
                    handler=handler.name,
                    instance=instance,
                    arguments=self._redacted(tool, arguments),
                    outcome=outcome,
                    code=code,
                    correlation_id=context.correlation_id,
                    idempotency_key=context.idempotency_key,
                    traceparent=traceparent,
                )
            )
        except Exception:
            _log.exception(
                "A call of %s could not be recorded",
                tool.name,
                extra={"correlation_id": context.correlation_id},
            )

    def failed(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        error: BaseException,
        reached: Sequence[str],
        traceparent: str | None,
    ) -> None:
        """Keep that a call was not done, or that nobody knows; never raises."""
        outcome: Outcome = "failed"
        code: str | None = error.code if isinstance(error, GreenroomError) else "internal"
        if isinstance(error, AccessDeniedError):
            outcome = "denied"
        elif isinstance(error, asyncio.CancelledError):
            outcome, code = "abandoned", None
        self.record(
            tool,
            arguments,
            context,
            outcome=outcome,
            code=code,
            instance=reached[0] if reached else None,
            traceparent=traceparent,
        )

    def _redacted(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # Names that the tool does not know come from the caller and may be anything.
        id_parameter = None if isinstance(tool, MethodTool) else tool.id_parameter
        known = {one.name for one in handler_of(tool).parameters} | {id_parameter}
        named = [name for name in arguments if name in known][:_MAX_NAMES]
        redacted: dict[str, Any] = {
            name: _shown(arguments[name]) if name in self._shown else kind_of(arguments[name])
            for name in named
            if name != id_parameter
        }
        unknown = len(arguments) - sum(name in known for name in arguments)
        return redacted | ({"(unknown)": unknown} if unknown else {})


def handler_of(tool: Tool) -> HandlerDefinition:
    """The handler of a component, or the endpoint's own method, that a tool is."""
    return tool.method.handler if isinstance(tool, MethodTool) else tool.handler


def kind_of(value: Any) -> str:
    """What kind of value it is, and how large, without a word of it.

    Example:
        >>> kind_of("4111 1111 1111 1111"), kind_of([1, 2]), kind_of(None), kind_of(True)
        ('text(19)', 'array(2)', 'null', 'boolean')
    """
    if value is None:
        return "null"
    # What JSON knows; the class itself, since a bool is an int too.
    kind = type(value)
    if kind in _SIZED:
        return f"{_SIZED[kind]}({len(value)})"
    return _PLAIN.get(kind, kind.__name__)


def _shown(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}… ({len(value)} characters)"
    return value if isinstance(value, str | int | float | bool | None) else kind_of(value)
