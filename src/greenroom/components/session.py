"""How the runtime talks to an entity object: one session for each live instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from greenroom.components.contexts import CommandContext, EventContext, StepContext

S = TypeVar("S")

PHASE_IDLE, PHASE_COMMAND, PHASE_EVENT, PHASE_STEP = 0, 1, 2, 3


class Contexts(Protocol):
    """Makes contexts, for whoever asks for one while a handler or `apply_event` runs."""

    def command_context(self, command: Any, /) -> CommandContext:
        """About the command being handled."""
        ...

    def event_context(self, event: Any, /) -> EventContext:
        """About the event being applied."""
        ...


class EntitySession(Generic[S]):
    """What an entity object can see, set by whoever runs it (the runtime, or a test kit).

    Contexts are made only when a handler asks for one: most never do, and they would cost a
    tenth of a command.
    """

    __slots__ = ("command", "contexts", "deleted", "entity_id", "event", "phase", "state")

    def __init__(self, entity_id: str) -> None:
        self.entity_id = entity_id
        self.state: Any = None
        self.deleted = False
        self.phase = PHASE_IDLE
        self.contexts: Contexts | None = None
        self.command: Any = None
        """What `contexts` needs of the command being handled."""
        self.event: Any = None
        """What `contexts` needs of the event being applied."""


class WorkflowSession(EntitySession[S]):
    """What a workflow object can see: a new one for each command and each step."""

    __slots__ = ("step",)

    def __init__(self, workflow_id: str) -> None:
        super().__init__(workflow_id)
        self.step: StepContext | None = None
