"""What a handler may ask about the call, the event or the instance it is in."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar

from greenroom.components.input_requests import (
    InputNeededError,
    InputRequest,
    MissingCapabilityError,
    has_capability,
)
from greenroom.components.metadata import Metadata
from greenroom.components.principals import ANONYMOUS, Claims, Principal
from greenroom.errors import AccessDeniedError, StepCancelledError, ToolError

A = TypeVar("A")

_log = logging.getLogger("greenroom.workflows")

TIMER_KEY = "greenroom-timer"
DUE_AT_KEY = "greenroom-due-at"
"""What a timer sends along with its call, as metadata."""


@dataclass(frozen=True, slots=True)
class EntityContext:
    """Given to a constructor that asks for it: which instance is being made."""

    entity_id: str


@dataclass(slots=True)
class CommandContext:
    """About the command that is being handled."""

    entity_id: str
    command_name: str
    sequence_number: int
    """The number of the instance's last record before this command; 0 for a fresh one."""
    is_deleted: bool
    now: datetime
    """The time on the service's clock, in UTC; tests move it."""
    metadata: Metadata
    """What the caller sent along; it is not stored."""
    principal: str | None
    """On whose behalf the call is made: the subject of the principal."""
    idempotency_key: str | None
    correlation_id: str
    causation: str | None = None
    traceparent: str | None = None

    @property
    def timer(self) -> str | None:
        """The name of the timer that makes the call; None for a call of anybody else's."""
        return self.metadata.get(TIMER_KEY)

    @property
    def due_at(self) -> datetime | None:
        """When the timer that makes the call was due: before `now`, if it comes late."""
        said = self.metadata.get(DUE_AT_KEY)
        return None if said is None else datetime.fromisoformat(said)


@dataclass(slots=True)
class EventContext:
    """About the event that is being applied."""

    entity_id: str
    sequence_number: int
    metadata: Metadata
    """What was stored beside the event."""
    timestamp: datetime
    """When it was written; while its command is being handled, now."""


@dataclass(slots=True)
class ToolContext:
    """About a tool call: who makes it, and from where."""

    principal: Principal = ANONYMOUS
    session: str | None = None
    turn: int | None = None
    idempotency_key: str | None = None
    deadline: float | None = None
    """On the monotonic clock, in seconds."""
    headers: Mapping[str, str] = field(default_factory=dict)
    correlation_id: str = ""


class Cancellation:
    """Tells the code of a step that nobody waits for it any more.

    A thread can't be stopped from outside, so code that takes long asks from time to time. The
    result of a step that was cancelled is thrown away, whether it asks or not. An `async def`
    step is cancelled as asyncio does it, and need not ask.

    Example:
        >>> cancellation = Cancellation()
        >>> cancellation.is_set()
        False
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def is_set(self) -> bool:
        """Whether the step has timed out, or its workflow was suspended or terminated."""
        return self._event.is_set()

    def raise_if_set(self) -> None:
        """Raises `StepCancelledError` once nobody waits any more."""
        if self._event.is_set():
            raise StepCancelledError

    def wait(self, seconds: float) -> bool:
        """Sleep, but not longer than anybody waits; returns whether it was cancelled."""
        return self._event.wait(seconds)

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call something when nobody waits any more: to close a connection, say."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def cancel(self) -> None:
        """Called by the runtime."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                # Whoever cancels has others to tell, and a workflow to lead on.
                _log.exception("An on_cancel of a step failed")


@dataclass(slots=True)
class StepContext:
    """About the step that runs."""

    workflow_id: str
    step: str
    """The name it is stored under."""
    attempt: int
    """1 for the first."""
    idempotency_key: str
    """The same for every attempt of this run of the step: for systems outside, which are not
    called exactly once by themselves."""
    cancellation: Cancellation
    started_at: datetime
    deadline: datetime
    """When the attempt counts as failed."""
    last_error: str | None = None
    """What the attempt before failed with."""
    reason: str | None = None
    """Why what was done is taken back, in compensations and in the step after them."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """About the request that an endpoint answers: who makes it, and what came along.

    Injected into endpoint classes that ask for it, and given to FastAPI routes by
    `Depends(request_context)`.

    Example:
        >>> context = RequestContext(Principal("ada"), headers={"x-tenant": "acme"})
        >>> context.principal.subject, context.header("X-Tenant")
        ('ada', 'acme')
    """

    principal: Principal = ANONYMOUS
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name."""
    correlation_id: str = ""
    """Under which the request is found in the log."""
    traceparent: str | None = None
    """The W3C trace context it came with."""

    @property
    def claims(self) -> Claims:
        """What the caller's token said.

        Raises:
            AccessDeniedError: There was no token; ask for one with `jwt=`.
        """
        claims = self.principal.claims
        if claims is None:
            raise AccessDeniedError("This needs a caller with a token.")
        return claims

    @property
    def idempotency_key(self) -> str | None:
        """The header `Idempotency-Key`, to be given to `with_options(idempotency_key=...)`."""
        return self.header("Idempotency-Key")

    def header(self, name: str) -> str | None:
        """A header by its name in any case, or None."""
        return self.headers.get(name.lower())


