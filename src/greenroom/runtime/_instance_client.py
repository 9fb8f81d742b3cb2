"""Typed calls to one instance, from threads and from coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from greenroom.components import (
    RESUME,
    STATUS,
    SUSPEND,
    TERMINATE,
    DeferredCall,
    Effect,
    Metadata,
    WorkflowStatus,
    check_reason,
    current_request,
)
from greenroom.errors import InvalidCallError
from greenroom.ids import EntityRef
from greenroom.logs import correlation_id
from greenroom.runtime._call_options import NO_OPTIONS, CallOptions, Retries
from greenroom.runtime._calls import CallRequest, call_chain, comes_from, has_failed
from greenroom.runtime._timer_requests import TimerCaller

if TYPE_CHECKING:
    from greenroom.components import ComponentDefinition, HandlerDefinition
    from greenroom.persistence import InstanceSummary
    from greenroom.runtime._calls import Answer
    from greenroom.runtime._look import StoredEvent

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class DetailedReply(Generic[R]):
    """A reply with what is known about it."""

    value: R
    sequence_number: int
    """The instance's version after the command."""
    token: str
    """Names the instance and its version, for a view query that should wait for it."""
    metadata: Metadata = Metadata.EMPTY


class Caller(TimerCaller, Protocol):
    """What a client needs of the runtime."""

    def definition_of(self, component: type) -> ComponentDefinition: ...
    def call_blocking(self, request: CallRequest) -> Answer: ...
    async def call(self, request: CallRequest) -> Answer: ...
    def send(self, request: CallRequest) -> None: ...
    def instances(self, component: str, after: str | None, limit: int) -> list[InstanceSummary]: ...
    def events(self, ref: EntityRef, after: int, limit: int) -> list[StoredEvent[Any]]: ...
    def state_at(self, ref: EntityRef, sequence_number: int | None) -> Any: ...


