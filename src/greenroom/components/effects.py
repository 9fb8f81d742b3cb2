"""What a handler asks for, as plain data. The runtime carries it out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from types import FunctionType, MethodType
from typing import Any, Generic, Never, TypeVar

from greenroom.components.metadata import Metadata
from greenroom.errors import CommandError

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class Effect(Generic[R_co]):
    """What a command handler returns: `Effect[R]` answers with an `R`."""

    __slots__ = ()


class ReadOnlyEffect(Effect[R_co]):
    """The effect of a handler that changes nothing; tools of such handlers are read-only."""

    __slots__ = ()


@dataclass(slots=True)
class WithMetadata(Generic[E_co]):
    """An event, with metadata that is stored beside it."""

    event: E_co
    metadata: Metadata


@dataclass(slots=True)
class Reply(ReadOnlyEffect[R]):
    """Answer with a value."""

    value: R
    metadata: Metadata | None = None


@dataclass(slots=True)
class Failure(ReadOnlyEffect[Never]):
    """Decline the command."""

    error: CommandError


@dataclass(slots=True)
class PersistEvents(Effect[R]):
    """Store events, then answer."""

    events: tuple[Any, ...]
    delete: bool
    expire_after: timedelta | None
    then_run: tuple[Callable[[Any], object], ...]
    then_reply: Callable[[Any], R]


@dataclass(slots=True)
class UpdateState(Effect[R]):
    """Store a new state, or delete it, then answer."""

    state: Any
    metadata: Metadata | None
    delete: bool
    expire_after: timedelta | None
    then_run: tuple[Callable[[Any], object], ...]
    reply: R


class Persisted(Generic[S]):
    """Events to be stored; `then_reply` makes it an effect."""

    __slots__ = ("_delete", "_events", "_expire_after", "_then_run")

    def __init__(self, events: tuple[Any, ...]) -> None:
        self._events = events
        self._delete = False
        self._expire_after: timedelta | None = None
        self._then_run: tuple[Callable[[Any], object], ...] = ()

    def delete_entity(self) -> Persisted[S]:
        """Delete the entity with these events; it then takes no more writes."""
        self._delete = True
        return self

    def expire_after(self, duration: timedelta) -> Persisted[S]:
        """Delete the entity when nothing is persisted for so long; the next persist cancels it."""
        self._expire_after = _positive(duration)
        return self

    def then_run(self, function: Callable[[S], object]) -> Persisted[S]:
        """Run a side effect with the new state once the events are durable, at most once.

        Not after a crash, not on replay, not for a repeated idempotency key. What it raises is
        logged.
        """
        self._then_run = (*self._then_run, plain_function(function))
        return self

    def then_reply(self, reply: Callable[[S], R]) -> Effect[R]:
        """Answer with a function of the new state. It must be pure: it runs before the commit.

        A function, since only the events make the state; after `update_state`, where the new
        state is at hand, `then_reply` takes the value itself.

        Raises:
            TypeError: It is a value.
        """
        if not callable(reply):
            message = (
                "then_reply takes a function of the new state after persist, as "
                f"then_reply(lambda state: ...), not {reply!r:.200}"
            )
            raise TypeError(message)
        return PersistEvents(self._events, self._delete, self._expire_after, self._then_run, reply)


class Updated(Generic[S]):
    """A state to be stored; `then_reply` makes it an effect."""

    __slots__ = ("_delete", "_expire_after", "_metadata", "_state", "_then_run")

    def __init__(self, state: Any, metadata: Metadata | None, *, delete: bool) -> None:
        self._state = state
        self._metadata = metadata
        self._delete = delete
        self._expire_after: timedelta | None = None
        self._then_run: tuple[Callable[[Any], object], ...] = ()

    def expire_after(self, duration: timedelta) -> Updated[S]:
        """Delete the entity when nothing is stored for so long; the next update cancels it."""
        self._expire_after = _positive(duration)
        return self

    def then_run(self, function: Callable[[S], object]) -> Updated[S]:
        """Run a side effect with the new state once it is durable, at most once."""
        self._then_run = (*self._then_run, plain_function(function))
        return self

    def then_reply(self, reply: R) -> Effect[R]:
        """Answer with a value; the new state is at hand, so no function is needed.

        Raises:
            TypeError: It is a function.
        """
        if isinstance(reply, FunctionType | MethodType):
            message = "then_reply takes the reply itself after update_state, not a function"
            raise TypeError(message)
        return UpdateState(
            self._state, self._metadata, self._delete, self._expire_after, self._then_run, reply
        )


class EntityEffects:
    """What every entity's handler may ask for."""

    __slots__ = ()

    def reply(self, value: R, metadata: Metadata | None = None) -> ReadOnlyEffect[R]:
        """Answer with a value; nothing is stored."""
        return Reply(value, metadata)

    def error(self, error: str | CommandError) -> ReadOnlyEffect[Never]:
        """Decline the command; the caller sees this text, or this very error."""
        return Failure(error if isinstance(error, CommandError) else CommandError(error))


