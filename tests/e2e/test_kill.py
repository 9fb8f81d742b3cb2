"""A real server, a real MCP client, a SIGKILL in the middle: nothing lost, nothing twice."""

import asyncio
import random
from typing import Any

import pytest
from mcp import Client

from tests.support.server import ServerProcess

SHOP = "examples.shopping_cart.service:service"
CALLERS = 8
KILL_AFTER = 40


async def _add(client: Client, cart: str, product: str, key: str) -> None:
    result = await client.call_tool(
        "shopping_cart_add_item",
        {"shopping_cart_id": cart, "product_id": product},
        meta={"greenroom/idempotencyKey": key},
    )
    assert not result.is_error, result


async def _quantities(url: str, cart: str) -> dict[str, int]:
    async with Client(f"{url}/mcp") as client:
        result = await client.call_tool("shopping_cart_get_cart", {"shopping_cart_id": cart})
        content: Any = result.structured_content
        return {item["product_id"]: item["quantity"] for item in content["items"]}


async def _fill_until_killed(server: ServerProcess) -> set[str]:
    """Several clients add products; after some answers the server is killed under them."""
    acknowledged: set[str] = set()

    async def caller(number: int) -> None:
        try:
            async with Client(f"{server.url}/mcp") as client:
                for turn in range(1000):
                    product = f"p-{number}-{turn}"
                    await asyncio.wait_for(_add(client, "c", product, product), 10)
                    acknowledged.add(product)
                    if len(acknowledged) == KILL_AFTER:
                        await asyncio.to_thread(server.kill)
        except Exception:
            return

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    return acknowledged


@pytest.mark.timeout(120)
def test_what_was_acknowledged_survives_a_kill_exactly_once(database_url: str) -> None:
    """Every acknowledged item is there once; repeating all with their keys changes nothing."""
    server = ServerProcess(SHOP, database_url)
    with server:
        acknowledged = asyncio.run(_fill_until_killed(server))
        assert len(acknowledged) >= KILL_AFTER

        server.start()
        after_kill = asyncio.run(_quantities(server.url, "c"))
        asyncio.run(_repeat(server.url, acknowledged))
        after_repeat = asyncio.run(_quantities(server.url, "c"))

    assert acknowledged <= after_kill.keys()
    assert set(after_kill.values()) == {1}
    assert after_repeat == after_kill


async def _repeat(url: str, products: set[str]) -> None:
    async with Client(f"{url}/mcp") as client:
        for product in sorted(products):
            await _add(client, "c", product, product)


@pytest.mark.timeout(120)
def test_a_graceful_stop_ends_with_zero(database_url: str) -> None:
    """SIGTERM drains, closes the database, and leaves everything in place."""
    with ServerProcess(SHOP, database_url) as server:

        async def add_one() -> None:
            async with Client(f"{server.url}/mcp") as client:
                await _add(client, "c", "tea", "k")

        asyncio.run(add_one())
        assert server.terminate() in (0, -15)
        server.start()
        assert asyncio.run(_quantities(server.url, "c")) == {"tea": 1}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_many_kills_at_random_moments(database_url: str) -> None:
    """Kill, start, go on: after each, everything acknowledged so far is there, once."""
    chance = random.Random(7)
    server = ServerProcess(SHOP, database_url)
    acknowledged: set[str] = set()
    with server:
        for round_ in range(8):
            acknowledged |= asyncio.run(_fill_for(server, round_, chance.uniform(0.05, 1.0)))
            server.start()
            quantities = asyncio.run(_quantities(server.url, "c"))
            assert acknowledged <= quantities.keys()
            assert set(quantities.values()) <= {1}
    assert len(acknowledged) > 50


async def _fill_for(server: ServerProcess, round_: int, seconds: float) -> set[str]:
    """Several clients add products; after a while the server is killed, whatever it is at."""
    acknowledged: set[str] = set()

    async def caller(number: int) -> None:
        try:
            async with Client(f"{server.url}/mcp") as client:
                for turn in range(1000):
                    product = f"p-{round_}-{number}-{turn}"
                    await asyncio.wait_for(_add(client, "c", product, product), 10)
                    acknowledged.add(product)
        except Exception:
            return

    async def killer() -> None:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(server.kill)

    await asyncio.gather(killer(), *(caller(number) for number in range(4)))
    return acknowledged
