"""Checked by type checkers, never run: components of every shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, assert_type

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from greenroom import (
    ComponentClient,
    Effect,
    EntityContext,
    EventSourcedEntity,
    KeyValueEntity,
    Metadata,
    ReadOnlyEffect,
    ToolAnnotation,
    ToolCall,
    ToolContext,
    WithMetadata,
    component,
    function_tool,
    migrates,
    type_name,
)
from greenroom.components import Persisted
from greenroom.testkit import EventSourcedTestKit

S = TypeVar("S")


@type_name("added", version=2)
class Added(BaseModel, frozen=True):
    product: str


@migrates(Added, from_version=1)
def name_the_product(old: dict[str, Any]) -> dict[str, Any]:
    return {**old, "product": "unknown"}


@type_name("removed")
@dataclass(frozen=True, slots=True)
class Removed:
    product: str


@type_name("state")
class Cart(BaseModel, frozen=True):
    lines: tuple[str, ...] = ()


@type_name("options")
class Options(TypedDict):
    level: int


@type_name("colour")
class Colour(Enum):
    RED = "red"


@type_name("point")
class Point(NamedTuple):
    x: int
    y: int


CartEvent = Added | Removed


class Counting:
    """A mixin: its handlers are those of the component."""

    def one(self) -> ReadOnlyEffect[int]: ...  # type: ignore[empty-body]  # which mypy alone finds


class Readable(EventSourcedEntity[S, CartEvent], Generic[S]):
    def current(self) -> ReadOnlyEffect[S]:
        return self.effects.reply(self.state)


@component("cart", name="Cart", description="Things to buy")
class CartEntity(Counting, Readable[Cart]):
    def __init__(self, context: EntityContext, prices: Mapping[str, Decimal]) -> None:
        self._prices = prices

    def empty_state(self) -> Cart:
        return Cart()

    @function_tool
    def add(
        self, product: Annotated[str, "What to add"], count: Annotated[int, Field(gt=0)] = 1
    ) -> Effect[Cart]:
        """Adds a product."""
        return (
            self.effects.error("No more.")
            if len(self.state.lines) > 9
            else self._added(product, count).then_reply(lambda cart: cart)
        )

    def _added(self, product: str, count: int) -> Persisted[Cart]:
        return self.effects.persist_all([Added(product=product)] * count)

    @function_tool(
        description="Clears.",
        annotations=[ToolAnnotation.DESTRUCTIVE],
        requires_approval=lambda call: call.arguments["sure"] is not True,
    )
    def clear(self, sure: bool) -> Effect[list[str]]:
        effects = self.effects.persist(
            Removed("x"), WithMetadata(Added(product="y"), Metadata([("a", "b")]))
        )
        return (
            effects.expire_after(timedelta(days=1))
            .then_run(lambda cart: print(cart.lines))
            .delete_entity()
            .then_reply(lambda cart: list(cart.lines))
        )

    def nothing(self) -> ReadOnlyEffect[list[str]]:
        return self.effects.reply([])

    def context(self) -> ReadOnlyEffect[int]:
        assert_type(self.command_context.metadata.get("a"), str | None)
        return self.effects.reply(self.command_context.sequence_number)

    def assigns(self) -> ReadOnlyEffect[int]:
        self.state = Cart()  # type: ignore[misc]  # an attribute that can't be set
        return self.effects.reply(1)

    def apply_event(self, event: CartEvent) -> Cart:
        assert_type(self.event_context.metadata.get_all("a"), list[str])
        match event:
            case Added(product=product):
                return Cart(lines=(*self.state.lines, product))
            case Removed(product=product):
                return Cart()


class Special(CartEntity):
    def special(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(1)


@component("options")
class OptionsEntity(KeyValueEntity[Options]):
    def empty_state(self) -> Options:
        return {"level": 0}

    def raise_level(self) -> Effect[Options]:
        changed: Options = {"level": self.state["level"] + 1}
        return self.effects.update_state(changed).then_reply(changed)


@component("points")
class Points(KeyValueEntity[dict[str, Point]]):
    def empty_state(self) -> dict[str, Point]:
        return {}

    def put(self, name: str, x: int, y: int = 0) -> Effect[None]:
        return self.effects.update_state({**self.state, name: Point(x, y)}).then_reply(None)

    def forget(self) -> Effect[str]:
        return self.effects.delete_entity().then_reply("forgotten")


def calls(client: ComponentClient) -> None:
    cart = client.for_event_sourced_entity(CartEntity, "c")
    assert_type(cart.ask(CartEntity.current), Cart)
    assert_type(cart.ask(Readable[Cart].current), Cart)
    assert_type(cart.ask(CartEntity.one), int)
    assert_type(cart.ask(CartEntity.clear, sure=True), list[str])
    cart.ask(Special.special)  # type: ignore[arg-type]  # of a subclass
    points = client.for_key_value_entity(Points, "p")
    assert_type(points.ask(Points.put, "a", x=1, y=2), None)
    assert_type(client.state_at(Points, "p"), dict[str, Point])
    assert_type(
        client.for_key_value_entity(OptionsEntity, "o").ask(OptionsEntity.raise_level), Options
    )


def kits() -> None:
    kit = EventSourcedTestKit(CartEntity, dependencies={"prices": {}})
    assert_type(kit.given(Added(product="tea"), Removed("tea")).state, Cart)
    assert_type(kit.events, list[Added | Removed])
    assert_type(kit.run(CartEntity.clear, True).reply, list[str])


def owner(call: ToolContext) -> str:
    return call.principal.subject or "nobody"


CartEntity.tools(bind=owner, only={"add", CartEntity.clear})
CartEntity.tools(bind=lambda call: call.principal.subject, exclude={"clear"})
CartEntity.tools(bind=3)  # type: ignore[arg-type]
ToolCall("cart_add", {"product": "tea"})


@component("not-a-component")  # where pyright refuses it
class NotAComponent: ...  # type: ignore[type-var]  # where mypy does
