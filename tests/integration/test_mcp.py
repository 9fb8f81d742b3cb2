"""The official MCP client against a real service, in both eras, on both HTTP parsers."""

import asyncio
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from greenroom.components import (
    Effect,
    KeyValueEntity,
    ReadOnlyEffect,
    ToolAnnotation,
    component,
    function_tool,
    mcp_endpoint,
    type_name,
)
from greenroom.service import Service
from greenroom.settings import Settings
from tests.support.served import served

MODES = ["auto", "legacy", "2026-07-28"]


@type_name("basket")
class Basket(BaseModel, frozen=True):
    """What is in a basket."""

    items: tuple[str, ...] = ()
    note: str | None = None


@component("basket")
class BasketEntity(KeyValueEntity[Basket]):
    """Somebody's basket."""

    def empty_state(self) -> Basket:
        return Basket()

    @function_tool(description="Puts something into the basket.")
    def put(self, item: str, note: str | None = None) -> Effect[Basket]:
        if item == "stone":
            return self.effects.error("Stones don't fit into a basket.")
        changed = Basket(items=(*self.state.items, item), note=note)
        return self.effects.update_state(changed).then_reply(changed)

    @function_tool(description="Empties the basket.", annotations=[ToolAnnotation.DESTRUCTIVE])
    def clear(self) -> Effect[None]:
        return self.effects.update_state(Basket()).then_reply(None)

    @function_tool(description="Lists the items.")
    def items(self) -> ReadOnlyEffect[list[str]]:
        return self.effects.reply(list(self.state.items))

    @function_tool(description="Says when it was packed.")
    def packed(self) -> ReadOnlyEffect[date]:
        return self.effects.reply(date(2026, 12, 1))

    @function_tool(description="Says something about it.")
    def describe(self) -> ReadOnlyEffect[str]:
        return self.effects.reply(f"{len(self.state.items)} things, “so far”")

    @function_tool(description="Breaks.")
    def crash(self) -> Effect[None]:
        raise RuntimeError("a secret of the service")


@mcp_endpoint(path="/mcp", server_name="baskets", server_version="1.0", tools=[BasketEntity])
class BasketsMcp:
    """Baskets, for MCP clients."""


@pytest.fixture(scope="module", params=["h11", "httptools"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("baskets")
    service = Service(
        "baskets",
        components=[BasketEntity],
        endpoints=[BasketsMcp],
        settings=Settings(database_url=f"sqlite:///{folder}/test.db"),
    )
    with served(service.app, http=request.param) as address:
        yield f"{address}/mcp"


@pytest.mark.parametrize("mode", MODES)
async def test_tools_are_listed(url: str, mode: Any) -> None:
    async with Client(url, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    assert list(tools) == sorted(tools)
    put = tools["basket_put"]
    assert put.description == "Puts something into the basket."
    assert set(put.input_schema["required"]) == {"basket_id", "item"}
    assert put.input_schema["properties"]["note"]["type"] == "string"
    assert "$ref" not in str(put.input_schema)
    assert put.annotations is not None
    assert put.annotations.read_only_hint is False
    assert tools["basket_items"].annotations.read_only_hint is True  # type: ignore[union-attr]
    assert tools["basket_clear"].annotations.destructive_hint is True  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", MODES)
async def test_every_kind_of_reply_arrives(url: str, mode: Any) -> None:
    async with Client(url, mode=mode) as client:
        basket = {"basket_id": f"kinds-{mode}"}

        put = await client.call_tool("basket_put", {**basket, "item": "tea"})
        assert put.structured_content == {"items": ["tea"]}
        listed = await client.call_tool("basket_items", basket)
        assert listed.structured_content == {"result": ["tea"]}
        packed = await client.call_tool("basket_packed", basket)
        assert _text(packed) == '"2026-12-01"'
        assert packed.structured_content is None
        described = await client.call_tool("basket_describe", basket)
        assert _text(described) == "1 things, “so far”"
        cleared = await client.call_tool("basket_clear", basket)
        assert _text(cleared) == "SUCCESS"


@pytest.mark.parametrize("mode", MODES)
async def test_a_declined_command_is_told_in_its_own_words(url: str, mode: Any) -> None:
    async with Client(url, mode=mode) as client:
        result = await client.call_tool("basket_put", {"basket_id": "b", "item": "stone"})

    assert result.is_error
    assert _text(result) == "Stones don't fit into a basket."


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"basket_id": "b"}, "item"),
        ({"basket_id": "b", "item": "tea", "colour": "red"}, "colour"),
        ({"item": "tea"}, "basket_id"),
        ({"basket_id": "b", "item": [1]}, "item"),
    ],
)
async def test_wrong_arguments_are_told_by_name(
    url: str, mode: Any, arguments: dict[str, Any], said: str
) -> None:
    async with Client(url, mode=mode) as client:
        result = await client.call_tool("basket_put", arguments)

    assert result.is_error
    assert said in _text(result)


async def test_a_crash_is_a_reference_and_nothing_else(url: str) -> None:
    async with Client(url) as client:
        result = await client.call_tool("basket_crash", {"basket_id": "b"})

    assert result.is_error
    assert "Reference" in _text(result)
    assert "secret" not in str(result)
    assert result.meta is not None
    assert result.meta["greenroom/code"] == "handler-failed"


@pytest.mark.parametrize("mode", MODES)
async def test_a_null_for_an_optional_argument_is_as_good_as_none(url: str, mode: Any) -> None:
    async with Client(url, mode=mode) as client:
        arguments = {"basket_id": f"null-{mode}", "item": "tea", "note": None}
        assert not (await client.call_tool("basket_put", arguments)).is_error


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_makes_a_repeated_call_harmless(url: str, mode: Any) -> None:
    meta = {"greenroom/idempotencyKey": f"key-{mode}"}
    arguments = {"basket_id": f"key-{mode}", "item": "tea"}
    async with Client(url, mode=mode) as client:
        first = await client.call_tool("basket_put", arguments, meta=meta)
        again = await client.call_tool("basket_put", arguments, meta=meta)
        other = await client.call_tool("basket_put", {**arguments, "item": "milk"}, meta=meta)

    assert first.structured_content == again.structured_content == {"items": ["tea"]}
    assert other.is_error
    assert "new key" in _text(other)


@pytest.mark.parametrize("mode", MODES)
async def test_an_unknown_tool_is_a_protocol_error(url: str, mode: Any) -> None:
    async with Client(url, mode=mode) as client:
        with pytest.raises(MCPError, match="nobody"):
            await client.call_tool("nobody", {})


async def test_many_calls_at_once_lose_nothing(url: str) -> None:
    async with Client(url) as client:
        calls = [
            client.call_tool("basket_put", {"basket_id": "busy", "item": str(number)})
            for number in range(50)
        ]
        assert not any(result.is_error for result in await asyncio.gather(*calls))
        listed = await client.call_tool("basket_items", {"basket_id": "busy"})

    content: Any = listed.structured_content
    assert sorted(content["result"], key=int) == [str(number) for number in range(50)]


def _text(result: Any) -> str:
    return str(result.content[0].text)
