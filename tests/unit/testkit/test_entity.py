"""The kits answer as a running entity would, and tell what would fail only in production."""

import math
from dataclasses import dataclass
from datetime import timedelta

import pytest
from pydantic import BaseModel

from greenroom import (
    Effect,
    EntityContext,
    EventSourcedEntity,
    KeyValueEntity,
    Metadata,
    ReadOnlyEffect,
    Service,
    component,
    type_name,
)
from greenroom.errors import (
    CommandError,
    EntityDeletedError,
    HandlerError,
    InvalidArgumentsError,
    UnknownHandlerError,
)
from greenroom.testkit import EventSourcedTestKit, KeyValueTestKit, ServiceTestKit
from tests.support.components import (
    Count,
    Counter,
    Increased,
    Noted,
    Profile,
    ProfileEntity,
    TooMuchError,
)


def test_a_command_gives_its_events_and_the_new_state() -> None:
    kit = EventSourcedTestKit(Counter).given(Increased(by=3))

    result = kit.run(Counter.increase_twice, 5)

    assert result.reply == 13
    assert result.events == (Increased(by=5), Increased(by=5))
    assert result.state == kit.state == Count(total=13)
    assert (result.sequence_number, result.updated) == (3, True)
    assert kit.events == [Increased(by=3), Increased(by=5), Increased(by=5)]


def test_what_is_declined_is_raised_and_changes_nothing() -> None:
    kit = EventSourcedTestKit(Counter).given(Increased(by=3))
    with pytest.raises(TooMuchError):
        kit.run(Counter.increase, 2_000_000)
    with pytest.raises(TooMuchError):
        kit.run(Counter.increase_and_decline, 1)
    with pytest.raises(CommandError, match="on purpose"):
        kit.run(Counter.decline)

    assert (kit.state, kit.sequence_number) == (Count(total=3), 1)


def test_calls_are_checked_as_by_a_client() -> None:
    kit = EventSourcedTestKit(Counter)
    with pytest.raises(InvalidArgumentsError, match="by"):
        kit.run(Counter.increase, -1)
    with pytest.raises(UnknownHandlerError):
        kit.run(ProfileEntity.rename, "x")  # type: ignore[arg-type]


def test_contexts_are_there_for_handlers() -> None:
    kit = EventSourcedTestKit(Counter).given(Increased(by=3))
    kit.with_metadata(Metadata([("colour", "blue")]))

    assert kit.run(Counter.colour).reply == "blue"
    assert kit.run(Counter.version).reply == 1


def test_expiry_deletion_and_side_effects_are_told_not_done() -> None:
    kit = EventSourcedTestKit(Counter)
    assert kit.run(Counter.keep_for, 60).expire_after == timedelta(seconds=60)
    [run] = kit.run(Counter.increase_and_run, 1).then_run
    run()
    assert kit.run(Counter.delete).deleted
    assert kit.is_deleted
    assert kit.run(Counter.total).reply == 2
    with pytest.raises(EntityDeletedError):
        kit.run(Counter.increase)


def test_metadata_of_an_event_does_not_hide_the_event() -> None:
    result = EventSourcedTestKit(Counter).run(Counter.note, "hello")

    assert result.events == (Noted(text="hello"),)


def test_a_key_value_entity_is_tested_by_its_state() -> None:
    kit = KeyValueTestKit(ProfileEntity).given(Profile(name="Ada", tags=["a"]))

    result = kit.run(ProfileEntity.rename, "Grace")

    assert result.state == result.reply == Profile(name="Grace", tags=["a"])
    assert kit.run(ProfileEntity.delete).deleted
    assert kit.state == Profile()


@dataclass
class Limit:
    """Something to be injected."""

    value: int


@type_name("kit-box")
class Box(BaseModel):
    things: list[str] = []
    weight: float = 0.0


@component("kit-box")
class BoxEntity(KeyValueEntity[Box]):
    """Does what one must not do."""

    def empty_state(self) -> Box:
        return Box()

    def put_in_place(self, thing: str) -> Effect[int]:
        self.state.things.append(thing)
        return self.effects.update_state(self.state).then_reply(len(self.state.things))

    def weigh(self, weight: float) -> Effect[None]:
        return self.effects.update_state(Box(weight=weight * math.inf)).then_reply(None)

    def read_and_write(self) -> ReadOnlyEffect[str]:
        return self.effects.update_state(Box(weight=1)).then_reply("x")  # type: ignore[return-value]

    def lie(self) -> ReadOnlyEffect[int]:
        return self.effects.reply("not a number")  # type: ignore[return-value]


def test_a_handler_that_changes_the_state_in_place_is_told() -> None:
    with pytest.raises(AssertionError, match="put_in_place changed the state in place"):
        KeyValueTestKit(BoxEntity).run(BoxEntity.put_in_place, "book")


def test_a_state_that_can_not_be_stored_is_told() -> None:
    with pytest.raises(ValueError, match="NaN"):
        KeyValueTestKit(BoxEntity).run(BoxEntity.weigh, 1.0)
    with pytest.raises(InvalidArgumentsError, match="weight"):
        KeyValueTestKit(BoxEntity).run(BoxEntity.weigh, math.nan)


