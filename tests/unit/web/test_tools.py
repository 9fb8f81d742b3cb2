"""Tools as plain HTTP routes, beside MCP."""

import asyncio
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from greenroom import (
    Effect,
    ImageContent,
    KeyValueEntity,
    McpContext,
    ReadOnlyEffect,
    Service,
    Settings,
    component,
    function_tool,
    mcp_endpoint,
    mcp_tool,
)
from greenroom.errors import CommandError
from tests.support.served import served


class Tree(BaseModel):
    """A type that refers to itself."""

    name: str
    children: list["Tree"] = []


class Sum(BaseModel):
    """What comes out."""

    total: int
    note: str | None = None


@component("box")
class Box(KeyValueEntity[int]):
    """A box."""

    def empty_state(self) -> int:
        return 0

    @function_tool(description="Puts something in.")
    def put(self, value: Annotated[int, "How many"]) -> Effect[int]:
        if value < 0:
            return self.effects.error("Nothing is less than nothing.")
        total = self.state + value
        return self.effects.update_state(total).then_reply(total)

    @function_tool(description="Says what is in it.")
    def get(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.state)

    @function_tool(description="Empties it.")
    def clear(self) -> Effect[None]:
        return self.effects.update_state(0).then_reply(None)


@mcp_endpoint(path="/shop", server_name="shop", tools=[Box], http=True)
class Shop:
    """Tools with HTTP routes."""

    @mcp_tool(description="Adds.", title="Add two numbers")
    def add(self, a: int, b: int = 1) -> Sum:
        return Sum(total=a + b)

    @mcp_tool(description="Lists.")
    def items(self, count: int = 2) -> list[str]:
        return ["x"] * count

    @mcp_tool(description="Says.")
    def say(self) -> str:
        return 'quoted "text"'

    @mcp_tool(description="Tells the day.")
    def day(self) -> date:
        return date(2026, 12, 1)

    @mcp_tool(description="Gives a tree.")
    def tree(self, tree: Tree) -> Tree:
        return tree

    @mcp_tool(description="Shows.")
    def show(self) -> ImageContent:
        return ImageContent(b"", "image/png")

    @mcp_tool(description="Says what is no Unicode.")
    def half(self) -> str:
        return "\ud83d"

    @mcp_tool(description="Breaks.")
    def crash(self) -> str:
        raise ZeroDivisionError("secret.py")

    @mcp_tool(description="Declines.")
    def decline(self) -> str:
        raise CommandError("Not today.")

    @mcp_tool(description="Who asks.")
    def who(self, context: McpContext) -> str:
        return f"{context.headers['x-name']} {context.idempotency_key}"


@mcp_endpoint(path="/mcp", server_name="other")
class Other:
    """Tools without HTTP routes."""

    @mcp_tool(description="Adds.")
    def add(self, a: int) -> int:
        return a


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("tools")
    chosen = Settings(database_url=f"sqlite:///{folder}/test.db", max_body_bytes=1000)
    service = Service("shop", components=[Box], endpoints=[Shop, Other], settings=chosen)
    with served(service.app) as address, httpx.Client(base_url=address) as client:
        yield client


@pytest.mark.parametrize(
    ("name", "body", "status", "answer"),
    [
        ("add", {"a": 2, "b": 3}, 200, {"total": 5}),
        ("add", {"a": 2}, 200, {"total": 3}),
        ("items", {}, 200, ["x", "x"]),
        ("items", None, 200, ["x", "x"]),
        ("say", {}, 200, 'quoted "text"'),
        ("day", {}, 200, "2026-12-01"),
        ("tree", {"tree": {"name": "a", "children": [{"name": "b"}]}}, 200, ...),
        ("box_put", {"box_id": "b-1", "value": 3}, 200, 3),
        ("box_get", {"box_id": "b-2"}, 200, 0),
        ("box_clear", {"box_id": "b-3"}, 204, None),
    ],
)
def test_a_tool_answers_with_json(
    client: httpx.Client, name: str, body: Any, status: int, answer: Any
) -> None:
    response = client.post(f"/shop/tools/{name}", json=body)

    assert response.status_code == status
    if answer is None:
        assert response.content == b""
    elif answer is not ...:
        assert response.json() == answer
        assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("name", "body", "status", "code", "said"),
    [
        ("add", b'{"a":"x"}', 422, "invalid-arguments", "a: "),
        ("add", b"{", 422, "invalid-arguments", "no JSON"),
        ("add", b"[1]", 422, "invalid-arguments", "must be an object"),
        ("box_put", b'{"box_id":"b","value":-1}', 400, "declined", "less than nothing"),
        ("decline", b"", 400, "declined", "Not today."),
        ("crash", b"", 500, "internal", "Reference"),
        ("half", b"", 500, "internal", "Reference"),
        ("add", b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", 422, "invalid-arguments", "64 levels"),
        ("add", b'{"a":' + b" " * 1000 + b"1}", 413, "payload-too-large", "limit"),
    ],
)
def test_what_goes_wrong_is_a_problem(
    client: httpx.Client, name: str, body: bytes, status: int, code: str, said: str
) -> None:
    response = client.post(f"/shop/tools/{name}", content=body)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == code
    assert said in response.json()["detail"]
    assert "secret" not in response.text


