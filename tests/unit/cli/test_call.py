"""`greenroom call`, against an endpoint under a real server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from greenroom.cli import main
from greenroom.edge import ToolOutcome
from tests.support.mcp_wire import ScriptedCaller, a_tool, an_endpoint
from tests.support.served import served

SCHEMA = {
    "type": "object",
    "properties": {
        "counter_id": {"type": "string"},
        "by": {"type": "integer"},
        "note": {"type": "string"},
        "tags": {"type": "array"},
    },
}


@pytest.fixture
def caller() -> ScriptedCaller:
    return ScriptedCaller()


@pytest.fixture
def url(caller: ScriptedCaller) -> Iterator[str]:
    tools: list[Any] = [a_tool(input_schema=SCHEMA), a_tool("mine", id_parameter=None)]
    tools[1].handler.name = "mine"
    app: Any = an_endpoint(caller, tools)
    app._hosts = type(app._hosts)(["127.0.0.1"])
    with served(app, lifespan="off") as address:
        yield address


def test_a_command_is_called_and_its_answer_printed(
    url: str, caller: ScriptedCaller, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["by=2", "note=2", 'tags=["a"]', "--idempotency-key", "k-1"]

    code = main(["call", "counter/a/b", "increase", *arguments, "--url", url])

    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"total": 5}
    [call] = caller.calls
    assert call.tool == "counter_increase"
    assert call.arguments == {"counter_id": "a/b", "by": 2, "note": "2", "tags": ["a"]}
    assert call.context.idempotency_key == "k-1"


def test_a_tool_may_be_named_as_it_is_listed(url: str) -> None:
    assert main(["call", "counter/c", "counter_increase", "--url", f"{url}/mcp"]) == 0


def test_the_service_is_looked_for_where_the_settings_say(
    url: str, caller: ScriptedCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`greenroom run` and `greenroom call` in one environment find each other."""
    monkeypatch.setenv("GREENROOM_PORT", url.rpartition(":")[2])
    monkeypatch.setenv("GREENROOM_HOST", "0.0.0.0")

    assert main(["call", "counter/c", "increase"]) == 0
    assert len(caller.calls) == 1


def test_what_the_command_declined_is_printed_and_fails(
    url: str, caller: ScriptedCaller, capsys: pytest.CaptureFixture[str]
) -> None:
    caller.outcome = ToolOutcome(True, "The counter is full.")

    assert main(["call", "counter/c", "increase", "--url", url]) == 1
    assert capsys.readouterr().err == "The counter is full.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["counter/c", "decrease"], 1, "has no tool 'decrease'; it has: increase, mine"),
        (["cart/c", "add"], 1, "no tool of a component 'cart'; it exposes: counter"),
        (["counter/c", "mine"], 1, "decides by itself which instance"),
        (["counter", "increase"], 2, "write COMPONENT/INSTANCE"),
        (["counter/c", "increase", "by"], 2, "write NAME=VALUE"),
        (["counter/", "increase"], 1, "must have 1 to 255 characters"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(
    url: str, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", *arguments, "--url", url]) == code
    assert said in capsys.readouterr().err


def test_a_service_that_does_not_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "counter/c", "increase", "--url", "http://127.0.0.1:9"]) == 1
    assert "No service answers at http://127.0.0.1:9/mcp" in capsys.readouterr().err


def test_a_server_without_mcp_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    async def plain(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"Not found"})

    with served(plain, lifespan="off") as url:
        assert main(["call", "counter/c", "increase", "--url", url]) == 1
    assert "There is no MCP endpoint" in capsys.readouterr().err


def test_a_url_must_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "counter/c", "increase", "--url", "ftp://x"]) == 2
    assert "is not the URL of a service" in capsys.readouterr().err


@pytest.fixture
def guarded() -> Iterator[tuple[str, list[str | None]]]:
    """An endpoint that refuses everybody, and what tokens it was given."""
    tokens: list[str | None] = []

    class Guard(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            tokens.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"error": {"code": 1, "message": "A bearer token is required."}}'
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp", tokens
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_is_sent_and_asked_for(
    guarded: tuple[str, list[str | None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, tokens = guarded
    file = tmp_path / "token"
    file.write_text("from-a-file\n")

    assert main(["call", "counter/c", "increase", "--url", url]) == 1
    said = capsys.readouterr().err
    assert "A bearer token is required. Give a token that it takes with --token-file" in said
    monkeypatch.setenv("GREENROOM_TOKEN", "from-outside")
    assert main(["call", "counter/c", "increase", "--url", url]) == 1
    assert main(["call", "counter/c", "increase", "--url", url, "--token-file", str(file)]) == 1
    assert tokens == [None, "Bearer from-outside", "Bearer from-a-file"]


def test_a_token_that_can_t_be_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "none")

    assert main(["call", "counter/c", "increase", "--token-file", missing]) == 2
    assert "can't be read" in capsys.readouterr().err
