"""Event sourced entities: commands become events, events become state."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from greenroom.components.effects import EVENT_SOURCED, EventSourcedEffects
from greenroom.components.entity import Entity
from greenroom.components.session import PHASE_EVENT

if TYPE_CHECKING:
    from greenroom.components.contexts import EventContext

S = TypeVar("S")
E = TypeVar("E")


class EventSourcedEntity(Entity[S], Generic[S, E]):
    """An entity whose state is what its events made of it.

    Type parameters are the state and the union of the events; both are stored, so their classes
    need a `@type_name`. A handler returns `self.effects.persist(event).then_reply(...)`; the
    events are stored, applied, and only then does the caller get its reply. `apply_event` runs
    again on every recovery, so it must be pure.

    Example:
        >>> @component("counter")                                     # doctest: +SKIP
        ... class Counter(EventSourcedEntity[Count, Increased]):
        ...     def empty_state(self) -> Count:
        ...         return Count()
        ...
        ...     def increase(self, by: int) -> Effect[int]:
        ...         return self.effects.persist(Increased(by=by)).then_reply(lambda c: c.total)
        ...
        ...     def apply_event(self, event: Increased) -> Count:
        ...         return Count(total=self.state.total + event.by)
    """

    kind: ClassVar[str] = "event-sourced-entity"

    @property
    def effects(self) -> EventSourcedEffects[S, E]:
        """Builds what a handler returns."""
        return EVENT_SOURCED

    @property
    def event_context(self) -> EventContext:
        """About the event being applied; only in `apply_event`."""
        session = self._greenroom
        if session.phase != PHASE_EVENT or session.contexts is None:
            self._refuse("event_context", "in apply_event")
        return session.contexts.event_context(session.event)

    @abstractmethod
    def apply_event(self, event: E, /) -> S:
        """The state after an event. Runs for each event when stored and on each recovery."""

    def _kind(self) -> tuple[Self, S, E]:
        raise NotImplementedError
