"""Timed actions: code that a timer runs, and that has no state of its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from greenroom.components.contexts import Cancellation
from greenroom.components.entity import Component
from greenroom.components.metadata import Metadata


class TimedActionEffect:
    """What a timed action returns: whether it is done, or is to be tried again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ActionDone(TimedActionEffect):
    """The timer has done its work."""


@dataclass(frozen=True, slots=True)
class ActionFailed(TimedActionEffect):
    """The timer tries again."""

    error: str


class TimedActionEffects:
    """Builds what a timed action returns."""

    __slots__ = ()

    def done(self) -> TimedActionEffect:
        """It is done; a recurring timer fires again at its next time."""
        return ActionDone()

    def error(self, error: str) -> TimedActionEffect:
        """It could not be done; the timer tries again, as it does after an exception.

        Args:
            error: What was wrong. It is stored, logged and listed: put no secrets in it.
        """
        return ActionFailed(str(error))


@dataclass(frozen=True, slots=True)
class TimedActionContext:
    """About the timer whose action runs."""

    timer: str
    """Its name."""
    due_at: datetime
    """When it was due, in UTC. It runs then or later: after a time when nothing ran, or
    because attempts have failed."""
    attempt: int
    """1 for the first."""
    idempotency_key: str
    """The same for every attempt at this due time: for systems outside, which are not called
    exactly once by themselves."""
    cancellation: Cancellation
    """Set when the attempt has run past its timeout, or the timer was cancelled or replaced."""
    started_at: datetime
    metadata: Metadata = Metadata.EMPTY
    """As it was given to the timer."""
    principal: str | None = None
    """On whose behalf the timer was started; what the action calls is called on the same."""
    correlation_id: str | None = None
    traceparent: str | None = None
    last_error: str | None = None
    """What the attempt before failed with."""


EFFECTS = TimedActionEffects()


class TimedAction(Component):
    """Code that timers run. It has no state; a new object is made for each call.

    Actions are public methods, `def` or `async def`, that return a `TimedActionEffect`. A `def`
    runs on a thread of its own and may block; an `async def` runs on the event loop. Whatever
    an action calls on components is carried out once, however often the action is tried; what
    it does elsewhere must bear repeating.

    Example:
        >>> @component("order-actions")                                   # doctest: +SKIP
        ... class OrderActions(TimedAction):
        ...     def __init__(self, client: ComponentClient) -> None:
        ...         self.client = client
        ...
        ...     def expire(self, order_id: str) -> TimedActionEffect:
        ...         self.client.for_key_value_entity(Order, order_id).ask(Order.expire)
        ...         return self.effects.done()
    """

    kind: ClassVar[str] = "timed-action"

    _greenroom: TimedActionContext

    @property
    def effects(self) -> TimedActionEffects:
        """Builds what an action returns."""
        return EFFECTS

    @property
    def context(self) -> TimedActionContext:
        """About the timer whose action runs."""
        return self._greenroom
