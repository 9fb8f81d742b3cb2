"""Starting, listing and cancelling timers, from code; and naming the actions they run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from greenroom.components import (
    TIMER_BACKOFF,
    TIMER_TIMEOUT,
    TIMERS,
    Backoff,
    ComponentDefinition,
    DeferredCall,
    HistoryEntry,
    Metadata,
    TimedAction,
    TimedActionEffect,
    TimerStatus,
)
from greenroom.errors import InvalidCallError
from greenroom.ids import entity_ref
from greenroom.runtime._calls import has_failed
from greenroom.runtime._timer_requests import (
    TimerCaller,
    TimerOptions,
    timer_plan,
    timer_request,
    timer_schedule,
    timer_time,
)

C = TypeVar("C")
P = ParamSpec("P")

TimerList: TypeAlias = list[TimerStatus]
TimerHistory: TypeAlias = list[HistoryEntry]


class TimerScheduler:
    """Starts and looks after timers, from threads; every method blocks until it is done.

    A timer is durable: once the method has returned, its call is made at the due time or after
    it, on whatever process lives then. The call fails when the command is declined, or anything
    is raised; it is then made again, with a key that is the same for every attempt, so that a
    component carries it out once.

    Constructors of workflows and timed actions may ask for one; elsewhere it is
    `client.timers`.

    Example:
        >>> call = client.for_key_value_entity(Order, "o-1").deferred(Order.expire)  # doctest: +SKIP
        >>> timers.start_single_timer("expire-o-1", timedelta(minutes=30), call)     # doctest: +SKIP
        >>> timers.cancel("expire-o-1")                                              # doctest: +SKIP
        True
    """

    __slots__ = ("_caller",)

    def __init__(self, caller: TimerCaller) -> None:
        self._caller = caller

    def start_single_timer(
        self,
        name: str,
        when: timedelta | datetime,
        call: DeferredCall,
        *,
        max_retries: int | None = None,
        backoff: Backoff = TIMER_BACKOFF,
        timeout: timedelta = TIMER_TIMEOUT,
        metadata: Metadata = Metadata.EMPTY,
    ) -> None:
        """Make a call once, later. A timer of the same name is replaced.

        Args:
            name: Of the timer, unique in the service; what an instance id may be.
            when: How long from now; or a time, with its zone. One that has passed is now.
            call: What to call, made by `deferred` of a client.
            max_retries: How often a failed call is made again before the timer is given up;
                without a limit by default. A timer that was given up is kept, as `dead`.
            backoff: How long to wait between the attempts (3 to 30 seconds by default).
            timeout: How long an attempt may take (a minute by default).
            metadata: Sent along with the call.

        Raises:
            InvalidIdError: The name can't be one.
            InvalidCallError: A time is not in the future, the call leads nowhere, …
            GreenroomError: What every call may raise; see `greenroom.errors`.
        """
        options = TimerOptions(max_retries, backoff, timeout, metadata)
        plan = timer_plan(self._caller, call, options, **timer_time(when))
        self._ask(name, "start", plan)

    def start_recurring_timer(  # noqa: PLR0913 - options, by name
        self,
        name: str,
        call: DeferredCall,
        *,
        every: timedelta | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        max_retries: int | None = None,
        backoff: Backoff = TIMER_BACKOFF,
        timeout: timedelta = TIMER_TIMEOUT,
        metadata: Metadata = Metadata.EMPTY,
    ) -> None:
        """Make a call again and again. A timer of the same name is replaced.

        Calls never overlap, and what was missed, because nothing ran or a call was retried, is
        made up for by one call. A timer that was given up does not fire any more.

        Args:
            name: Of the timer, unique in the service.
            call: What to call, made by `deferred` of a client.
            every: The time between two due times, the first of which comes as long from now;
                give this or `cron`.
            cron: Minute, hour, day, month and weekday, as `"30 7 * * MON-FRI"`.
            timezone: The zone in which `cron` is read, as `"Europe/Paris"`.
            max_retries: As for `start_single_timer`; counted anew at each due time.
            backoff: How long to wait between the attempts at one due time.
            timeout: How long an attempt may take.
            metadata: Sent along with each call.

        Raises:
            InvalidIdError: The name can't be one.
            InvalidCallError: The expression or the zone is wrong, the call leads nowhere, …
            GreenroomError: What every call may raise.
        """
        options = TimerOptions(max_retries, backoff, timeout, metadata)
        schedule = timer_schedule(self._caller, every, cron, timezone)
        self._ask(name, "start", timer_plan(self._caller, call, options, schedule=schedule))

    def cancel(self, name: str) -> bool:
        """Forget a timer; returns whether there was one.

        A call that is under way may still be carried out; what comes of it is not looked at.
        """
        return self._ask(name, "cancel")  # type: ignore[no-any-return]

    def resume(self, name: str) -> bool:
        """Try a dead timer again, at once; returns whether it was dead."""
        return self._ask(name, "resume")  # type: ignore[no-any-return]

    def get(self, name: str) -> TimerStatus | None:
        """A timer; None when there is none, or it has done what it was for."""
        return self._ask(name, "get")  # type: ignore[no-any-return]

    def list(
        self,
        *,
        name_contains: str | None = None,
        failing_only: bool = False,
        dead_only: bool = False,
        due_before: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> TimerList:
        """Timers in the order of their names.

        Args:
            name_contains: Only names with this text in them; ASCII letters in either case.
            failing_only: Only those whose last attempt failed, dead ones included.
            dead_only: Only those that were given up.
            due_before: Only those that next do something by then.
            after: The name after which to begin.
            limit: How many at most.
        """
        return self._caller.timers(
            name_contains=name_contains,
            failing_only=failing_only,
            dead_only=dead_only,
            due_before=due_before,
            after=after,
            limit=limit,
        )

    def history(self, name: str, *, after: int = 0, limit: int = 1000) -> TimerHistory:
        """What timers of this name have been through, from after a sequence number.

        It goes back as far as `keep_history`, and is gone `keep_deleted` after a timer is.
        """
        return self._caller.history(entity_ref(TIMERS, name), after, limit)

    def _ask(self, name: str, handler: str, *args: Any) -> Any:
        request = timer_request(self._caller, name, handler, args)
        try:
            return self._caller.call_blocking(request).value
        except BaseException:
            has_failed(request)
            raise


class AsyncTimerScheduler:
    """Starts and looks after timers, from coroutines; mirrors `TimerScheduler`.

    Constructors of workflows and timed actions may ask for one; elsewhere it is
    `async_client.timers`.
    """

    __slots__ = ("_caller",)

    def __init__(self, caller: TimerCaller) -> None:
        self._caller = caller

    async def start_single_timer(
        self,
        name: str,
        when: timedelta | datetime,
        call: DeferredCall,
        *,
        max_retries: int | None = None,
        backoff: Backoff = TIMER_BACKOFF,
        timeout: timedelta = TIMER_TIMEOUT,  # noqa: ASYNC109 - of the attempts, not of this
        metadata: Metadata = Metadata.EMPTY,
    ) -> None:
        """Make a call once, later; see `TimerScheduler.start_single_timer`."""
        options = TimerOptions(max_retries, backoff, timeout, metadata)
        plan = timer_plan(self._caller, call, options, **timer_time(when))
        await self._ask(name, "start", plan)

    async def start_recurring_timer(  # noqa: PLR0913 - options, by name
        self,
        name: str,
        call: DeferredCall,
        *,
        every: timedelta | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        max_retries: int | None = None,
        backoff: Backoff = TIMER_BACKOFF,
        timeout: timedelta = TIMER_TIMEOUT,  # noqa: ASYNC109 - of the attempts, not of this
        metadata: Metadata = Metadata.EMPTY,
    ) -> None:
        """Make a call again and again; see `TimerScheduler.start_recurring_timer`."""
        options = TimerOptions(max_retries, backoff, timeout, metadata)
        schedule = timer_schedule(self._caller, every, cron, timezone)
        await self._ask(name, "start", timer_plan(self._caller, call, options, schedule=schedule))

    async def cancel(self, name: str) -> bool:
        """Forget a timer; returns whether there was one."""
        return await self._ask(name, "cancel")  # type: ignore[no-any-return]

    async def resume(self, name: str) -> bool:
        """Try a dead timer again, at once; returns whether it was dead."""
        return await self._ask(name, "resume")  # type: ignore[no-any-return]

    async def get(self, name: str) -> TimerStatus | None:
        """A timer; None when there is none, or it has done what it was for."""
        return await self._ask(name, "get")  # type: ignore[no-any-return]

    async def list(
        self,
        *,
        name_contains: str | None = None,
        failing_only: bool = False,
        dead_only: bool = False,
        due_before: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> TimerList:
        """Timers in the order of their names; see `TimerScheduler.list`."""
        return await asyncio.to_thread(
            self._caller.timers,
            name_contains=name_contains,
            failing_only=failing_only,
            dead_only=dead_only,
            due_before=due_before,
            after=after,
            limit=limit,
        )

    async def history(self, name: str, *, after: int = 0, limit: int = 1000) -> TimerHistory:
        """What timers of this name have been through; see `TimerScheduler.history`."""
        ref = entity_ref(TIMERS, name)
        return await asyncio.to_thread(self._caller.history, ref, after, limit)

    async def _ask(self, name: str, handler: str, *args: Any) -> Any:
        request = timer_request(self._caller, name, handler, args)
        try:
            return (await self._caller.call(request)).value
        except BaseException:
            has_failed(request)
            raise


class TimedActionClient(Generic[C]):
    """Names actions of a timed action, for timers to run."""

    __slots__ = ("_definition",)

    def __init__(self, definition: ComponentDefinition) -> None:
        self._definition = definition

    def deferred(
        self,
        action: Callable[Concatenate[C, P], TimedActionEffect | Awaitable[TimedActionEffect]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> DeferredCall:
        """An action with its arguments, for a timer to run.

        Raises:
            UnknownHandlerError: It is no action of this component.
            InvalidArgumentsError: The arguments do not fit the action's parameters.

        Example:
            >>> client.for_timed_action(OrderActions).deferred(OrderActions.expire, "o-1")  # doctest: +SKIP
        """
        found = self._definition.handler_for(action)
        arguments = found.encode_arguments(found.bind(args, kwargs)).decode()
        return DeferredCall(self._definition.id, "", found.name, arguments)


def timed_action_client(
    definition: ComponentDefinition, component: type[Any]
) -> TimedActionClient[Any]:
    """The client of a timed action; raises `InvalidCallError` for another kind of component."""
    if not issubclass(component, TimedAction):
        raise InvalidCallError(
            f"{component.__name__} is no timed action: give a timer what "
            "client.for_...(...).deferred(...) returns."
        )
    return TimedActionClient(definition)
