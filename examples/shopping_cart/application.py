"""The components of the shop: a cart that remembers every event, a catalogue that knows now."""

from typing import Annotated

from pydantic import Field

from examples.shopping_cart.domain import (
    Cart,
    CartEvent,
    CheckedOut,
    ItemAdded,
    ItemRemoved,
    Product,
)
from greenroom import (
    Effect,
    EventSourcedEntity,
    KeyValueEntity,
    ReadOnlyEffect,
    component,
    function_tool,
)

ProductId = Annotated[str, Field(min_length=1, description="Catalogue id of the product")]


@component("shopping-cart")
class ShoppingCart(EventSourcedEntity[Cart, CartEvent]):
    """A customer's cart, open until it is checked out."""

    def empty_state(self) -> Cart:
        return Cart(cart_id=self.entity_id)

    @function_tool(description="Adds a product to a shopping cart.")
    def add_item(
        self,
        product_id: ProductId,
        quantity: Annotated[int, Field(gt=0, le=1000, description="How many to add")] = 1,
    ) -> Effect[Cart]:
        if self.state.checked_out:
            return self.effects.error("The cart is already checked out.")
        event = ItemAdded(product_id=product_id, quantity=quantity)
        return self.effects.persist(event).then_reply(lambda cart: cart)

    @function_tool(description="Takes a product out of a shopping cart.")
    def remove_item(self, product_id: ProductId) -> Effect[Cart]:
        if self.state.checked_out:
            return self.effects.error("The cart is already checked out.")
        if not self.state.quantity_of(product_id):
            return self.effects.error(f"There is no {product_id} in the cart.")
        return self.effects.persist(ItemRemoved(product_id=product_id)).then_reply(
            lambda cart: cart
        )

    @function_tool(description="Buys what is in a shopping cart. It can't be changed afterwards.")
    def check_out(self) -> Effect[Cart]:
        if self.state.checked_out:
            return self.effects.reply(self.state)
        if not self.state.items:
            return self.effects.error("The cart is empty.")
        return self.effects.persist(CheckedOut()).then_reply(lambda cart: cart)

    @function_tool(description="Returns the content of a shopping cart.")
    def get_cart(self) -> ReadOnlyEffect[Cart]:
        return self.effects.reply(self.state)

    def apply_event(self, event: CartEvent) -> Cart:
        match event:
            case ItemAdded(product_id=product_id, quantity=quantity):
                so_far = self.state.quantity_of(product_id)
                return self.state.with_quantity(product_id, so_far + quantity)
            case ItemRemoved(product_id=product_id):
                return self.state.with_quantity(product_id, 0)
            case CheckedOut():
                return self.state.model_copy(update={"checked_out": True})


@component("product")
class Catalogue(KeyValueEntity[Product]):
    """A product of the shop, with its name and price."""

    def empty_state(self) -> Product:
        return Product()

    @function_tool(description="Sets the name and price of a product.")
    def describe(
        self,
        name: Annotated[str, Field(min_length=1, description="Name shown to customers")],
        price_in_cents: Annotated[int, Field(ge=0, description="Price in cents")],
    ) -> Effect[Product]:
        product = Product(name=name, price_in_cents=price_in_cents)
        return self.effects.update_state(product).then_reply(product)

    @function_tool(description="Returns the name and price of a product.")
    def get_product(self) -> ReadOnlyEffect[Product]:
        if not self.state.name:
            return self.effects.error(f"There is no product {self.entity_id}.")
        return self.effects.reply(self.state)
