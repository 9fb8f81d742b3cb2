"""One command in; events, state and reply out. No threads, no database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar

from greenroom.clock import to_datetime
from greenroom.components import (
    CommandContext,
    Effect,
    EntityContext,
    EntitySession,
    EventContext,
    Failure,
    HandlerDefinition,
    Kinded,
    Metadata,
    PersistEvents,
    Reply,
    UpdateState,
    WithMetadata,
    define,
    new_instance,
    no_effect,
    read_only_writes,
)
from greenroom.components.session import PHASE_COMMAND, PHASE_EVENT, PHASE_IDLE
from greenroom.errors import EntityDeletedError
from greenroom.ids import EntityRef
from greenroom.runtime import codec_for
from greenroom.testkit._clock import ManualClock

C = TypeVar("C")
S = TypeVar("S")
E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_ID = "testkit-entity"


@dataclass(frozen=True, slots=True)
class CommandResult(Generic[R, S]):
    """What one command came to."""

    reply: R
    state: S
    """The state afterwards."""
    events: tuple[Any, ...] = ()
    """The events that the command persisted; of a key value entity always empty."""
    updated: bool = False
    """Whether anything would be stored."""
    deleted: bool = False
    sequence_number: int = 0
    """The number of the instance's last record."""
    expire_after: timedelta | None = None
    reply_metadata: Metadata = Metadata.EMPTY
    then_run: tuple[Callable[[], object], ...] = field(default=(), repr=False)
    """The side effects that would run once it is durable; the kit runs none by itself."""


