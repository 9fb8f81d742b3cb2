"""Starting, listing and cancelling timers, from code; and naming the actions they run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
)

from greenroom.components import (
    DEAD,
    RETRYING,
    TIMER_BACKOFF,
    TIMER_TIMEOUT,
    TIMERS,
    Backoff,
    ComponentDefinition,
    DeferredCall,
    HistoryEntry,
    Metadata,
    Schedule,
    StoredTimer,
    TimedAction,
    TimedActionEffect,
    TimerKeeper,
    TimerPlan,
    TimerStatus,
    check_duration,
    check_kind,
    check_retries,
    define,
)
from greenroom.errors import InvalidCallError
from greenroom.ids import EntityRef, entity_ref
from greenroom.logs import correlation_id
from greenroom.runtime._calls import CallRequest, call_chain, comes_from, has_failed
from greenroom.runtime._timer_targets import TargetGoneError

if TYPE_CHECKING:
    from greenroom.persistence import Codec, Journal, StoredRecord
    from greenroom.runtime._calls import Answer
    from greenroom.runtime._timer_targets import TimerTargets

C = TypeVar("C")
P = ParamSpec("P")

TIMER_DEFINITION = define(TimerKeeper)
"""The component that timers are instances of; every service has it."""

_LATEST = datetime(9990, 1, 1, tzinfo=UTC)
_PAGE = 1000

TimerList: TypeAlias = list[TimerStatus]
TimerHistory: TypeAlias = list[HistoryEntry]


class TimerCaller(Protocol):
    """What a timer scheduler needs of the runtime."""

    @property
    def targets(self) -> TimerTargets: ...
    def now_ms(self) -> int: ...
    def call_blocking(self, request: CallRequest) -> Answer: ...
    async def call(self, request: CallRequest) -> Answer: ...
    def history(self, ref: EntityRef, after: int, limit: int) -> list[HistoryEntry]: ...
    def timers(
        self,
        *,
        name_contains: str | None,
        failing_only: bool,
        dead_only: bool,
        due_before: datetime | None,
        after: str | None,
        limit: int,
    ) -> list[TimerStatus]: ...


class _Options(NamedTuple):
    """How a timer's call is made."""

    max_retries: int | None
    backoff: Backoff
    timeout: timedelta
    metadata: Metadata


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
        options = _Options(max_retries, backoff, timeout, metadata)
        plan = _plan(self._caller, call, options, **_when(when))
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
        options = _Options(max_retries, backoff, timeout, metadata)
        schedule = _schedule(self._caller, every, cron, timezone)
        self._ask(name, "start", _plan(self._caller, call, options, schedule=schedule))

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
        request = _request(name, handler, args)
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
        options = _Options(max_retries, backoff, timeout, metadata)
        plan = _plan(self._caller, call, options, **_when(when))
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
        options = _Options(max_retries, backoff, timeout, metadata)
        schedule = _schedule(self._caller, every, cron, timezone)
        await self._ask(name, "start", _plan(self._caller, call, options, schedule=schedule))

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
        request = _request(name, handler, args)
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


