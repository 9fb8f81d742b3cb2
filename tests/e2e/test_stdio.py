"""`greenroom mcp` as a desktop client starts it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.support.server import ROOT

LOUD = '''
from greenroom import Effect, KeyValueEntity, Service, component, function_tool, mcp_endpoint, mcp_tool

print("a line that is no message")


@component("box")
class Box(KeyValueEntity[int]):
    """A box."""

    def empty_state(self) -> int:
        return 0

    @function_tool(description="Puts something in.")
    def put(self, value: int) -> Effect[int]:
        print("another one")
        return self.effects.update_state(value).then_reply(value)


@mcp_endpoint(server_name="boxes", tools=[Box])
class BoxesMcp:
    @mcp_tool(description="Greets.")
    def greet(self, name: str) -> str:
        print("and another one")
        return f"Hello, {name}!"


@mcp_endpoint(path="/other", server_name="other")
class OtherMcp: ...


service = Service("boxes", components=[Box], endpoints=[BoxesMcp])
several = Service("several", components=[Box], endpoints=[BoxesMcp, OtherMcp])
nothing = Service("nothing", components=[Box])
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loud.py").write_text(LOUD)
    return tmp_path


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_official_client_starts_it(folder: Path, mode: Any) -> None:
    """What the application prints goes elsewhere."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "greenroom", "mcp", "loud:service"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT / "src"), "GREENROOM_LOG_LEVEL": "WARNING"},
    )

    async with Client(server, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        greeted = await client.call_tool("greet", {"name": "Ada"})
        put = await client.call_tool("box_put", {"box_id": "b-1", "value": 3})

    assert tools == ["box_put", "greet"]
    assert greeted.content[0].text == "Hello, Ada!"  # type: ignore[union-attr]
    assert put.content[0].text == "3"  # type: ignore[union-attr]


def _run(folder: Path, *arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "greenroom", "mcp", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
        input=lines,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_it_answers_what_is_piped_into_it_and_ends(folder: Path) -> None:
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})

    done = _run(folder, "loud:several", "--endpoint", "/other", lines=ping + "\n")

    assert done.returncode == 0
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert "a line that is no message" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["loud:several"], "several MCP endpoints; choose with --endpoint: /mcp, /other"),
        (["loud:service", "--endpoint", "/x"], "There is no MCP endpoint at '/x'; there is: /mcp"),
        (["loud:nothing"], "The service 'nothing' has no MCP endpoint"),
    ],
)
def test_what_can_not_be_served_is_told(folder: Path, arguments: list[str], said: str) -> None:
    done = _run(folder, *arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
