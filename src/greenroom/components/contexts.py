"""What a handler may ask about the call, the event or the instance it is in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from greenroom.components.metadata import Metadata
from greenroom.errors import StepCancelledError

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
    """On whose behalf the call is made."""
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

    principal: str | None = None
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
            callback()


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