class _Kit(Generic[C, S, E]):
    """What both kits have in common."""

    _writes: ClassVar[type[Effect[Any]]]
    """The effect with which a handler of this kind of entity stores something."""

    def __init__(
        self,
        component: type[Kinded[C, S, E]],
        *,
        entity_id: str = DEFAULT_ID,
        dependencies: Mapping[str, Any] | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self._definition = define(component)
        self._ref = EntityRef(self._definition.id, entity_id)
        self._codec = codec_for(self._definition)
        self._clock = clock or ManualClock()
        self._metadata = Metadata.EMPTY
        self._principal: str | None = None
        self._session: EntitySession[Any] = EntitySession(entity_id)
        self._session.contexts = self
        self._entity = new_instance(
            self._definition, self._session, self._given(dependencies or {})
        )
        self._session.state = self._definition.empty_state_of(self._entity)
        self._sequence_number = 0

    def _given(self, dependencies: Mapping[str, Any]) -> Mapping[str, Any]:
        wanted = {
            name
            for name, kind in self._definition.dependencies.items()
            if kind is not EntityContext
        }
        if wanted != dependencies.keys():
            message = (
                f"{self._definition.cls.__name__} asks for {sorted(wanted) or 'nothing'}, but "
                f"dependencies= has {sorted(dependencies) or 'nothing'}"
            )
            raise TypeError(message)
        return dependencies

    @property
    def state(self) -> S:
        """The state now."""
        state: S = self._session.state
        return state

    @property
    def is_deleted(self) -> bool:
        """Whether the entity was deleted."""
        return self._session.deleted

    @property
    def sequence_number(self) -> int:
        """The number of the last record."""
        return self._sequence_number

    def with_metadata(self, metadata: Metadata) -> Self:
        """Commands from now on come with this metadata."""
        self._metadata = metadata
        return self

    def with_principal(self, principal: str | None) -> Self:
        """Commands from now on are made on behalf of somebody."""
        self._principal = principal
        return self

    def run(
        self, handler: Callable[Concatenate[C, P], Effect[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> CommandResult[R, S]:
        """Handle one command.

        Arguments, events, state and reply go through JSON and back on the way, as they would
        in a running service.

        Raises:
            CommandError: The entity declined; nothing has changed.
            InvalidArgumentsError: The arguments do not fit the handler's parameters.
            EntityDeletedError: The entity was deleted, and this would be a write.
            AssertionError: The handler changed the state in place, or something does not come
                back from JSON as it was.
        """
        found = self._definition.handler_for(handler)
        values = found.decode_arguments(found.encode_arguments(found.bind(args, kwargs)))
        effect = self._handle(found, values)
        if isinstance(effect, Failure):
            raise effect.error
        if isinstance(effect, Reply):
            return CommandResult(
                self._through_json(found, effect.value),
                self.state,
                deleted=self.is_deleted,
                sequence_number=self._sequence_number,
                reply_metadata=effect.metadata or Metadata.EMPTY,
            )
        if not isinstance(effect, self._writes):
            raise TypeError(no_effect(found.target, effect))
        if found.read_only:
            raise TypeError(read_only_writes(found.target))
        if self.is_deleted:
            raise EntityDeletedError(self._ref)
        return self._store(found, effect)

    def _handle(self, handler: HandlerDefinition, values: tuple[Any, ...]) -> Any:
        session = self._session
        before = self._stored(session.state)
        session.phase, session.command = PHASE_COMMAND, handler
        try:
            effect = handler.function(self._entity, *values)
        finally:
            session.phase = PHASE_IDLE
        assert self._stored(session.state) == before, (
            f"{handler.target} changed the state in place; return an effect instead"
        )
        return effect

    def _store(self, handler: HandlerDefinition, effect: Any) -> CommandResult[Any, S]:
        raise NotImplementedError

    def _stored(self, state: Any) -> bytes:
        if state is None:
            return b"null"
        name = self._definition.stored_types[0].name
        return self._codec.encode(state, name=name).payload

    def _checked(self, state: Any) -> Any:
        """The state, which must come back from storage as it was."""
        if state is not None:
            name = self._definition.stored_types[0].name
            again = self._codec.decode(self._codec.encode(state, name=name))
            assert again == state, f"The state comes back from storage as {again!r}, not {state!r}"
        return state

    def _through_json(self, handler: HandlerDefinition, reply: Any) -> Any:
        return handler.decode_reply(handler.encode_reply(reply))

    def command_context(self, handler: HandlerDefinition, /) -> CommandContext:
        """What a handler sees as `self.command_context`."""
        return CommandContext(
            entity_id=self._ref.instance,
            command_name=handler.name,
            sequence_number=self._sequence_number,
            is_deleted=self.is_deleted,
            now=to_datetime(self._clock.now_ms()),
            metadata=self._metadata,
            principal=self._principal,
            idempotency_key=None,
            correlation_id="testkit",
        )

    def event_context(self, metadata: Metadata, /) -> EventContext:
        """What `apply_event` sees as `self.event_context`."""
        return EventContext(
            self._ref.instance,
            self._sequence_number,
            metadata,
            to_datetime(self._clock.now_ms()),
        )


class EventSourcedTestKit(_Kit[C, S, E]):
    """Tests an event sourced entity.

    Args:
        component: The entity's class.
        entity_id: The id of the instance.
        dependencies: What its constructor is given, by parameter name.
        clock: The time that handlers see and events are given; move it with `advance`.

    Example:
        >>> kit = EventSourcedTestKit(ShoppingCart).given(ItemAdded(...))   # doctest: +SKIP
        >>> result = kit.run(ShoppingCart.add_item, "tea", quantity=2)      # doctest: +SKIP
        >>> result.events, result.state                                     # doctest: +SKIP
    """

    _writes = PersistEvents

    def __init__(
        self,
        component: type[Kinded[C, S, E]],
        *,
        entity_id: str = DEFAULT_ID,
        dependencies: Mapping[str, Any] | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        super().__init__(component, entity_id=entity_id, dependencies=dependencies, clock=clock)
        self._events: list[E] = []

    @property
    def events(self) -> list[E]:
        """Every event so far."""
        return list(self._events)

    def given(self, *events: E | WithMetadata[E]) -> Self:
        """Let these events have happened before.

        Raises:
            TypeError: One is not stored by this entity, or `apply_event` returned None.
            AssertionError: One does not come back from JSON as it was.
        """
        for event in events:
            self._apply(event)
        return self

    def _apply(self, event: Any) -> E:
        metadata = Metadata.EMPTY
        if isinstance(event, WithMetadata):
            event, metadata = event.event, event.metadata
        stored: E = self._codec.decode(self._codec.encode(event))
        assert stored == event, f"The event comes back from storage as {stored!r}, not {event!r}"
        session = self._session
        self._sequence_number += 1
        session.phase, session.event = PHASE_EVENT, metadata
        try:
            state = self._entity.apply_event(stored)
        finally:
            session.phase = PHASE_IDLE
        if state is None and not self._definition.state_may_be_none:
            message = (
                f"{self._definition.cls.__name__}.apply_event returned None for "
                f"{type(stored).__name__}; return the new state"
            )
            raise TypeError(message)
        session.state = state
        self._events.append(stored)
        return stored

    def _store(self, handler: HandlerDefinition, effect: Any) -> CommandResult[Any, S]:
        before = (self._session.state, self._sequence_number, list(self._events))
        try:
            stored = tuple(self._apply(event) for event in effect.events)
            if effect.delete:
                self._sequence_number += 1
            state: S = self._checked(self._session.state)
            reply = self._through_json(handler, effect.then_reply(state))
        except BaseException:
            self._session.state, self._sequence_number, self._events = before
            raise
        self._session.deleted = effect.delete
        return CommandResult(
            reply,
            state,
            events=stored,
            updated=bool(stored) or effect.delete,
            deleted=effect.delete,
            sequence_number=self._sequence_number,
            expire_after=None if effect.delete else effect.expire_after,
            then_run=tuple(_with(function, state) for function in effect.then_run),
        )


class KeyValueTestKit(_Kit[C, S, E]):
    """Tests a key value entity.

    Example:
        >>> kit = KeyValueTestKit(ProfileEntity).given(Profile(name="Ada"))  # doctest: +SKIP
        >>> kit.run(ProfileEntity.rename, "Grace").state                     # doctest: +SKIP
    """

    _writes = UpdateState

    def given(self, state: S) -> Self:
        """Let this be the state that was stored before."""
        self._session.state = self._checked(state)
        self._sequence_number += 1
        return self

    def _store(self, handler: HandlerDefinition, effect: Any) -> CommandResult[Any, S]:
        if not effect.delete:
            self._definition.refuse_no_state(handler.target, effect.state)
        reply = self._through_json(handler, effect.reply)
        new = (
            self._definition.empty_state_of(self._entity)
            if effect.delete
            else self._checked(effect.state)
        )
        self._session.state = new
        self._session.deleted = effect.delete
        self._sequence_number += 1
        return CommandResult(
            reply,
            new,
            updated=True,
            deleted=effect.delete,
            sequence_number=self._sequence_number,
            expire_after=None if effect.delete else effect.expire_after,
            then_run=tuple(_with(function, new) for function in effect.then_run),
        )


def _with(function: Callable[[Any], object], state: Any) -> Callable[[], object]:
    return lambda: function(state)
