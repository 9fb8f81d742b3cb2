"""What a timer scheduler asks of a timer: the arguments checked, and made into a plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from greenroom.components import (
    TIMERS,
    Backoff,
    DeferredCall,
    Metadata,
    Schedule,
    TimerKeeper,
    TimerPlan,
    check_duration,
    check_kind,
    check_retries,
    define,
)
from greenroom.errors import InvalidCallError
from greenroom.ids import entity_ref
from greenroom.logs import correlation_id
from greenroom.runtime._calls import CallRequest, call_chain, comes_from
from greenroom.runtime._timer_targets import TargetGoneError

if TYPE_CHECKING:
    from greenroom.components import HistoryEntry, TimerStatus
    from greenroom.ids import EntityRef
    from greenroom.runtime._calls import Answer, CallOrigin
    from greenroom.runtime._timer_targets import TimerTargets

TIMER_DEFINITION = define(TimerKeeper)
"""The component that timers are instances of; every service has it."""

_LATEST = datetime(9990, 1, 1, tzinfo=UTC)


class TimerCaller(Protocol):
    """What a timer scheduler needs of the runtime."""

    @property
    def origin(self) -> CallOrigin | None: ...
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


class TimerOptions(NamedTuple):
    """How a timer's call is made."""

    max_retries: int | None
    backoff: Backoff
    timeout: timedelta
    metadata: Metadata


def timer_request(
    caller: TimerCaller, name: str, handler: str, args: tuple[Any, ...]
) -> CallRequest:
    """A command to a timer, from whoever the current call works for."""
    found = TIMER_DEFINITION.handlers[handler]
    request = CallRequest(
        entity_ref(TIMERS, name),
        found,
        found.bind(args, {}),
        correlation_id=correlation_id.get(),
        chain=call_chain.get(),
    )
    comes_from(request, caller.origin)
    return request


def timer_time(when: timedelta | datetime) -> dict[str, int]:
    """When a timer fires, as `TimerPlan` takes it: after a delay, or at a time."""
    if isinstance(when, timedelta):
        return {"delay_ms": _duration("a timer's delay", when)}
    return {"at_ms": milliseconds_of("a timer's time", when)}


def timer_plan(
    caller: TimerCaller, call: DeferredCall, options: TimerOptions, **when: Any
) -> TimerPlan:
    """What a timer is to do; raises `InvalidCallError` for what it could not carry out."""
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


def timer_schedule(
    caller: TimerCaller, every: timedelta | None, cron: str | None, timezone: str
) -> Schedule:
    """When a recurring timer fires; raises `InvalidCallError` for what is never, or no time."""
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


def milliseconds_of(what: str, at: datetime) -> int:
    """A time as milliseconds since 1970; raises `InvalidCallError` for one without a zone."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidCallError(
            f"{what} must be a datetime with a time zone, as datetime(2030, 1, 1, tzinfo=UTC), "
            f"not {at!r}."
        )
    if at.year > _LATEST.year:
        raise InvalidCallError(f"{what} is past the year {_LATEST.year}: {at}.")
    return round(at.timestamp() * 1000)
