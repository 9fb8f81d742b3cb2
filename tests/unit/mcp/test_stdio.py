"""One client on two streams of bytes."""

import asyncio
import io
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from greenroom import Acl, McpContext, mcp_endpoint, mcp_resource, mcp_tool
from greenroom.mcp import StdioServer
from tests.support.mcp_wire import EVERY_REVISION, MODERN, request, served_by

ENDED = threading.Event()


@mcp_endpoint(server_name="lines")
class Lines:
    """A few tools."""

    @mcp_tool(description="Echoes.")
    def echo(self, text: str) -> str:
        return text

    @mcp_tool(description="Says how far it is.")
    def count(self, context: McpContext) -> str:
        context.report_progress(1)
        return context.protocol_version

    @mcp_tool(description="Waits for ever.")
    async def wait(self, context: McpContext) -> str:
        context.report_progress(1)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ENDED.set()
        return "never"

    @mcp_tool(description="For nobody.", acl=Acl.deny_all())
    def closed(self) -> str:
        return "open"

    @mcp_resource(uri="lines://a")
    def a(self) -> str:
        return "a"


class Peer:
    """The client's end."""

    def __init__(self, *, limit: int = 4096) -> None:
        (incoming, to), (heard, outgoing) = os.pipe(), os.pipe()
        self._to, self._from = os.fdopen(to, "wb"), os.fdopen(heard, "rb")
        self._theirs = (os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb"))
        self.server = StdioServer(
            served_by(Lines),
            *self._theirs,
            max_line_bytes=limit,
            drain_seconds=5,
        )

    def say(self, *messages: Any) -> None:
        for one in messages:
            self._to.write((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n")
        self._to.flush()

    def leave(self) -> None:
        self._to.close()

    def close(self) -> None:
        for one in (self._from, *self._theirs):
            one.close()

    async def hear(self) -> Any:
        line = await asyncio.wait_for(asyncio.to_thread(self._from.readline), 5)
        assert line.endswith(b"\n")
        return json.loads(line)


@asynccontextmanager
async def a_peer(**changes: Any) -> AsyncIterator[Peer]:
    peer = Peer(**changes)
    serving = asyncio.ensure_future(peer.server.serve())
    try:
        yield peer
    finally:
        peer.leave()
        await asyncio.wait_for(serving, 10)
        peer.close()


def call(name: str, version: str = MODERN, id_: Any = 1, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}}
    return {**request(version, "tools/call", params), "id": id_}


INITIALIZE = request(
    "2025-06-18",
    "initialize",
    {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t"}},
)


async def test_a_modern_request_says_everything_itself() -> None:
    async with a_peer() as peer:
        peer.say(request(MODERN, "server/discover"))
        assert (await peer.hear())["result"]["supportedVersions"] == [MODERN]

        peer.say(call("echo", text="grüße\nzwei"))
        answer = await peer.hear()

    assert answer["id"] == 1
    assert answer["result"]["content"][0]["text"] == "grüße\nzwei"


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_who_may_not_use_a_tool_is_told(version: str) -> None:
    async with a_peer() as peer:
        peer.say(call("closed", version))
        answer = await peer.hear()

    assert (answer["id"], answer["error"]["message"]) == (1, "You may not do this.")


async def test_a_handshake_holds_for_what_follows() -> None:
    async with a_peer() as peer:
        peer.say(INITIALIZE)
        assert (await peer.hear())["result"]["protocolVersion"] == "2025-06-18"
        peer.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        peer.say(call("count", "2025-06-18"))

        assert (await peer.hear())["params"] == {"progressToken": "t", "progress": 1}
        answer = await peer.hear()

    assert answer["result"]["content"][0]["text"] == "2025-06-18"


async def test_a_version_that_is_not_spoken_is_told() -> None:
    body = request(MODERN, "tools/list")
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2031-01-01"
    async with a_peer() as peer:
        peer.say(body)
        error = (await peer.hear())["error"]

    assert error["code"] == -32022
    assert error["data"]["supported"] == [MODERN]


async def test_requests_are_answered_as_they_are_done() -> None:
    ENDED.clear()
    async with a_peer() as peer:
        peer.say(call("wait", id_="slow"), call("echo", id_="quick", text="x"))
        said = [await peer.hear(), await peer.hear()]
        assert {one.get("id") or one["method"] for one in said} == {
            "quick",
            "notifications/progress",
        }

        cancel = {"method": "notifications/cancelled", "params": {"requestId": "slow"}}
        peer.say({"jsonrpc": "2.0", **cancel})
        assert await asyncio.to_thread(ENDED.wait, 5)
        peer.say(call("echo", id_="last", text="y"))
        assert (await peer.hear())["id"] == "last"


@pytest.mark.parametrize("params", [{}, {"requestId": 5}, {"requestId": []}, [], None])
async def test_a_cancellation_of_nothing_is_ignored(params: Any) -> None:
    async with a_peer() as peer:
        peer.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        peer.say(call("echo", text="x"))

        assert (await peer.hear())["id"] == 1


@pytest.mark.parametrize(
    ("line", "code"), [(b"{", -32700), (b"[]", -32600), (b"5", -32600), (b'"x"', -32600)]
)
async def test_a_line_that_is_no_message_is_told(line: bytes, code: int) -> None:
    async with a_peer() as peer:
        peer.say(line, b"", b"  ")
        answer = await peer.hear()

    assert answer["error"]["code"] == code
    assert answer["id"] is None


async def test_a_line_that_is_too_long_is_left_out() -> None:
    async with a_peer(limit=500) as peer:
        peer.say(b"x" * 2000, call("echo", text="x"))
        said = [await peer.hear(), await peer.hear()]

    assert sorted(one["id"] or 0 for one in said) == [0, 1]
    assert any("over the limit of 500 bytes" in str(one) for one in said)


async def test_one_revision_has_several_messages_in_a_line() -> None:
    handshake = request(
        "2025-03-26", "initialize", {**INITIALIZE["params"], "protocolVersion": "2025-03-26"}
    )
    both = [call("echo", "2025-03-26", 1, text="a"), call("echo", "2025-03-26", 2, text="b")]
    async with a_peer() as peer:
        peer.say(both)
        assert (await peer.hear())["error"]["code"] == -32600
        peer.say(handshake)
        await peer.hear()
        peer.say(both)
        assert {one["id"] for one in await peer.hear()} == {1, 2}


async def test_what_was_sent_before_the_end_is_answered() -> None:
    lines = b"".join(
        json.dumps(one).encode() + b"\n"
        for one in (
            request(MODERN, "subscriptions/listen", {"notifications": {}}),
            *(call("echo", id_=number, text="x") for number in range(200)),
        )
    )
    written = io.BytesIO()
    server = StdioServer(
        served_by(Lines), io.BytesIO(lines), written, max_line_bytes=4096, drain_seconds=5
    )

    await asyncio.wait_for(server.serve(), 10)

    said = [json.loads(line) for line in written.getvalue().splitlines()]
    answered = {one["id"] for one in said if "id" in one}
    assert answered == {7, *range(200)}


async def test_what_never_ends_is_not_waited_for_for_ever() -> None:
    ENDED.clear()
    lines = json.dumps(call("wait")).encode() + b"\n"
    server = StdioServer(
        served_by(Lines), io.BytesIO(lines), io.BytesIO(), max_line_bytes=4096, drain_seconds=0.01
    )

    await asyncio.wait_for(server.serve(), 10)

    assert ENDED.is_set()


async def test_a_client_that_reads_nothing_any_more_breaks_nothing() -> None:
    class Broken(io.BytesIO):
        def write(self, _data: Any) -> int:
            raise BrokenPipeError

    lines = json.dumps(call("echo", text="x")).encode() + b"\n"
    server = StdioServer(
        served_by(Lines), io.BytesIO(lines), Broken(), max_line_bytes=4096, drain_seconds=5
    )

    await asyncio.wait_for(server.serve(), 10)