@component("kit-forgetful")
class Forgetful(EventSourcedEntity[Box, Increased]):
    """Asks for something, and forgets to return a state."""

    def __init__(self, context: EntityContext, limit: Limit) -> None:
        self.known = (context.entity_id, self.entity_id, limit.value)

    def empty_state(self) -> Box:
        return Box()

    def add(self) -> Effect[str]:
        effects = self.effects.persist(Increased(by=1)).expire_after(timedelta(days=1))
        return effects.delete_entity().then_reply(lambda _box: "added")

    def what(self) -> ReadOnlyEffect[tuple[str, str, int]]:
        return self.effects.reply(self.known)

    def apply_event(self, event: Increased) -> Box:
        if self.known[-1] > 3:
            return Box()
        return None  # type: ignore[return-value]


def test_a_constructor_gets_what_it_asks_for() -> None:
    kit = EventSourcedTestKit(Forgetful, entity_id="f-1", dependencies={"limit": Limit(3)})
    assert kit.run(Forgetful.what).reply == ("f-1", "f-1", 3)
    with pytest.raises(TypeError, match=r"Forgetful asks for \['limit'\], but.*nothing"):
        EventSourcedTestKit(Forgetful)


def test_an_event_that_leaves_no_state_is_told() -> None:
    kit = EventSourcedTestKit(Forgetful, dependencies={"limit": Limit(3)})
    with pytest.raises(TypeError, match="apply_event returned None for Increased"):
        kit.run(Forgetful.add)
    assert (kit.sequence_number, kit.events) == (0, [])


def test_what_is_deleted_does_not_expire() -> None:
    kit = EventSourcedTestKit(Forgetful, dependencies={"limit": Limit(4)})
    result = kit.run(Forgetful.add)
    assert (result.deleted, result.expire_after) == (True, None)


@component("unfinished-events")
class UnfinishedEvents(EventSourcedEntity[Box, Increased]):
    """Forgets to say what it answers."""

    def empty_state(self) -> Box:
        return Box()

    def add(self) -> Effect[int]:
        return self.effects.persist(Increased(by=1))  # type: ignore[return-value]

    def read(self) -> ReadOnlyEffect[int]:
        return self.effects.persist(Increased(by=1))  # type: ignore[return-value]

    def nothing(self) -> Effect[int]: ...

    def apply_event(self, event: Increased) -> Box:
        return Box()


@component("unfinished-state")
class UnfinishedState(KeyValueEntity[int]):
    """As its sibling."""

    def empty_state(self) -> int:
        return 0

    def put(self) -> Effect[int]:
        return self.effects.update_state(1)  # type: ignore[return-value]


FORGOTTEN = "returned an unfinished effect; end it with .then_reply"


def test_a_forgotten_reply_is_told() -> None:
    for handler in (UnfinishedEvents.add, UnfinishedEvents.read):
        with pytest.raises(TypeError, match=FORGOTTEN):
            EventSourcedTestKit(UnfinishedEvents).run(handler)
    with pytest.raises(TypeError, match="returned None, which is no effect"):
        EventSourcedTestKit(UnfinishedEvents).run(UnfinishedEvents.nothing)
    with pytest.raises(TypeError, match=FORGOTTEN):
        KeyValueTestKit(UnfinishedState).run(UnfinishedState.put)


def test_a_running_service_tells_a_forgotten_reply_in_its_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unfinished = Service("unfinished", components=[UnfinishedEvents, UnfinishedState])
    with ServiceTestKit(unfinished) as kit:
        for number, handler in enumerate((UnfinishedEvents.add, UnfinishedEvents.read)):
            with pytest.raises(HandlerError):
                kit.client.for_event_sourced_entity(UnfinishedEvents, f"e-{number}").ask(handler)
        with pytest.raises(HandlerError):
            kit.client.for_key_value_entity(UnfinishedState, "s").ask(UnfinishedState.put)

    told = [str(one.exc_info[1]) for one in caplog.records if one.exc_info]
    assert [FORGOTTEN in text for text in told] == [True, True, True]


def test_a_read_only_handler_that_writes_is_told() -> None:
    with pytest.raises(TypeError, match="read_and_write is read-only but returned"):
        KeyValueTestKit(BoxEntity).run(BoxEntity.read_and_write)


def test_a_reply_of_another_type_is_told() -> None:
    with pytest.raises(Exception, match="Expected `int`"):
        KeyValueTestKit(BoxEntity).run(BoxEntity.lie)


@component("kit-nickname")
class Nickname(KeyValueEntity[str | None]):
    def set(self, name: str | None) -> Effect[str | None]:
        return self.effects.update_state(name).then_reply(name)


def test_none_is_a_state_where_the_class_says_so() -> None:
    kit = KeyValueTestKit(Nickname).given("Ada")

    result = kit.run(Nickname.set, None)

    assert (result.state, result.updated, result.deleted) == (None, True, False)
    assert kit.run(Nickname.set, "Grace").state == "Grace"


def test_none_is_no_state_elsewhere() -> None:
    @component("kit-named")
    class Named(KeyValueEntity[str]):
        def empty_state(self) -> str:
            return ""

        def forget(self) -> Effect[None]:
            return self.effects.update_state(None).then_reply(None)  # type: ignore[arg-type]

    kit = KeyValueTestKit(Named).given("Ada")
    with pytest.raises(
        TypeError, match=r"kit-named.forget: None .* delete_entity\(\).*\[str \| None"
    ):
        kit.run(Named.forget)
    assert kit.state == "Ada"