def stored_timers(  # noqa: PLR0913 - options, by name
    journal: Journal,
    codec: Codec,
    *,
    name_contains: str | None = None,
    failing_only: bool = False,
    dead_only: bool = False,
    due_before: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[TimerStatus]:
    """Timers as they are stored, in the order of their names. Blocks on the database."""
    steps = (DEAD,) if dead_only else (RETRYING, DEAD) if failing_only else ()
    records = journal.latest(
        TIMERS,
        after=after,
        containing=name_contains,
        due_before=None if due_before is None else _milliseconds("due_before", due_before),
        steps=steps,
        limit=limit,
    )
    found = ((one.ref.instance, _read(codec, one)) for one in records)
    return [timer.status(name) for name, timer in found if timer is not None]


def stranded(
    journal: Journal,
    codec: Codec,
    targets: TimerTargets,
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[str]:
    """Each call that the code has no target for, with how many timers wait to make it.

    Blocks on the database, and reads every timer, as long as `goes_on` says so.
    """
    lost: dict[str, tuple[int, str]] = {}
    right: set[tuple[str, str, str]] = set()
    after = None
    while goes_on() and (records := journal.latest(TIMERS, after=after, limit=_PAGE)):
        for record in records:
            after = record.ref.instance
            timer = _read(codec, record)
            if timer is None:
                continue
            call = timer.plan.call
            # The arguments differ from timer to timer, and whether they fit may too.
            if (call.component, call.handler, call.arguments) in right:
                continue
            try:
                targets.find(call)
            except TargetGoneError as error:
                count, example = lost.get(str(error), (0, after))
                lost[str(error)] = count + 1, example
            else:
                right.add((call.component, call.handler, call.arguments))
        if len(records) < _PAGE:
            break
    return [
        f"{count} timer(s), as {example!r}: {problem}" for problem, (count, example) in lost.items()
    ]


def _read(codec: Codec, record: StoredRecord) -> StoredTimer | None:
    return None if record.value is None else codec.decode(record.value)


def _request(name: str, handler: str, args: tuple[Any, ...]) -> CallRequest:
    found = TIMER_DEFINITION.handlers[handler]
    request = CallRequest(
        entity_ref(TIMERS, name),
        found,
        found.bind(args, {}),
        correlation_id=correlation_id.get(),
        chain=call_chain.get(),
    )
    comes_from(request)
    return request


def _when(when: timedelta | datetime) -> dict[str, int]:
    if isinstance(when, timedelta):
        return {"delay_ms": _duration("a timer's delay", when)}
    return {"at_ms": _milliseconds("a timer's time", when)}


def _plan(caller: TimerCaller, call: DeferredCall, options: _Options, **when: Any) -> TimerPlan:
    if not isinstance(call, DeferredCall):
        raise InvalidCallError(
            "A timer makes a deferred call, as client.for_workflow(Transfer, 't-1')"
            f".deferred(Transfer.start, 5), not {call!r:.100}."
        )
    try:
        caller.targets.find(call)
    except TargetGoneError as error:
        raise InvalidCallError(f"A timer can't call {call}: {error}") from None
    try:
        check_retries(options.max_retries)
        check_kind("backoff", options.backoff, Backoff)
        check_kind("metadata", options.metadata, Metadata)
    except (TypeError, ValueError) as error:
        raise InvalidCallError(f"{error}.") from None
    return TimerPlan(
        call,
        max_retries=options.max_retries,
        backoff=options.backoff,
        timeout_ms=_duration("timeout", options.timeout),
        metadata=tuple(options.metadata),
        **when,
    )


def _schedule(
    caller: TimerCaller, every: timedelta | None, cron: str | None, timezone: str
) -> Schedule:
    if (every is None) == (cron is None):
        raise InvalidCallError("A recurring timer needs every=... or cron=..., one of them.")
    every_ms = None if every is None else _duration("every", every)
    schedule = Schedule(every_ms, cron, timezone)
    try:
        schedule.first(caller.now_ms())
    except ValueError as error:
        raise InvalidCallError(f"{str(error).rstrip('.')}.") from None
    return schedule


def _duration(what: str, duration: timedelta) -> int:
    """In milliseconds, one at least."""
    try:
        check_duration(what, duration)
    except (TypeError, ValueError) as error:
        raise InvalidCallError(f"{error}.") from None
    return max(1, int(duration.total_seconds() * 1000))


def _milliseconds(what: str, at: datetime) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidCallError(
            f"{what} must be a datetime with a time zone, as datetime(2030, 1, 1, tzinfo=UTC), "
            f"not {at!r}."
        )
    if at.year > _LATEST.year:
        raise InvalidCallError(f"{what} is past the year {_LATEST.year}: {at}.")
    return round(at.timestamp() * 1000)
