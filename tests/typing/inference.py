"""Checked by mypy --strict, never run: what a type checker knows, and what it refuses."""

from datetime import timedelta
from typing import assert_type

from greenroom import (
    AsyncComponentClient,
    AsyncTimerScheduler,
    ComponentClient,
    DeferredCall,
    DetailedReply,
    Effect,
    EventSourcedEntity,
    KeyValueEntity,
    ReadOnlyEffect,
    Service,
    StoredEvent,
    TimedAction,
    TimedActionEffect,
    TimerScheduler,
    TimerStatus,
    component,
    function_tool,
    mcp_endpoint,
)
from greenroom.runtime import EntityClient
from greenroom.testkit import EventSourcedTestKit, KeyValueTestKit


class Added:
    product: str


class Removed:
    product: str


class Cart:
    items: list[str]


@component("cart")
class CartEntity(EventSourcedEntity[Cart, Added | Removed]):
    def empty_state(self) -> Cart:
        return Cart()

    @function_tool(description="Adds.")
    def add(self, product: str, quantity: int = 1) -> Effect[Cart]:
        if quantity > 9:
            return self.effects.error("Too many.")
        return self.effects.persist(Added()).then_reply(lambda cart: cart)

    def count(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(len(self.state.items))

    def forgotten(self) -> Effect[Cart]:
        return self.effects.persist(Added())  # type: ignore[return-value]

    def wrong_reply(self) -> Effect[int]:
        return self.effects.persist(Added()).then_reply(lambda cart: cart.items)  # type: ignore[return-value, arg-type]

    def wrong_event(self) -> Effect[Cart]:
        return self.effects.persist("text").then_reply(lambda cart: cart)  # type: ignore[arg-type]

    def not_read_only(self) -> ReadOnlyEffect[Cart]:
        return self.effects.persist(Added()).then_reply(lambda cart: cart)  # type: ignore[return-value]

    def apply_event(self, event: Added | Removed) -> Cart:
        match event:
            case Added():
                return self.state
            case Removed():
                return self.state


@component("profile")
class ProfileEntity(KeyValueEntity[int]):
    def empty_state(self) -> int:
        return 0

    def set(self, value: int) -> Effect[str]:
        return self.effects.update_state(value).expire_after(timedelta(days=1)).then_reply("stored")

    def set_text(self, value: str) -> Effect[str]:
        return self.effects.update_state(value).then_reply("stored")  # type: ignore[arg-type]


def threads(client: ComponentClient) -> None:
    cart = client.for_event_sourced_entity(CartEntity, "c")
    assert_type(cart, EntityClient[CartEntity])
    assert_type(cart.ask(CartEntity.add, "tea", quantity=2), Cart)
    assert_type(cart.ask(CartEntity.count), int)
    assert_type(cart.ask_detailed(CartEntity.count), DetailedReply[int])
    assert_type(cart.with_options(idempotency_key="k").ask(CartEntity.count), int)
    cart.ask(CartEntity.add)  # type: ignore[call-arg]
    cart.ask(CartEntity.add, 3)  # type: ignore[arg-type]
    cart.ask(CartEntity.add, "tea", colour="red")  # type: ignore[call-arg]
    cart.ask(ProfileEntity.set, 3)  # type: ignore[arg-type]
    client.for_event_sourced_entity(ProfileEntity, "p")  # type: ignore[type-var]
    client.for_key_value_entity(CartEntity, "c")  # type: ignore[type-var]
    assert_type(client.events(CartEntity, "c"), list[StoredEvent[Added | Removed]])
    assert_type(client.state_at(CartEntity, "c", 3), Cart)
    assert_type(client.state_at(ProfileEntity, "p"), int)


async def coroutines(client: AsyncComponentClient) -> None:
    profile = client.for_key_value_entity(ProfileEntity, "p")
    assert_type(await profile.ask(ProfileEntity.set, 3), str)
    await profile.ask(ProfileEntity.set, "3")  # type: ignore[arg-type]
    assert_type(await client.state_at(CartEntity, "c"), Cart)


def kits() -> None:
    kit = EventSourcedTestKit(CartEntity)
    result = kit.given(Added()).run(CartEntity.count)
    assert_type(result.reply, int)
    assert_type(result.state, Cart)
    kit.given("text")  # type: ignore[arg-type]
    kit.run(ProfileEntity.set, 3)  # type: ignore[arg-type]
    assert_type(KeyValueTestKit(ProfileEntity).run(ProfileEntity.set, 3).reply, str)


@mcp_endpoint(server_name="shop", tools=[CartEntity, ProfileEntity.tools(bind="mine")])
class ShopMcp: ...


components = [CartEntity, ProfileEntity]
service = Service("shop", components=components, endpoints=[ShopMcp])
ProfileEntity.tools(only="set")  # type: ignore[arg-type]


@component("reminders")
class Reminders(TimedAction):
    def remind(self, who: str, times: int = 1) -> TimedActionEffect:
        return self.effects.done()

    async def remind_all(self) -> TimedActionEffect:
        return self.effects.error("nobody is there")


def what_timers_call(client: ComponentClient) -> None:
    reminders = client.for_timed_action(Reminders)
    assert_type(reminders.deferred(Reminders.remind, "ada", times=2), DeferredCall)
    assert_type(reminders.deferred(Reminders.remind_all), DeferredCall)
    reminders.deferred(Reminders.remind)  # type: ignore[call-arg]
    reminders.deferred(Reminders.remind, 3)  # type: ignore[arg-type]
    reminders.deferred(CartEntity.add, "tea")  # type: ignore[arg-type]
    client.for_timed_action(CartEntity)  # type: ignore[type-var]

    assert_type(client.timers, TimerScheduler)
    call = client.for_event_sourced_entity(CartEntity, "c").deferred(CartEntity.count)
    client.timers.start_single_timer("t", timedelta(hours=1), call)
    client.timers.start_single_timer("t", 3600, call)  # type: ignore[arg-type]
    assert_type(client.timers.get("t"), TimerStatus | None)
    assert_type(client.timers.list(), list[TimerStatus])
    assert_type(client.timers.cancel("t"), bool)


async def timers_of_coroutines(client: AsyncComponentClient) -> None:
    assert_type(client.timers, AsyncTimerScheduler)
    assert_type(await client.timers.list(dead_only=True), list[TimerStatus])
