"""How the runtime talks to an entity object: one session for each live instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

S = TypeVar("S")

PHASE_IDLE, PHASE_COMMAND, PHASE_EVENT = 0, 1, 2


class EntitySession(Generic[S]):
    """What an entity object can see, set by whoever runs it (the runtime, or a test kit).

    Contexts are made only when a handler asks for one: most never do, and they would cost a
    tenth of a command.
    """

    __slots__ = (
        "command",
        "deleted",
        "entity_id",
        "event",
        "make_command_context",
        "make_event_context",
        "phase",
        "state",
    )

    def __init__(self, entity_id: str) -> None:
        self.entity_id = entity_id
        self.state: Any = None
        self.deleted = False
        self.phase = PHASE_IDLE
        self.command: Any = None
        """What `make_command_context` needs of the command being handled."""
        self.event: Any = None
        """What `make_event_context` needs of the event being applied."""
        self.make_command_context: Callable[[Any], Any] | None = None
        self.make_event_context: Callable[[Any], Any] | None = None