current_request: ContextVar[RequestContext | None] = ContextVar(
    "greenroom_current_request", default=None
)
"""The request that the running code works for; calls of components are made on its behalf."""


LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class McpExchange(Protocol):
    """The request that a method works for, as the protocol sees it."""

    @property
    def cancelled(self) -> bool:
        """The client has stopped waiting."""
        ...

    @property
    def can_ask(self) -> bool:
        """The client's revision of the protocol lets a call end with questions."""
        ...

    @property
    def answers(self) -> Mapping[str, Mapping[str, Any]]:
        """What the client has answered so far, by key."""
        ...

    def report_progress(self, done: float, total: float | None, message: str | None) -> None:
        """Tell the client how far the call is."""
        ...

    def log(self, level: LogLevel, data: Any, logger: str | None) -> None:
        """Send the client a line for its log."""
        ...

    def announce(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell every client that listens about a change."""
        ...

    def go_on_as(self, handler: Callable[..., Any], instance: str) -> None:
        """Let the client come back for what a workflow does."""
        ...


@dataclass(slots=True)
class McpContext(ToolContext):
    """About an MCP request; a parameter of this type is given to methods of endpoints.

    Its methods may be called from threads and from coroutines, and never wait.

    Example:
        >>> @mcp_tool(description="Counts.")                              # doctest: +SKIP
        ... def count(self, to: int, context: McpContext) -> int:
        ...     for number in range(to):
        ...         context.report_progress(number, total=to)
        ...     return to
    """

    protocol_version: str = ""
    client_info: Mapping[str, Any] = field(default_factory=dict)
    """How the client names itself: `name` and `version`, not verified."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """What the client says it can do; empty before 2026-07-28, where requests don't say."""
    exchange: McpExchange | None = field(default=None, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the client has stopped waiting; for long work on a thread, which can't be ended."""
        return self.exchange is not None and self.exchange.cancelled

    def report_progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the call is; nothing happens unless it has asked for that.

        Args:
            done: How much is done; more each time.
            total: How much there is to do, when it is known.
            message: What is going on, for people.
        """
        if self.exchange is not None:
            self.exchange.report_progress(done, total, message)

    def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None:
        """Send the client a line for its log, when its revision and its request allow that."""
        if self.exchange is not None:
            self.exchange.log(level, data, logger)

    def resources_changed(self) -> None:
        """Tell clients that listen to list the resources again."""
        self._announce("notifications/resources/list_changed")

    def resource_updated(self, uri: str) -> None:
        """Tell clients that listen to a resource to read it again."""
        self._announce("notifications/resources/updated", {"uri": uri})

    def _announce(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        if self.exchange is not None:
            self.exchange.announce(method, params or {})

    def go_on_as(self, handler: Callable[..., Any], instance: str) -> None:
        """Answer this call with a task: the client comes back for what a workflow does.

        Clients that know no tasks get what the method returns.

        Args:
            handler: The command that began the workflow, `Transfer.start`: one of the tools of
                this endpoint, with `@function_tool(task=...)`.
            instance: The workflow's id.
        """
        if self.exchange is not None:
            self.exchange.go_on_as(handler, instance)

    def can(self, capability: str) -> bool:
        """Whether the client has declared a capability, as `"elicitation"`."""
        return capability in self.capabilities

    def ask(self, key: str, request: InputRequest[A]) -> A:
        """The client's answer to a question.

        Where there is none yet, the call ends here; the client comes back with the answer, and
        the method runs again from its beginning. So do nothing before it that must not happen
        twice.

        Args:
            key: Names the question within the method.
            request: An `AskForm`, `AskPage`, `AskModel` or `AskRoots`.

        Raises:
            ToolError: The client's revision of the protocol has no such questions.
        """
        [answer] = self.ask_all({key: request})
        return answer  # type: ignore[no-any-return]

    def ask_all(self, requests: Mapping[str, InputRequest[Any]]) -> list[Any]:
        """The answers to several questions, asked together; otherwise as `ask`."""
        exchange = self.exchange
        if exchange is None or not exchange.can_ask:
            message = (
                "This needs answers from the person or the model at the client, which this "
                "client's version of MCP can't be asked for. Use a client that speaks 2026-07-28."
            )
            raise ToolError(message)
        required: dict[str, Any] = {}
        for request in requests.values():
            required |= {
                name: parts
                for name, parts in request.capability.items()
                if not has_capability(self.capabilities, name, parts)
            }
        if required:
            raise MissingCapabilityError(required)
        answers: list[Any] = []
        open_: dict[str, InputRequest[Any]] = {}
        for key, request in requests.items():
            try:
                answers.append(request.read(exchange.answers[key]))
            except (KeyError, ValueError):
                open_[key] = request
        if open_:
            raise InputNeededError(open_)
        return answers