class EventSourcedEffects(EntityEffects, Generic[S, E]):
    """What a handler of an event sourced entity may ask for."""

    __slots__ = ()

    def persist(self, event: E | WithMetadata[E], /, *more: E | WithMetadata[E]) -> Persisted[S]:
        """Store one event or several, all or none."""
        return Persisted((event, *more))

    def persist_all(self, events: Iterable[E | WithMetadata[E]]) -> Persisted[S]:
        """Store any number of events, all or none; an empty list stores none and answers."""
        return Persisted(tuple(events))


class KeyValueEffects(EntityEffects, Generic[S]):
    """What a handler of a key value entity may ask for."""

    __slots__ = ()

    def update_state(self, state: S, metadata: Metadata | None = None) -> Updated[S]:
        """Store a new state in place of the old one.

        None is a state where the class says so, as `KeyValueEntity[Profile | None]`; elsewhere
        the command fails. It is not a deletion: the instance goes on to take writes.
        """
        return Updated(state, metadata, delete=False)

    def delete_entity(self, metadata: Metadata | None = None) -> Updated[S]:
        """Delete the entity: it reads as empty, and takes no more writes."""
        return Updated(None, metadata, delete=True)


def no_effect(target: str, returned: object) -> str:
    """What to tell whoever wrote a handler that returned something else than its effect.

    Args:
        target: The handler, as `component.handler`.
        returned: What it returned.
    """
    if isinstance(returned, Persisted | Updated):
        begun = "persist(...)" if isinstance(returned, Persisted) else "update_state(...)"
        return (
            f"{target} returned an unfinished effect; end it with .then_reply(...), "
            f"as self.effects.{begun}.then_reply({_REPLIES[type(returned)]})"
        )
    if isinstance(returned, PersistEvents | UpdateState):
        return f"{target} returned an effect of another kind of entity; use self.effects"
    if isinstance(returned, Effect):
        return f"{target} returned {returned!r}, which nobody knows how to carry out"
    return (
        f"{target} returned {returned!r:.200}, which is no effect; "
        "return one, as self.effects.reply(...)"
    )


def read_only_writes(target: str) -> str:
    """What to tell whoever wrote a handler that stores something and said that it would not."""
    return f"{target} is read-only but returned an effect that stores; let it return Effect[...]"


_REPLIES = {Persisted: "lambda state: ...", Updated: "..."}


def plain_function(function: Callable[[Any], object]) -> Callable[[Any], object]:
    """The function of a `then_run`; raises `TypeError` for a coroutine function."""
    if inspect.iscoroutinefunction(function):
        message = "then_run needs a plain function: nobody would await a coroutine."
        raise TypeError(message)
    return function


def _positive(duration: timedelta) -> timedelta:
    if duration <= timedelta(0):
        message = f"expire_after needs a time above zero, not {duration}."
        raise ValueError(message)
    return duration


EVENT_SOURCED: EventSourcedEffects[Any, Any] = EventSourcedEffects()
KEY_VALUE: KeyValueEffects[Any] = KeyValueEffects()
