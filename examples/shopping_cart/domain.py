"""What a cart is: plain data and plain rules. Knows pydantic, and nothing of greenroom's runtime."""

from pydantic import BaseModel, Field

from greenroom import type_name


class LineItem(BaseModel, frozen=True):
    """Some of one product."""

    product_id: str
    quantity: int = Field(gt=0)


@type_name("cart")
class Cart(BaseModel, frozen=True):
    """The content of a cart."""

    cart_id: str
    items: tuple[LineItem, ...] = ()
    checked_out: bool = False

    def quantity_of(self, product_id: str) -> int:
        """How many of a product are in the cart."""
        return sum(item.quantity for item in self.items if item.product_id == product_id)

    def with_quantity(self, product_id: str, quantity: int) -> "Cart":
        """The cart with exactly so many of a product; 0 takes it out."""
        others = tuple(item for item in self.items if item.product_id != product_id)
        line = (LineItem(product_id=product_id, quantity=quantity),) if quantity else ()
        return self.model_copy(update={"items": (*others, *line)})


@type_name("item-added")
class ItemAdded(BaseModel, frozen=True):
    """A product was put into the cart."""

    product_id: str
    quantity: int


@type_name("item-removed")
class ItemRemoved(BaseModel, frozen=True):
    """A product was taken out of the cart."""

    product_id: str


@type_name("checked-out")
class CheckedOut(BaseModel, frozen=True):
    """The customer bought what was in the cart."""


CartEvent = ItemAdded | ItemRemoved | CheckedOut


@type_name("product")
class Product(BaseModel, frozen=True):
    """What the shop says about one product."""

    name: str = ""
    price_in_cents: int = 0
