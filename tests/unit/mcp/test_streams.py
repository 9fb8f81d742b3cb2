"""What is said before an answer, what ends with the client, and what clients can listen to."""

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from greenroom import (
    McpContext,
    ResourceLink,
    mcp_completion,
    mcp_endpoint,
    mcp_instances,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
)
from greenroom.mcp import McpEndpoint
from tests.support.mcp_wire import (
    DEFAULT_HEADERS,
    EVERY_REVISION,
    LEGACY,
    MODERN,
    ask,
    headers_of,
    request,
    send,
    served_by,
)

STARTED = threading.Event()
ENDED: list[str] = []


@mcp_endpoint(server_name="talks")
class Talks:
    """Methods that say something before their answer."""

    @mcp_tool(description="Counts on a thread.")
    def count(self, context: McpContext, to: int = 2) -> int:
        for done in range(to):
            context.report_progress(done, total=to, message=f"at {done}")
        return to

    @mcp_tool(description="Counts on the loop, sometimes backwards.")
    async def waver(self, context: McpContext) -> str:
        for done in (1, 3, 2, 3, 4):
            context.report_progress(done)
        return "done"

    @mcp_tool(description="Writes to the client's log.")
    def talk(self, context: McpContext) -> str:
        context.log("debug", {"detail": 1})
        context.log("info", "for people", logger="shop")
        context.log("error", "bad")
        return "said"

    @mcp_tool(description="Says something and waits for ever.")
    async def wait(self, context: McpContext, first: bool = False) -> str:
        if first:
            context.report_progress(1)
        STARTED.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ENDED.append("wait")
        return "never"

    @mcp_tool(description="Goes on until it is told that nobody waits.")
    def work(self, context: McpContext) -> str:
        STARTED.set()
        while not context.cancelled:
            threading.Event().wait(0.001)
        ENDED.append("work")
        return "stopped"

    @mcp_tool(description="Ends soon.")
    async def soon(self) -> str:
        STARTED.set()
        await asyncio.sleep(0)
        ENDED.append("soon")
        return "done"

    @mcp_tool(description="Changes things.")
    def change(self, context: McpContext) -> None:
        context.resource_updated("talks://a")
        context.resource_updated("talks://b")
        context.resources_changed()

    @mcp_resource(uri="talks://a")
    def a(self, context: McpContext) -> str:
        context.report_progress(1)
        return "a"

    @mcp_resource(uri_template="talks://b/{c}")
    def b(self, c: str) -> str: ...

    @mcp_instances(b)
    def all_b(self) -> list[ResourceLink]: ...

    @mcp_prompt
    def p(self, context: McpContext) -> str:
        context.report_progress(1)
        return "p"


def call(
    name: str, version: str, meta: Mapping[str, Any], headers: Mapping[str, Any] | None = None
) -> Any:
    params = {"name": name, "_meta": dict(meta)}
    body = request(version, "tools/call", params)
    return send(served_by(Talks), body, {**headers_of(version, body), **(headers or {})})


@pytest.fixture(autouse=True)
def nothing_happened() -> None:
    STARTED.clear()
    ENDED.clear()


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_progress_comes_before_the_answer(version: str) -> None:
    answer = call("count", version, {"progressToken": "t"})

    assert answer.status == 200
    assert answer.headers["x-accel-buffering"] == "no"
    *before, last = answer.events
    assert [one["params"] for one in before] == [
        {"progressToken": "t", "progress": 0, "total": 2, "message": "at 0"},
        {"progressToken": "t", "progress": 1, "total": 2, "message": "at 1"},
    ]
    assert all(one["method"] == "notifications/progress" for one in before)
    assert last["id"] == 7
    assert last["result"]["content"][0]["text"] == "2"


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_progress_that_nobody_asked_for_is_not_sent(version: str) -> None:
    answer = call("count", version, {})

    assert answer.headers["content-type"] == "application/json"
    assert answer.result["content"][0]["text"] == "2"


def test_a_client_that_takes_json_alone_gets_the_answer_alone() -> None:
    answer = call("count", MODERN, {"progressToken": 1}, {"Accept": "application/json"})

    assert answer.headers["content-type"] == "application/json"
    assert answer.result["content"][0]["text"] == "2"


