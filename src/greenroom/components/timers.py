"""Timers: what is stored of one, and the commands by which it is started and stopped.

A timer is an instance of a component that every service has: its name is the instance's id. So
a timer has one owner among several processes, a history and a place in listings, as instances
have. Firing it is the runtime's business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from greenroom.clock import to_datetime
from greenroom.components.deferred import DeferredCall
from greenroom.components.definition import component
from greenroom.components.effects import Effect, ReadOnlyEffect
from greenroom.components.key_value_entity import KeyValueEntity
from greenroom.components.schedule import Schedule
from greenroom.components.step import Backoff
from greenroom.components.type_names import type_name

TIMERS = "greenroom-timers"
"""The id of the component that timers are instances of."""
RETRYING, DEAD = "retrying", "dead"
"""What the head of a timer's instance says about it, so that such timers are found."""

TIMER_BACKOFF = Backoff(min=timedelta(seconds=3), max=timedelta(seconds=30))
"""Between the attempts of a timer, unless something else is said (the Akka SDK's figures)."""
TIMER_TIMEOUT = timedelta(minutes=1)
"""How long an attempt of a timer may take, unless something else is said."""


ONCE = Schedule()


@dataclass(frozen=True, slots=True)
class TimerPlan:
    """What a timer is to do, as it is sent to the timer's owner."""

    call: DeferredCall
    delay_ms: int | None = None
    at_ms: int | None = None
    schedule: Schedule = ONCE
    max_retries: int | None = None
    backoff: Backoff = TIMER_BACKOFF
    timeout_ms: int = int(TIMER_TIMEOUT.total_seconds() * 1000)
    metadata: tuple[tuple[str, str], ...] = ()


@type_name("greenroom.timer")
@dataclass(frozen=True, slots=True)
class StoredTimer:
    """A timer that waits, is tried again, or was given up. Times are milliseconds since 1970."""

    plan: TimerPlan
    number: int
    """Names this life of the timer, for the keys of its calls: the sequence number it was
    started with. The same name started again is another timer."""
    due_at: int
    failures: int = 0
    """Attempts that failed since it was due."""
    last_error: str | None = None
    retry_at: int | None = None
    dead: bool = False
    fired: int = 0
    """How often its call has succeeded."""
    fired_at: int | None = None
    correlation: str | None = None
    traceparent: str | None = None
    principal: str | None = None

    @property
    def next_at(self) -> int | None:
        """When it next does something; None when it was given up."""
        if self.dead:
            return None
        return self.due_at if self.retry_at is None else self.retry_at

    @property
    def run(self) -> str:
        """Names what it does at its due time: the same for every attempt."""
        return f"{self.number}:{self.due_at}"

    def failed(self, error: str, *, retry_at: int | None) -> StoredTimer:
        """After an attempt that failed; without a retry it is dead."""
        return replace(
            self,
            failures=self.failures + 1,
            last_error=error,
            retry_at=retry_at,
            dead=retry_at is None,
        )

    def succeeded(self, now: int) -> StoredTimer | None:
        """After an attempt that succeeded; None when there is nothing more to do."""
        due = self.plan.schedule.after(due=self.due_at, now=now)
        if due is None:
            return None
        return replace(
            self,
            due_at=due,
            failures=0,
            last_error=None,
            retry_at=None,
            fired=self.fired + 1,
            fired_at=now,
        )

    def resumed(self, now: int) -> StoredTimer:
        """Given up, and to be tried again at once; the attempts count anew."""
        return replace(self, failures=0, retry_at=now, dead=False)

    def status(self, name: str) -> TimerStatus:
        """As it is shown."""
        plan = self.plan
        next_at, every = self.next_at, plan.schedule.every_ms
        return TimerStatus(
            name=name,
            status="dead" if self.dead else "retrying" if self.failures else "waiting",
            call=plan.call,
            due_at=to_datetime(self.due_at),
            next_at=None if next_at is None else to_datetime(next_at),
            every=None if every is None else timedelta(milliseconds=every),
            cron=plan.schedule.cron,
            timezone=plan.schedule.timezone,
            failures=self.failures,
            max_retries=plan.max_retries,
            last_error=self.last_error,
            fired=self.fired,
            fired_at=None if self.fired_at is None else to_datetime(self.fired_at),
        )


@dataclass(frozen=True, slots=True)
class TimerStatus:
    """A timer, as it is listed. Times are in UTC."""

    name: str
    status: Literal["waiting", "retrying", "dead"]
    """`retrying`: its call has failed and is made again; `dead`: it was given up."""
    call: DeferredCall
    due_at: datetime
    """When it was, or will be, due; not moved by retries."""
    next_at: datetime | None
    """When it next does something; None when it is dead."""
    every: timedelta | None = None
    cron: str | None = None
    timezone: str = "UTC"
    failures: int = 0
    """Attempts that failed since it was due."""
    max_retries: int | None = None
    last_error: str | None = None
    fired: int = 0
    """How often a recurring timer's call has succeeded."""
    fired_at: datetime | None = None
    """When it last did."""


@component(TIMERS, name="Timers", description="The timers of the service, by their names.")
class TimerKeeper(KeyValueEntity[StoredTimer | None]):
    """One timer: started, looked at, cancelled."""

    kind: ClassVar[str] = "timer"

    def empty_state(self) -> StoredTimer | None:
        """No timer."""
        return None

    def start(self, plan: TimerPlan) -> Effect[None]:
        """Start the timer, in place of the one of the same name."""
        context = self.command_context
        now = round(context.now.timestamp() * 1000)
        if plan.at_ms is not None:
            due = plan.at_ms
        elif plan.delay_ms is not None:
            due = now + plan.delay_ms
        else:
            due = plan.schedule.first(now)
        timer = StoredTimer(
            plan,
            number=context.sequence_number + 1,
            due_at=due,
            correlation=context.correlation_id,
            traceparent=context.traceparent,
            principal=context.principal,
        )
        return self.effects.update_state(timer).then_reply(None)

    def cancel(self) -> Effect[bool]:
        """Forget the timer; answers whether there was one."""
        if self.state is None:
            return self.effects.reply(False)
        return self.effects.delete_entity().then_reply(True)

    def resume(self) -> Effect[bool]:
        """Try a dead timer again, now; answers whether it was dead."""
        timer = self.state
        if timer is None or not timer.dead:
            return self.effects.reply(False)
        now = round(self.command_context.now.timestamp() * 1000)
        return self.effects.update_state(timer.resumed(now)).then_reply(True)

    def get(self) -> ReadOnlyEffect[TimerStatus | None]:
        """The timer; None when there is none of this name."""
        timer = self.state
        return self.effects.reply(None if timer is None else timer.status(self.entity_id))
