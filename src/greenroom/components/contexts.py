"""What a handler may ask about the call, the event or the instance it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from greenroom.components.metadata import Metadata


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