def test_progress_only_ever_goes_up() -> None:
    *before, _ = call("waver", MODERN, {"progressToken": 0}).events

    assert [one["params"]["progress"] for one in before] == [1, 3, 4]


@pytest.mark.parametrize(
    ("version", "meta", "levels"),
    [
        ("2025-11-25", {}, ["info", "error"]),
        (MODERN, {"io.modelcontextprotocol/logLevel": "debug"}, ["debug", "info", "error"]),
        (MODERN, {"io.modelcontextprotocol/logLevel": "error"}, ["error"]),
    ],
)
def test_log_lines_are_sent_from_the_level_on(
    version: str, meta: Mapping[str, Any], levels: list[str]
) -> None:
    *before, _ = call("talk", version, meta).events

    assert [one["params"]["level"] for one in before] == levels
    assert all(one["method"] == "notifications/message" for one in before)


@pytest.mark.parametrize("level", [None, "loud"])
def test_a_modern_request_that_names_no_level_gets_no_log(level: str | None) -> None:
    meta = {} if level is None else {"io.modelcontextprotocol/logLevel": level}

    assert call("talk", MODERN, meta).headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("method", "params"), [("resources/read", {"uri": "talks://a"}), ("prompts/get", {"name": "p"})]
)
def test_resources_and_prompts_may_talk_too(method: str, params: dict[str, Any]) -> None:
    body = request(MODERN, method, {**params, "_meta": {"progressToken": "t"}})

    *before, last = send(served_by(Talks), body, headers_of(MODERN, body)).events

    assert [one["method"] for one in before] == ["notifications/progress"]
    assert "result" in last


# -- a client that leaves, and one that listens ------------------------------------------------


class Client:
    """One HTTP request whose client may leave while it is worked on."""

    def __init__(self, endpoint: McpEndpoint, version: str, body: dict[str, Any]) -> None:
        lines = {**DEFAULT_HEADERS, **headers_of(version, body)}
        pairs = [(k.lower().encode(), v.encode()) for k, v in lines.items() if v is not None]
        self._scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": pairs}
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": json.dumps(body).encode()})
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self._events: list[bytes] = []
        self.task = asyncio.ensure_future(endpoint(self._scope, self._incoming.get, self.sent.put))

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def message(self) -> Any:
        """The next event, as JSON."""
        while not self._events:
            sent = await asyncio.wait_for(self.sent.get(), 5)
            blocks = sent.get("body", b"").split(b"\n\n")
            self._events += [one.split(b"data: ", 1)[1] for one in blocks if b"data: " in one]
        return json.loads(self._events.pop(0))


async def started() -> None:
    assert await asyncio.to_thread(STARTED.wait, 5)


@pytest.mark.parametrize("name", ["wait", "work"])
async def test_a_modern_client_that_leaves_ends_its_call(name: str) -> None:
    body = request(MODERN, "tools/call", {"name": name})
    client = Client(served_by(Talks), MODERN, body)
    await started()

    client.leave()

    async with asyncio.timeout(5):
        await client.task
        while [name] != ENDED:
            await asyncio.sleep(0)
    assert client.sent.empty()


@mcp_endpoint(server_name="waits")
class Waits:
    """Methods of every kind that never answer."""

    @mcp_resource(uri_template="waits:///{x}")
    async def read(self, x: str) -> str:
        return await self._wait()

    @mcp_instances(read)
    async def listed(self) -> list[ResourceLink]:
        return [ResourceLink("waits:///x", await self._wait())]

    @mcp_completion(read, "x")
    async def values(self, typed: str) -> list[str]:
        return [await self._wait()]

    @mcp_prompt
    async def prompt(self) -> str:
        return await self._wait()

    async def _wait(self) -> str:
        STARTED.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ENDED.append("wait")
        return "never"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": "waits:///x"}),
        ("resources/list", {}),
        ("prompts/get", {"name": "prompt"}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "waits:///{x}"},
                "argument": {"name": "x", "value": ""},
            },
        ),
    ],
)
async def test_so_does_a_call_of_any_other_kind(method: str, params: dict[str, Any]) -> None:
    client = Client(served_by(Waits), MODERN, request(MODERN, method, params))
    await started()

    client.leave()

    await asyncio.wait_for(client.task, 5)
    assert ENDED == ["wait"]