def test_the_same_key_does_a_thing_once(client: httpx.Client) -> None:
    body, headers = {"box_id": "keyed", "value": 3}, {"Idempotency-Key": "k-1"}

    totals = [
        client.post("/shop/tools/box_put", json=body, headers=headers).json() for _ in range(2)
    ]

    assert totals == [3, 3]
    too_long = client.post("/shop/tools/who", headers={"Idempotency-Key": "k" * 256})
    assert too_long.status_code == 422


def test_a_method_may_ask_who_calls(client: httpx.Client) -> None:
    headers = {"X-Name": "Ada", "Idempotency-Key": "k"}

    assert client.post("/shop/tools/who", headers=headers).json() == "Ada k"


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)],
)
def test_other_hosts_and_pages_are_refused(
    client: httpx.Client, headers: dict[str, str], status: int
) -> None:
    response = client.post("/shop/tools/say", headers=headers)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/shop/tools/show", "/mcp/tools/add", "/shop/tools/nothing"])
def test_what_is_not_offered_is_not_there(client: httpx.Client, path: str) -> None:
    assert client.post(path).status_code == 404


def test_the_routes_are_described(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]

    assert "/shop/tools/show" not in paths
    assert "/mcp/tools/add" not in paths
    add = paths["/shop/tools/add"]["post"]
    assert (add["summary"], add["description"]) == ("Add two numbers", "Adds.")
    assert add["operationId"] == "add"
    body = add["requestBody"]
    assert body["required"] is True
    schema = body["content"]["application/json"]["schema"]
    assert schema["properties"]["a"] == {"type": "integer"}
    assert schema["required"] == ["a"]
    reply = add["responses"]["200"]["content"]["application/json"]["schema"]
    assert reply["properties"]["total"] == {"type": "integer"}
    items = paths["/shop/tools/items"]["post"]["responses"]["200"]
    assert items["content"]["application/json"]["schema"]["type"] == "array"
    assert "204" in paths["/shop/tools/box_clear"]["post"]["responses"]
    assert "$defs" not in str(paths)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
TOOLS = ["add", "items", "say", "tree", "who", "box_put", "box_get", "box_clear"]
ARGUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "count", "tree", "box_id", "value"]), VALUES, max_size=3
)


@given(name=st.sampled_from(TOOLS), body=ARGUMENTS | VALUES | st.binary(max_size=20))
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_body_gets_an_answer(client: httpx.Client, name: str, body: Any) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    response = client.post(f"/shop/tools/{name}", content=content, headers={"X-Name": "x"})

    assert response.status_code in {200, 204, 400, 413, 422}, response.text


def test_mcp_is_still_there(client: httpx.Client) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    tools = client.post("/shop", json=body).json()["result"]["tools"]

    assert "add" in {tool["name"] for tool in tools}


def test_ordinary_routes_and_tools_share_a_service(client: httpx.Client) -> None:
    async def many() -> list[int]:
        async with httpx.AsyncClient(base_url=client.base_url) as fresh:
            calls = [
                fresh.post("/shop/tools/box_put", json={"box_id": "many", "value": 1})
                for _ in range(20)
            ]
            return sorted(one.json() for one in await asyncio.gather(*calls))

    assert asyncio.run(many()) == list(range(1, 21))
