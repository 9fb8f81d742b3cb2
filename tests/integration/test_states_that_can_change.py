"""States that handlers could change in place: nothing that was not stored is ever read."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from greenroom import (
    CommandError,
    Effect,
    EventSourcedEntity,
    KeyValueEntity,
    ReadOnlyEffect,
    StepEffect,
    Workflow,
    component,
    step,
    type_name,
)
from greenroom.runtime import Runtime
from greenroom.settings import Settings
from tests.support.eventually import eventually


@type_name("basket")
class Basket(BaseModel):
    """Not frozen, on purpose."""

    things: list[str] = []


@type_name("thing-added")
class Added(BaseModel):
    thing: str


@component("kv-basket")
class KeyValueBasket(KeyValueEntity[Basket]):
    def empty_state(self) -> Basket:
        return Basket()

    def spoil(self, how: str) -> Effect[None]:
        self.state.things.append("spoiled")
        if how == "raise":
            raise CommandError("no")
        return self.effects.error("no")

    def add(self, thing: str) -> Effect[None]:
        return self.effects.update_state(Basket(things=[*self.state.things, thing])).then_reply(
            None
        )

    def look(self) -> ReadOnlyEffect[Basket]:
        return self.effects.reply(self.state)


@component("es-basket")
class EventSourcedBasket(EventSourcedEntity[Basket, Added]):
    def empty_state(self) -> Basket:
        return Basket()

    def spoil(self, how: str) -> Effect[None]:
        self.state.things.append("spoiled")
        if how == "raise":
            raise CommandError("no")
        return self.effects.error("no")

    def add(self, thing: str) -> Effect[None]:
        return self.effects.persist(Added(thing=thing)).then_reply(lambda _: None)

    def look(self) -> ReadOnlyEffect[Basket]:
        return self.effects.reply(self.state)

    def apply_event(self, event: Added) -> Basket:
        self.state.things.append(event.thing)
        return self.state


@component("workflow-basket")
class WorkflowBasket(Workflow[Basket]):
    def empty_state(self) -> Basket:
        return Basket()

    def spoil(self, how: str) -> Effect[None]:
        self.state.things.append("spoiled")
        if how == "raise":
            raise CommandError("no")
        return self.effects.reply(None)

    def add(self, thing: str) -> Effect[None]:
        return self.effects.update_state(Basket(things=[*self.state.things, thing])).then_reply(
            None
        )

    def go(self) -> Effect[None]:
        self.state.things.append("spoiled")
        return self.effects.transition_to(self.work).then_reply(None)

    def look(self) -> ReadOnlyEffect[Basket]:
        return self.effects.reply(self.state)

    @step
    def work(self) -> StepEffect:
        self.state.things.append("spoiled too")
        return self.step_effects.end()


@pytest.fixture
def runtime(sqlite_url: str) -> Iterator[Runtime]:
    settings = Settings(database_url=sqlite_url)
    started = Runtime([KeyValueBasket, EventSourcedBasket, WorkflowBasket], settings=settings)
    started.start()
    yield started
    started.stop()


@pytest.mark.parametrize("how", ["raise", "return"])
def test_what_a_declined_command_has_changed_is_forgotten(runtime: Runtime, how: str) -> None:
    first = runtime.client.for_key_value_entity(KeyValueBasket, "b")
    first.ask(KeyValueBasket.add, "tea")
    with pytest.raises(CommandError):
        first.ask(KeyValueBasket.spoil, how)
    assert first.ask(KeyValueBasket.look).things == ["tea"]

    second = runtime.client.for_event_sourced_entity(EventSourcedBasket, "b")
    second.ask(EventSourcedBasket.add, "tea")
    with pytest.raises(CommandError):
        second.ask(EventSourcedBasket.spoil, how)
    assert second.ask(EventSourcedBasket.look).things == ["tea"]


def test_commands_and_steps_of_a_workflow_change_copies(runtime: Runtime) -> None:
    basket = runtime.client.for_workflow(WorkflowBasket, "b")
    basket.ask(WorkflowBasket.add, "tea")
    with pytest.raises(CommandError):
        basket.ask(WorkflowBasket.spoil, "raise")
    basket.ask(WorkflowBasket.spoil, "reply")
    assert basket.ask(WorkflowBasket.look).things == ["tea"]

    basket.ask(WorkflowBasket.go)

    assert eventually(lambda: basket.status().status == "ended")
    assert basket.ask(WorkflowBasket.look).things == ["tea"]
