"""The main job, end to end: `make demo`.

Starts the shop as a real server on a SQLite file, fills a cart through a real MCP client,
kills the server with SIGKILL while items are being added, starts it again, and checks that
every item that was acknowledged is there, once.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from mcp import Client

ROOT = Path(__file__).parents[2]
CART = "demo-cart"
START_SECONDS = 30.0
ITEMS = 200
ADDED_BEFORE_KILL = 60


def main() -> int:
    """Run the demo; 0 when everything is as it should be."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="greenroom-demo-") as folder:
        database = Path(folder) / "greenroom.db"
        _say(f"Starting the shop on {url}, with its data in {database}")
        server = _start(port, database)
        try:
            asyncio.run(_look_around(url))
            acknowledged = asyncio.run(_fill_and_kill(url, server))
            _say("Starting the shop again, on the same file")
            server = _start(port, database)
            return asyncio.run(_check(url, acknowledged))
        finally:
            server.kill()
            server.wait()


async def _look_around(url: str) -> None:
    async with Client(f"{url}/mcp") as client:
        tools = (await client.list_tools()).tools
        _say(f"An MCP client sees {len(tools)} tools:")
        for tool in tools:
            print(f"    {tool.name}: {tool.description}")
        await _call(client, "shopping_cart_add_item", product_id="tea", quantity=2)
        cart = await _call(client, "shopping_cart_get_cart")
        _say(f"After adding two teas, the cart holds {_shown(cart)}")


async def _fill_and_kill(url: str, server: "subprocess.Popen[bytes]") -> set[str]:
    """Add many products at once, and kill the server in the middle."""
    acknowledged: set[str] = set()

    async def add(client: Any, product: str) -> None:
        try:
            await _call(client, "shopping_cart_add_item", product_id=product, quantity=1)
        except Exception:
            return
        acknowledged.add(product)
        if len(acknowledged) == ADDED_BEFORE_KILL:
            server.send_signal(signal.SIGKILL)

    try:
        async with Client(f"{url}/mcp") as client:
            products = [f"product-{number}" for number in range(ITEMS)]
            for start in range(0, ITEMS, 20):
                batch = products[start : start + 20]
                await asyncio.gather(*(add(client, product) for product in batch))
                if server.poll() is not None:
                    break
    except Exception:
        # The MCP client has lost its server under its hands, and may say so in many ways.
        if len(acknowledged) < ADDED_BEFORE_KILL:
            raise
        print("    (the client's connection broke off, as it should)")
    server.wait()
    _say(f"Killed the server with SIGKILL; {len(acknowledged)} products had been acknowledged")
    return acknowledged


async def _check(url: str, acknowledged: set[str]) -> int:
    async with Client(f"{url}/mcp") as client:
        cart = await _call(client, "shopping_cart_get_cart")
        quantities = {item["product_id"]: item["quantity"] for item in cart["items"]}
        lost = sorted(acknowledged - quantities.keys())
        doubled = sorted(product for product in acknowledged if quantities.get(product, 1) != 1)
        unasked = len(quantities) - len(acknowledged) - 1
        _say(f"The cart now holds {_shown(cart)}")
        print(f"    acknowledged and there once: {len(acknowledged) - len(lost) - len(doubled)}")
        print(f"    acknowledged but lost: {len(lost)}; doubled: {len(doubled)}")
        print(f"    written, but killed before the answer went out: {unasked}")
        if lost or doubled or quantities.get("tea") != 2:
            _say("FAILED: the cart is not what it should be")
            return 1
    _say("Every acknowledged item is there, exactly once.")
    _explain(url)
    return 0


def _explain(url: str) -> None:
    print(
        f"""
To keep the shop running, and to connect any MCP client to it:

    {_command()} run examples.shopping_cart.service:service

    Claude Code    claude mcp add --transport http shop http://127.0.0.1:8000/mcp
    Inspector      npx @modelcontextprotocol/inspector --cli http://127.0.0.1:8000/mcp \\
                       --transport http --method tools/list
    Python         async with mcp.Client("http://127.0.0.1:8000/mcp") as client: ...

(This demo's own server was at {url}; it ends here.)"""
    )


def _command() -> str:
    """`greenroom`, as it can be typed here: it stands beside the interpreter."""
    command = Path(sys.executable).with_name("greenroom")
    here = Path.cwd()
    return str(command.relative_to(here) if command.is_relative_to(here) else command)


async def _call(client: Any, tool: str, **arguments: object) -> Any:
    result = await client.call_tool(tool, {"shopping_cart_id": CART, **arguments})
    if result.is_error:
        raise RuntimeError(result.content[0].text)
    return result.structured_content


def _start(port: int, database: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "greenroom", "run", "examples.shopping_cart.service:service"]
    environment = {
        **os.environ,
        "GREENROOM_DATABASE_URL": f"sqlite:///{database}",
        "GREENROOM_LOG_LEVEL": "WARNING",
    }
    server = subprocess.Popen([*command, "--port", str(port)], cwd=ROOT, env=environment)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"The server ended with code {server.returncode} while starting.")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=1):
                return server
        except OSError:
            time.sleep(0.05)
    server.kill()
    raise SystemExit(f"The server was not ready within {START_SECONDS:g} s.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _shown(cart: Any) -> str:
    return f"{len(cart['items'])} product(s), {sum(i['quantity'] for i in cart['items'])} item(s)"


def _say(text: str) -> None:
    print(f"\n▸ {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
