"""Other people's clients against a real server: list, call, read, prompt."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.support.node import ROOT, packages, run_node

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.mark.parametrize(("version", "mode"), [("v1", "-"), ("v2", "legacy"), ("v2", "auto")])
def test_the_official_typescript_clients(url: str, version: str, mode: str) -> None:
    script = packages() / "clients.mjs"
    # Beside its packages, where Node looks for them.
    script.write_bytes((Path(__file__).parent / "clients.mjs").read_bytes())

    done = run_node(str(script), version, mode, url)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["server"]["name"] == "conformance"
    assert "test_simple_text" in seen["tools"]
    assert seen["called"]["content"][0]["text"].startswith("This is a simple text")
    assert seen["streamed"]["content"][0]["text"] == "done"
    assert seen["progress"] == [0, 50, 100]
    assert "test://static-text" in seen["resources"]
    assert seen["templates"] == ["test://template/{id}/data"]
    assert json.loads(seen["read"]["contents"][0]["text"])["id"] == "7"
    assert "test_simple_prompt" in seen["prompts"]
    assert "arg1='a'" in seen["prompt"]["messages"][0]["content"]["text"]
    assert seen["completed"]["completion"]["values"] == ["paris", "park", "party"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tools/list"], "test_simple_text"),
        (["tools/call", "--tool-name", "test_simple_text"], "This is a simple text response"),
        (["resources/list"], "test://static-text"),
        (["resources/read", "--uri", "test://static-text"], "the content of the static text"),
        (["prompts/list"], "test_simple_prompt"),
        (["prompts/get", "--prompt-name", "test_simple_prompt"], "This is a simple prompt"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_the_inspector(url: str, arguments: list[str], said: str) -> None:
    inspector = packages() / "node_modules/@modelcontextprotocol/inspector"
    launcher = inspector / "clients/launcher/build/index.js"

    done = run_node(
        str(launcher), "--cli", url, "--transport", "http", "--method", *arguments, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_the_inspector_starts_a_server_itself(tmp_path: Path) -> None:
    """As desktop clients do, over standard input and output."""
    inspector = packages() / "node_modules/@modelcontextprotocol/inspector"
    launcher = inspector / "clients/launcher/build/index.js"
    settings = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "GREENROOM_DATABASE_URL": f"sqlite:///{tmp_path}/test.db",
    }
    variables = [part for name, value in settings.items() for part in ("-e", f"{name}={value}")]

    done = run_node(
        str(launcher), "--cli", *variables, sys.executable, "-m", "greenroom", "mcp",
        "tests.conformance.server:service", "--method", "tools/call",
        "--tool-name", "test_simple_text", timeout=60,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "This is a simple text response" in done.stdout


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_official_python_client(url: str, mode: Any) -> None:
    progress: list[float] = []

    async def note(done: float, _total: float | None, _message: str | None) -> None:
        progress.append(done)

    async with Client(url, mode=mode) as client:
        assert "test_simple_text" in {tool.name for tool in (await client.list_tools()).tools}
        called = await client.call_tool("test_tool_with_progress", progress_callback=note)
        listed = (await client.list_resources()).resources
        read = await client.read_resource("test://template/7/data")
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})

    assert not called.is_error
    assert progress == [0, 50, 100]
    assert "test://template/1/data" in {str(one.uri) for one in listed}
    assert '"id":"7"' in read.contents[0].text  # type: ignore[union-attr]
    assert "arg1='a'" in str(prompt.messages[0].content)
