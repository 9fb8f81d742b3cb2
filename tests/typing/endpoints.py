"""Checked by mypy --strict, never run: what a type checker knows of an endpoint's own methods."""

from collections.abc import Mapping
from typing import Any, Literal, assert_type

from pydantic import BaseModel

from greenroom import (
    AskForm,
    AskModel,
    AskPage,
    AskRoots,
    FormAnswer,
    ImageContent,
    McpContext,
    MessageContent,
    PromptMessage,
    ResourceLink,
    Service,
    mcp_completion,
    mcp_endpoint,
    mcp_instances,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
)


class Size(BaseModel):
    size: int


@mcp_endpoint(server_name="shop", http=True)
class ShopMcp:
    @mcp_tool(description="Asks.")
    def ask(self, context: McpContext) -> str:
        answer = context.ask("size", AskForm("How large?", Size))
        assert_type(answer, FormAnswer[Size])
        assert_type(answer.content, Size | None)
        assert_type(context.ask("text", AskModel("Say something.")), str)
        assert_type(context.ask("roots", AskRoots()), list[str])
        page = context.ask("page", AskPage("Pay", "https://example.com", "p"))
        assert_type(page, Literal["accept", "decline", "cancel"])
        assert_type(context.ask_all({"roots": AskRoots()}), list[Any])
        context.ask("size", "How large?")  # type: ignore[arg-type]
        context.log("loud", "no such level")  # type: ignore[arg-type]
        return "done"

    @mcp_tool
    async def image(self) -> list[MessageContent]:
        """Shows."""
        return [ImageContent.from_bytes(b"", "image/png")]

    @mcp_resource(uri_template="shop://carts/{cart_id}")
    def cart(self, cart_id: str) -> Mapping[str, int]:
        return {}

    @mcp_instances(cart)
    def carts(self) -> list[ResourceLink]:
        return []

    @mcp_prompt
    def recommend(self, taste: str) -> list[PromptMessage]:
        return [PromptMessage("user", taste), PromptMessage("system", "")]  # type: ignore[arg-type]

    @mcp_completion(recommend, "taste")
    def tastes(self, typed: str) -> list[str]:
        return []


def methods_are_what_they_were(endpoint: ShopMcp) -> None:
    assert_type(endpoint.cart("c-1"), Mapping[str, int])
    endpoint.cart(1)  # type: ignore[arg-type]
    Service("shop", endpoints=[ShopMcp])
