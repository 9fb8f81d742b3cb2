"""The endpoint as an HTTP resource: methods, types, limits, and bodies that are no requests."""

import asyncio
import json
from typing import Any

import pytest

from greenroom.edge import HostCheck
from tests.support.mcp_wire import (
    EVERY_REVISION,
    MODERN,
    an_endpoint,
    ask,
    headers_of,
    request,
    send,
)

LIST = request("2025-11-25", "tools/list")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
def test_only_post_is_allowed(method: str) -> None:
    answer = send(an_endpoint(), b"", method=method)

    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("version", [None, *EVERY_REVISION])
def test_a_notification_is_accepted_without_an_answer(version: str | None) -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    answer = send(an_endpoint(), body, {"MCP-Protocol-Version": version})

    assert (answer.status, answer.body) == (202, b"")
    assert "content-type" not in answer.headers


def test_a_notification_of_an_unknown_version_is_refused() -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    assert send(an_endpoint(), body, {"MCP-Protocol-Version": "1999-01-01"}).status == 400


def test_a_response_from_a_client_is_accepted_before_2026_only() -> None:
    body = {"jsonrpc": "2.0", "id": 1, "result": {}}

    assert send(an_endpoint(), body, {"MCP-Protocol-Version": "2025-11-25"}).status == 202
    assert send(an_endpoint(), body, {"MCP-Protocol-Version": MODERN}).status == 400


@pytest.mark.parametrize("accept", [None, "", "*/*", "application/json", "application/*;q=0.8"])
def test_a_client_that_takes_json_is_served(accept: str | None) -> None:
    assert send(an_endpoint(), LIST, {"Accept": accept}).status == 200


@pytest.mark.parametrize("accept", ["text/event-stream", "text/html, image/*"])
def test_a_client_that_takes_no_json_is_told_so(accept: str) -> None:
    assert send(an_endpoint(), LIST, {"Accept": accept}).status == 406


@pytest.mark.parametrize("kind", [None, "application/json; charset=utf-8", "Application/JSON"])
def test_json_may_be_announced_in_several_ways(kind: str | None) -> None:
    assert send(an_endpoint(), LIST, {"Content-Type": kind}).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_what_a_web_page_may_send_unasked_is_refused(kind: str) -> None:
    """These types need no permission from the server before a browser sends them."""
    assert send(an_endpoint(), LIST, {"Content-Type": kind}).status == 415


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'{"a":NaN}', b"{'a':1}", b'{"a":1}}'])
def test_what_is_not_json_is_a_parse_error(body: bytes) -> None:
    answer = send(an_endpoint(), body)

    assert (answer.status, answer.error["code"]) == (400, -32700)
    assert answer.json["id"] is None


@pytest.mark.parametrize(
    "body",
    [
        b"1",
        b"null",
        b'"text"',
        b"{}",
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":[],"method":"ping"}',
    ],
)
def test_what_is_no_request_is_invalid(body: bytes) -> None:
    answer = send(an_endpoint(), body)

    assert (answer.status, answer.error["code"]) == (400, -32600)


def test_params_must_be_an_object() -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}

    assert send(an_endpoint(), body).error["code"] == -32602


@pytest.mark.parametrize("id_", ["a-1", "", 0, -1, 2**53, 'quo"te', "ü"])
def test_an_answer_carries_the_id_of_its_request(id_: object) -> None:
    answer = send(an_endpoint(), {**LIST, "id": id_})

    assert answer.json["id"] == id_


@pytest.mark.parametrize("chunks", [1, 2, 7])
def test_a_body_over_the_limit_is_refused(chunks: int) -> None:
    body = json.dumps({**LIST, "params": {"x": "y" * 4096}}).encode()

    answer = send(an_endpoint(limit=4096), body, chunks=chunks)

    assert answer.status == 413
    assert "4,096 bytes" in answer.error["message"]


def test_a_body_that_announces_too_much_is_not_read() -> None:
    async def never() -> Any:
        raise AssertionError

    sent: list[Any] = []

    async def keep(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-length", b"4097")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    asyncio.run(an_endpoint(limit=4096)(scope, never, keep))

    assert sent[0]["status"] == 413


def test_a_body_may_come_in_pieces() -> None:
    assert send(an_endpoint(), LIST, chunks=5).status == 200


def test_a_client_that_leaves_gets_no_answer() -> None:
    async def gone() -> Any:
        return {"type": "http.disconnect"}

    sent: list[Any] = []

    async def keep(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "headers": [(b"host", b"localhost")]}
    asyncio.run(an_endpoint()(scope, gone, keep))

    assert sent == []


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_body_nested_too_deep_is_refused(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    nested = opening * 100 + "1" + closing * 100
    body = b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":%b}}' % nested.encode()

    assert send(an_endpoint(), body).status == 400


def test_many_brackets_in_a_text_are_not_depth() -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": "[" * 500}}

    assert send(an_endpoint(), body).status == 200


def test_foreign_hosts_and_origins_are_refused_before_anything_is_read() -> None:
    endpoint = an_endpoint(hosts=HostCheck(["localhost"]))

    assert send(endpoint, b"not read", {"Host": "evil.example"}).status == 421
    assert send(endpoint, b"not read", {"Origin": "http://evil.example"}).status == 403
    assert send(endpoint, LIST, {"Origin": "http://localhost:3000"}).status == 200


def test_a_batch_is_answered_where_the_revision_has_batches() -> None:
    body = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "nobody"},
        5,
    ]

    answer = send(an_endpoint(), body, {"MCP-Protocol-Version": "2025-03-26"})

    assert answer.status == 200
    ping, unknown, invalid = answer.json
    assert ping == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert unknown["error"]["code"] == -32601
    assert (invalid["id"], invalid["error"]["code"]) == (None, -32600)


def test_a_batch_of_notifications_has_no_answer() -> None:
    body = [{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2

    assert send(an_endpoint(), body).status == 202


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
def test_a_batch_is_refused_elsewhere(version: str) -> None:
    answer = send(an_endpoint(), [LIST], {"MCP-Protocol-Version": version})

    assert (answer.status, answer.error["code"]) == (400, -32600)


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_its_limits(count: int) -> None:
    body = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * count

    assert send(an_endpoint(limit=10**6), body).status == 400


def test_a_handshake_is_not_part_of_a_batch() -> None:
    body = [request("2025-03-26", "initialize", {"protocolVersion": "2025-03-26"})]

    assert send(an_endpoint(), body).status == 400


def test_headers_of_helpers_match_the_specification() -> None:
    body = request(MODERN, "tools/call", {"name": "counter_increase"})

    assert headers_of(MODERN, body)["Mcp-Name"] == "counter_increase"
    assert ask(an_endpoint(), MODERN, "tools/call", {"name": "counter_increase"}).status == 200
