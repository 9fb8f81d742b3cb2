"""The shop as a service: `greenroom run examples.shopping_cart.service:service`."""

from examples.shopping_cart.application import Catalogue, ShoppingCart
from greenroom import Service, mcp_endpoint


@mcp_endpoint(
    path="/mcp",
    server_name="shop",
    server_version="1.0.0",
    instructions="Fill a customer's cart, show it, and check it out.",
    tools=[ShoppingCart, Catalogue],
)
class ShopMcp:
    """The shop's tools, for any MCP client."""


service = Service("shop", components=[ShoppingCart, Catalogue], endpoints=[ShopMcp])
