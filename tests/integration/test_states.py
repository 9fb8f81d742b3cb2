"""What is read is what was stored: states that may be None, and states that can be changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from greenroom import (
    CommandError,
    Effect,
    EntityClient,
    EventSourcedEntity,
    KeyValueEntity,
    ReadOnlyEffect,
    component,
    type_name,
)
from greenroom.errors import EntityDeletedError, HandlerError, PayloadTooLargeError
from greenroom.runtime import Runtime
from greenroom.settings import Settings


@component("nickname")
class Nickname(KeyValueEntity[str | None]):
    def empty_state(self) -> str | None:
        return "nobody"

    def set(self, name: str | None) -> Effect[None]:
        return self.effects.update_state(name).then_reply(None)

    def get(self) -> ReadOnlyEffect[str | None]:
        return self.effects.reply(self.state)


@component("named")
class Named(KeyValueEntity[str]):
    def empty_state(self) -> str:
        return ""

    def forget(self) -> Effect[None]:
        return self.effects.update_state(None).then_reply(None)  # type: ignore[arg-type]


@pytest.fixture(params=["loop", "pool"])
def settings(request: pytest.FixtureRequest, database_url: str) -> Settings:
    return Settings(database_url=database_url, dispatcher=request.param)


@contextmanager
def running(settings: Settings, *components: type[Any]) -> Iterator[Runtime]:
    runtime = Runtime(components, settings=settings)
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()


# -- None ----------------------------------------------------------------------------------


def test_none_is_a_state_where_the_class_says_so(settings: Settings) -> None:
    """It is stored, and not what an instance has that nothing was stored for."""
    with running(settings, Nickname) as runtime:
        name = runtime.client.for_key_value_entity(Nickname, "a")
        assert name.ask(Nickname.get) == "nobody"
        name.ask(Nickname.set, None)
        assert name.ask(Nickname.get) is None
    with running(settings, Nickname) as runtime:
        name = runtime.client.for_key_value_entity(Nickname, "a")
        assert name.ask(Nickname.get) is None
        name.ask(Nickname.set, "Ada")
        assert name.ask(Nickname.get) == "Ada"


def test_none_is_no_state_elsewhere(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    with running(settings, Named) as runtime:
        with pytest.raises(HandlerError):
            runtime.client.for_key_value_entity(Named, "a").ask(Named.forget)
        assert runtime.client.instances(Named) == []
    assert "declare KeyValueEntity[str | None]" in caplog.text


# -- states that can be changed ------------------------------------------------------------


@type_name("states-basket")
class Basket(BaseModel):
    things: list[str] = []


@type_name("states-put")
class Put(BaseModel, frozen=True):
    thing: str


SHARED = Basket()


class Changing:
    """Handlers that change the state in place, which they must not."""

    state: Any
    effects: Any

    def empty_state(self) -> Basket:
        return SHARED

    def raise_after(self, thing: str) -> Effect[int]:
        self.state.things.append(thing)
        raise CommandError("Declined on purpose.")

    def decline_after(self, thing: str) -> Effect[int]:
        self.state.things.append(thing)
        return self.effects.error("Declined on purpose.")  # type: ignore[no-any-return]

    def fail_after(self, thing: str) -> Effect[int]:
        self.state.things.append(thing)
        raise ZeroDivisionError

    def answer_after(self, thing: str) -> Effect[int]:
        self.state.things.append(thing)
        return self.effects.reply(len(self.state.things))  # type: ignore[no-any-return]

    def look(self) -> ReadOnlyEffect[list[str]]:
        return self.effects.reply(self.state.things)  # type: ignore[no-any-return]


@component("basket")
class BasketEntity(Changing, KeyValueEntity[Basket]):
    def put(self, thing: str) -> Effect[int]:
        self.state.things.append(thing)
        return self.effects.update_state(self.state).then_reply(len(self.state.things))

    def delete(self) -> Effect[None]:
        return self.effects.delete_entity().then_reply(None)


@component("chest")
class ChestEntity(Changing, EventSourcedEntity[Basket, Put]):
    def put(self, thing: str) -> Effect[int]:
        return self.effects.persist(Put(thing=thing)).then_reply(lambda one: len(one.things))

    def persist_after(self, thing: str) -> Effect[int]:
        self.state.things.append("changed in place")
        return self.put(thing)

    def apply_event(self, event: Put) -> Basket:
        self.state.things.append(event.thing)
        return self.state


COMPONENTS: list[Any] = [BasketEntity, ChestEntity]


def client_of(runtime: Runtime, entity: Any) -> EntityClient[Any]:
    if issubclass(entity, KeyValueEntity):
        return runtime.client.for_key_value_entity(entity, "a")
    return runtime.client.for_event_sourced_entity(entity, "a")


@pytest.mark.parametrize("entity", COMPONENTS)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("raise_after", CommandError),
        ("decline_after", CommandError),
        ("fail_after", HandlerError),
        ("answer_after", HandlerError),
    ],
)
def test_what_was_not_stored_is_never_read(
    settings: Settings, entity: Any, name: str, kind: type[Exception]
) -> None:
    """Neither by the next command, nor by another instance, nor after something was stored."""
    with running(settings, *COMPONENTS) as runtime:
        client = client_of(runtime, entity)
        with pytest.raises(kind):
            client.ask(getattr(entity, name), "lost")
        assert client.ask(entity.look) == []
        assert client.ask(entity.put, "kept") == 1
        with pytest.raises(kind):
            client.ask(getattr(entity, name), "lost too")
        assert client.ask(entity.look) == ["kept"]
    assert SHARED.things == []


def test_a_change_beside_the_events_is_refused(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """A replay would not have it."""
    with running(settings, *COMPONENTS) as runtime:
        chest = client_of(runtime, ChestEntity)
        with pytest.raises(HandlerError):
            chest.ask(ChestEntity.persist_after, "x")
        assert chest.ask(ChestEntity.look) == []
        assert runtime.client.events(ChestEntity, "a") == []
    assert "chest.persist_after changed the state in place" in caplog.text


def test_a_refused_state_is_not_kept(database_url: str) -> None:
    """It may be the one before, changed in place."""
    small = Settings(database_url=database_url, max_state_bytes=40)
    with running(small, BasketEntity) as runtime:
        basket = client_of(runtime, BasketEntity)
        assert basket.ask(BasketEntity.put, "kept") == 1
        with pytest.raises(PayloadTooLargeError):
            basket.ask(BasketEntity.put, "x" * 40)
        assert basket.ask(BasketEntity.look) == ["kept"]
        basket.ask(BasketEntity.delete)
        with pytest.raises(EntityDeletedError):
            basket.ask(BasketEntity.put, "late")
        assert basket.ask(BasketEntity.look) == []