async def test_a_client_may_leave_in_the_middle_of_a_stream() -> None:
    params = {"name": "wait", "arguments": {"first": True}, "_meta": {"progressToken": 1}}
    client = Client(served_by(Talks), MODERN, request(MODERN, "tools/call", params))
    assert (await client.message())["method"] == "notifications/progress"

    client.leave()

    await asyncio.wait_for(client.task, 5)
    assert ENDED == ["wait"]


@pytest.mark.parametrize("version", LEGACY)
async def test_a_legacy_client_that_leaves_has_not_cancelled(version: str) -> None:
    client = Client(served_by(Talks), version, request(version, "tools/call", {"name": "soon"}))
    client.leave()

    await asyncio.wait_for(client.task, 5)

    assert ENDED == ["soon"]


async def test_a_server_that_stops_ends_what_is_under_way() -> None:
    client = Client(served_by(Talks), MODERN, request(MODERN, "tools/call", {"name": "wait"}))
    await started()

    client.task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(client.task, 5)
    while not ENDED:
        await asyncio.sleep(0)


async def test_a_stream_on_which_nothing_is_said_is_kept_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("greenroom.mcp._stream.KEEP_ALIVE_SECONDS", 0.01)
    params = {"name": "wait", "arguments": {"first": True}, "_meta": {"progressToken": 1}}
    client = Client(served_by(Talks), MODERN, request(MODERN, "tools/call", params))
    await client.message()

    comment = await asyncio.wait_for(client.sent.get(), 5)

    assert comment["body"].startswith(b":")
    assert comment["more_body"] is True
    client.leave()
    await client.task


WANTED = {
    "toolsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["talks://a"],
}


async def test_a_client_is_told_what_it_asked_for_and_nothing_else() -> None:
    endpoint = served_by(Talks)
    body = request(MODERN, "subscriptions/listen", {"notifications": WANTED})
    client = Client(endpoint, MODERN, body)

    first = await client.message()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"] == {
        "notifications": {"resourcesListChanged": True, "resourceSubscriptions": ["talks://a"]},
        "_meta": {"io.modelcontextprotocol/subscriptionId": 7},
    }

    change = request(MODERN, "tools/call", {"name": "change"})
    await asyncio.to_thread(send, endpoint, change, headers_of(MODERN, change))

    meta = {"io.modelcontextprotocol/subscriptionId": 7}
    assert await client.message() == {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": "talks://a", "_meta": meta},
    }
    assert (await client.message())["method"] == "notifications/resources/list_changed"

    endpoint.methods.changes.end()
    last = await client.message()
    assert last["id"] == 7
    assert last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
    await client.task


async def test_who_stops_listening_is_forgotten() -> None:
    endpoint = served_by(Talks)
    body = request(MODERN, "subscriptions/listen", {"notifications": {}})
    client = Client(endpoint, MODERN, body)
    assert (await client.message())["params"]["notifications"] == {}

    client.leave()
    await asyncio.wait_for(client.task, 5)

    change = request(MODERN, "tools/call", {"name": "change"})
    await asyncio.to_thread(send, endpoint, change, headers_of(MODERN, change))
    assert client.sent.empty()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": []},
        {"notifications": {"resourceSubscriptions": "talks://a"}},
        {"notifications": {"resourceSubscriptions": [1]}},
        {"notifications": {"resourceSubscriptions": ["talks://a"] * 1001}},
    ],
)
def test_a_wish_that_is_none_is_refused(params: dict[str, Any]) -> None:
    answer = ask(served_by(Talks), MODERN, "subscriptions/listen", params)

    assert (answer.status, answer.error["code"]) == (400, -32602)


def test_who_takes_no_stream_can_not_listen() -> None:
    params = {"notifications": {}}
    headers = {"Accept": "application/json"}

    answer = ask(served_by(Talks), MODERN, "subscriptions/listen", params, headers)

    assert (answer.status, answer.error["code"]) == (400, -32600)