class _Reference(Generic[C]):
    """One instance, and how it is to be called."""

    __slots__ = ("_caller", "_definition", "_options", "_ref")

    def __init__(
        self,
        caller: Caller,
        definition: ComponentDefinition,
        ref: EntityRef,
        options: CallOptions = NO_OPTIONS,
    ) -> None:
        self._caller = caller
        self._definition = definition
        self._ref = ref
        self._options = options

    def _request(
        self, handler: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> CallRequest:
        found = self._definition.handler_for(handler)
        return self._request_for(found, found.bind(args, kwargs))

    def _request_for(self, handler: HandlerDefinition, values: tuple[Any, ...]) -> CallRequest:
        options = self._options
        asked = current_request.get()
        subject = None if asked is None else asked.principal.subject
        trace = None if asked is None else asked.traceparent
        if options is NO_OPTIONS:
            request = CallRequest(
                self._ref,
                handler,
                values,
                principal=subject,
                correlation_id=correlation_id.get(),
                traceparent=trace,
                chain=call_chain.get(),
            )
        else:
            request = CallRequest(
                self._ref,
                handler,
                values,
                timeout=None if options.timeout is None else options.timeout.total_seconds(),
                metadata=options.metadata,
                idempotency_key=options.idempotency_key,
                expected_version=options.expected_version,
                principal=subject if options.principal is None else options.principal,
                correlation_id=options.correlation_id or correlation_id.get(),
                traceparent=trace,
                chain=call_chain.get(),
            )
        comes_from(request, self._caller.origin)
        return request

    def deferred(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> DeferredCall:
        """A command to be sent later: by a timer, or to start a child of a workflow.

        Raises:
            InvalidArgumentsError: The arguments do not fit the handler's parameters.
        """
        found = self._definition.handler_for(handler)
        arguments = found.encode_arguments(found.bind(args, kwargs)).decode()
        return DeferredCall(self._ref.component, self._ref.instance, found.name, arguments)

    def _operation(self, name: str, *values: Any) -> CallRequest:
        return self._request_for(self._definition.handler_named(name), values)

    def _detailed(self, answer: Answer) -> DetailedReply[Any]:
        return DetailedReply(
            answer.value,
            answer.sequence_number,
            f"{self._ref.component}/{self._ref.instance}@{answer.sequence_number}",
            answer.metadata or Metadata.EMPTY,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._ref}>"


class EntityClient(_Reference[C]):
    """Calls one instance of an entity, blocking the thread until it has answered.

    Example:
        >>> cart.ask(ShoppingCart.add_item, "tea", quantity=2)   # doctest: +SKIP
        Cart(...)
    """

    __slots__ = ()

    def ask(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Send a command and wait for the reply.

        Raises:
            CommandError: The entity declined the command.
            InvalidArgumentsError: The arguments do not fit the handler's parameters.
            CallTimeoutError: No answer in time; the command may still be carried out.
            EntityUnavailableError: It was not carried out and may be sent again.
            BlockingCallError: On an event loop, or inside a handler.
            GreenroomError: See `greenroom.errors` for the others.
        """
        return self._answer(handler, args, kwargs).value  # type: ignore[no-any-return]

    def ask_detailed(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> DetailedReply[R]:
        """Like `ask`, with the instance's new version and the reply's metadata."""
        return self._detailed(self._answer(handler, args, kwargs))

    def tell(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Send a command without waiting. Whether it was carried out is not reported.

        Raises:
            InvalidArgumentsError: The arguments do not fit the handler's parameters.
            OverloadedError: The instance's mailbox is full.
        """
        self._caller.send(self._request(handler, args, kwargs))

    def with_options(
        self,
        *,
        timeout: timedelta | None = None,
        metadata: Metadata | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
        retries: Retries | int | None = None,
        principal: str | None = None,
        correlation_id: str | None = None,
    ) -> Self:
        """The same instance, called with these options; what is not given stays as it is.

        Args:
            timeout: How long to wait for an answer (default: the service's `ask_timeout`).
            metadata: Read by the handler as `self.command_context.metadata`; not stored.
            idempotency_key: The same key again gets the same reply and does nothing.
            expected_version: Refuse unless the instance is at this sequence number.
            retries: How often to repeat after a failure that changed nothing.
            principal: On whose behalf the call is made; by default that of the request.
            correlation_id: Under which the call is logged.
        """
        options = self._options.with_changes(
            timeout=timeout,
            metadata=metadata,
            idempotency_key=idempotency_key,
            expected_version=expected_version,
            retries=retries,
            principal=principal,
            correlation_id=correlation_id,
        )
        return type(self)(self._caller, self._definition, self._ref, options)

    def _answer(
        self, handler: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Answer:
        return self._carry_out(self._request(handler, args, kwargs))

    def _carry_out(self, request: CallRequest) -> Answer:
        retries = self._options.retries
        attempt = 0
        while True:
            try:
                return self._caller.call_blocking(request)
            except BaseException as error:
                attempt += 1
                if retries is None or not retries.goes_on(attempt, error, request):
                    has_failed(request)
                    raise
            request = request.again()
            time.sleep(retries.pause(attempt))


class WorkflowClient(EntityClient[C]):
    """Calls one instance of a workflow, and steers it from outside.

    Example:
        >>> transfer = client.for_workflow(Transfer, "t-1")             # doctest: +SKIP
        >>> transfer.ask(Transfer.start, 5)                             # doctest: +SKIP
        >>> transfer.suspend("the bank is closed")                      # doctest: +SKIP
    """

    __slots__ = ()

    def status(self) -> WorkflowStatus:
        """Where the instance stands; raises what `ask` raises."""
        return self._carry_out(self._operation(STATUS)).value  # type: ignore[no-any-return]

    def suspend(self, reason: str | None = None) -> None:
        """Stop where it is: the step under way is abandoned, and runs again after `resume`.

        Of one that is suspended already, was not started, or is over, nothing changes.

        Args:
            reason: Why. It is stored, logged and shown: put no secrets in it.
        """
        self._carry_out(self._operation(SUSPEND, _reason(reason)))

    def resume(self) -> None:
        """Go on after `suspend`; what came due meanwhile happens now."""
        self._carry_out(self._operation(RESUME))

    def terminate(self, reason: str | None = None) -> None:
        """End the instance at once, for good; its state stays. Children are terminated too.

        An instance that was never started can't be started any more. The first reason counts.
        """
        self._carry_out(self._operation(TERMINATE, _reason(reason)))


class AsyncEntityClient(_Reference[C]):
    """Calls one instance of an entity from a coroutine."""

    __slots__ = ()

    async def ask(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Send a command and wait for the reply; raises what `EntityClient.ask` raises."""
        return (await self._answer(handler, args, kwargs)).value  # type: ignore[no-any-return]

    async def ask_detailed(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> DetailedReply[R]:
        """Like `ask`, with the instance's new version and the reply's metadata."""
        return self._detailed(await self._answer(handler, args, kwargs))

    def tell(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Send a command without waiting. Whether it was carried out is not reported."""
        self._caller.send(self._request(handler, args, kwargs))

    def with_options(
        self,
        *,
        timeout: timedelta | None = None,
        metadata: Metadata | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
        retries: Retries | int | None = None,
        principal: str | None = None,
        correlation_id: str | None = None,
    ) -> Self:
        """The same instance, called with these options; see `EntityClient.with_options`."""
        options = self._options.with_changes(
            timeout=timeout,
            metadata=metadata,
            idempotency_key=idempotency_key,
            expected_version=expected_version,
            retries=retries,
            principal=principal,
            correlation_id=correlation_id,
        )
        return type(self)(self._caller, self._definition, self._ref, options)

    async def _answer(
        self, handler: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Answer:
        return await self._carry_out(self._request(handler, args, kwargs))

    async def _carry_out(self, request: CallRequest) -> Answer:
        retries = self._options.retries
        attempt = 0
        while True:
            try:
                return await self._caller.call(request)
            except BaseException as error:
                attempt += 1
                if retries is None or not retries.goes_on(attempt, error, request):
                    has_failed(request)
                    raise
            request = request.again()
            await asyncio.sleep(retries.pause(attempt))


class AsyncWorkflowClient(AsyncEntityClient[C]):
    """Calls one instance of a workflow from a coroutine; mirrors `WorkflowClient`."""

    __slots__ = ()

    async def status(self) -> WorkflowStatus:
        """Where the instance stands; raises what `ask` raises."""
        answer = await self._carry_out(self._operation(STATUS))
        return answer.value  # type: ignore[no-any-return]

    async def suspend(self, reason: str | None = None) -> None:
        """Stop where it is; see `WorkflowClient.suspend`."""
        await self._carry_out(self._operation(SUSPEND, _reason(reason)))

    async def resume(self) -> None:
        """Go on after `suspend`; what came due meanwhile happens now."""
        await self._carry_out(self._operation(RESUME))

    async def terminate(self, reason: str | None = None) -> None:
        """End the instance at once, for good; see `WorkflowClient.terminate`."""
        await self._carry_out(self._operation(TERMINATE, _reason(reason)))


def _reason(reason: str | None) -> str | None:
    try:
        check_reason(reason)
    except ValueError as error:
        raise InvalidCallError(str(error)) from None
    return reason
