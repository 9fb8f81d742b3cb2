"""What an entity can see of itself, and when."""

from typing import Any

import pytest

from greenroom import Effect, EntityContext, EventSourcedEntity, KeyValueEntity, component
from greenroom.components import EntitySession, define, new_instance
from greenroom.components.session import PHASE_COMMAND, PHASE_EVENT


@component("seen")
class Seen(EventSourcedEntity[int, str]):
    """Looks at itself in its constructor, which calls no other."""

    def __init__(self, context: EntityContext, name: str) -> None:
        self.at_first = (self.entity_id, context.entity_id, name)

    def empty_state(self) -> int: ...

    def put(self) -> Effect[int]: ...

    def apply_event(self, event: str) -> int: ...


class About:
    """Makes contexts that are easy to tell apart."""

    def command_context(self, command: Any) -> Any:
        return ("about", command)

    def event_context(self, event: Any) -> Any:
        return ("about", event)


def seen() -> tuple[Seen, EntitySession[Any]]:
    session: EntitySession[Any] = EntitySession("s-1")
    made: Seen = new_instance(define(Seen), session, {"name": "x"})
    session.state = 3
    return made, session


def test_the_id_is_there_from_the_beginning() -> None:
    entity, _ = seen()
    assert entity.at_first == ("s-1", "s-1", "x")


def test_outside_a_handler_there_is_no_state() -> None:
    entity, session = seen()
    with pytest.raises(RuntimeError, match=r"Seen\.state is only available in a command handler"):
        _ = entity.state
    for phase in (PHASE_COMMAND, PHASE_EVENT):
        session.phase = phase
        assert entity.state == 3


def test_a_state_can_not_be_set() -> None:
    entity, session = seen()
    session.phase = PHASE_COMMAND
    with pytest.raises(AttributeError):
        entity.state = 4  # type: ignore[misc]


def test_each_context_is_where_it_belongs() -> None:
    entity, session = seen()
    session.contexts = About()  # type: ignore[assignment]
    session.command, session.event = "command", "event"

    session.phase = PHASE_COMMAND
    assert entity.command_context == ("about", "command")  # type: ignore[comparison-overlap]
    with pytest.raises(RuntimeError, match=r"Seen\.event_context is only available in apply_event"):
        _ = entity.event_context
    session.phase = PHASE_EVENT
    assert entity.event_context == ("about", "event")  # type: ignore[comparison-overlap]
    with pytest.raises(RuntimeError, match=r"Seen\.command_context is only available in a command"):
        _ = entity.command_context


def test_while_an_event_is_applied_nothing_is_deleted() -> None:
    """Recovery of a deleted entity sees what its events saw when they were new."""
    entity, session = seen()
    session.deleted = True
    session.phase = PHASE_COMMAND
    assert entity.is_deleted
    session.phase = PHASE_EVENT
    assert not entity.is_deleted


def test_effects_cost_nothing() -> None:
    """They are the same object for every entity of a kind."""

    class One(KeyValueEntity[int | None]): ...

    entity, _ = seen()
    assert entity.effects is seen()[0].effects
    assert One().effects is One().effects


def test_whether_there_may_be_no_state_is_said_by_its_type() -> None:
    @component("maybe")
    class Maybe(KeyValueEntity[int | None]):
        def put(self) -> Effect[int]: ...

    assert define(Maybe).state_may_be_none
    assert not define(Seen).state_may_be_none
