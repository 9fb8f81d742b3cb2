"""The ladder of checks that a request of the modern era climbs, and what legacy headers do."""

from base64 import b64encode

import pytest

from tests.support.mcp_wire import (
    ENVELOPE,
    MODERN,
    a_tool,
    an_endpoint,
    ask,
    headers_of,
    request,
    send,
)

CALL = {"name": "counter_increase", "arguments": {}}
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("MCP-Protocol-Version", None),
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Mcp-Method", None),
        ("Mcp-Method", "tools/list"),
        ("Mcp-Method", "TOOLS/CALL"),
        ("Mcp-Name", None),
        ("Mcp-Name", "another"),
        ("Mcp-Name", "=?base64?***?="),
    ],
)
def test_a_header_that_differs_from_the_body_is_refused(header: str, value: str | None) -> None:
    answer = ask(an_endpoint(), MODERN, "tools/call", CALL, {header: value})

    assert (answer.status, answer.error["code"]) == (400, -32020)
    assert answer.json["id"] == 7


def test_white_space_around_a_header_is_not_part_of_it() -> None:
    """httptools hands it over as it came."""
    headers = {"Mcp-Name": "counter_increase  ", "Mcp-Method": " tools/call"}

    assert ask(an_endpoint(), MODERN, "tools/call", CALL, headers).status == 200


def test_a_name_that_is_not_ascii_comes_encoded() -> None:
    name = "zähler"
    encoded = f"=?base64?{b64encode(name.encode()).decode()}?="
    endpoint = an_endpoint(tools=[a_tool(name)])

    assert ask(endpoint, MODERN, "tools/call", {"name": name}, {"Mcp-Name": encoded}).status == 200


@pytest.mark.parametrize("missing", [VERSION, CAPABILITIES])
def test_an_envelope_must_be_whole(missing: str) -> None:
    body = request(MODERN, "tools/list")
    del body["params"]["_meta"][missing]

    answer = send(an_endpoint(), body, headers_of(MODERN, body))

    assert (answer.status, answer.error["code"]) == (400, -32602)
    assert missing in answer.error["message"]


def test_a_modern_request_without_an_envelope_is_told_what_it_lacks() -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}

    answer = send(an_endpoint(), body, headers_of(MODERN, body))

    assert (answer.status, answer.error["code"]) == (400, -32602)


def test_capabilities_must_be_an_object() -> None:
    body = request(MODERN, "tools/list", {"_meta": {CAPABILITIES: True}})

    assert send(an_endpoint(), body, headers_of(MODERN, body)).error["code"] == -32602


def test_an_unknown_version_is_told_which_are_known() -> None:
    body = request(MODERN, "tools/list", {"_meta": {VERSION: "2031-01-01"}})
    headers = {**headers_of(MODERN, body), "MCP-Protocol-Version": "2031-01-01"}

    answer = send(an_endpoint(), body, headers)

    assert (answer.status, answer.error["code"]) == (400, -32022)
    assert answer.error["data"] == {"supported": [MODERN], "requested": "2031-01-01"}


def test_an_unknown_version_of_a_legacy_client_is_refused() -> None:
    body = request("2025-11-25", "tools/list")

    answer = send(an_endpoint(), body, {"MCP-Protocol-Version": "1999-01-01"})

    assert (answer.status, answer.error["code"]) == (400, -32022)
    assert "2025-06-18" in answer.error["data"]["supported"]


@pytest.mark.parametrize("doubled", ["mcp-method", "mcp-protocol-version", "mcp-name"])
def test_a_routing_header_that_comes_twice_is_refused(doubled: str) -> None:
    """Who reads the first and who reads the last would not agree."""
    body = request(MODERN, "tools/call", CALL)
    headers = headers_of(MODERN, body)
    same = next(value for name, value in headers.items() if name.lower() == doubled)

    answer = send(an_endpoint(), body, {**headers, doubled.upper(): same})

    assert (answer.status, answer.error["code"]) == (400, -32020)


def test_no_header_that_repeats_an_argument_comes_twice() -> None:
    twice = {"Mcp-Param-Region": "north", "MCP-PARAM-REGION": "south"}

    answer = ask(an_endpoint(), MODERN, "tools/call", CALL, twice)

    assert (answer.status, answer.error["code"]) == (400, -32020)


def test_a_session_id_is_ignored_and_never_given() -> None:
    for version in ("2025-11-25", MODERN):
        answer = ask(an_endpoint(), version, "tools/list", {}, {"Mcp-Session-Id": "s-1"})

        assert answer.status == 200
        assert "mcp-session-id" not in answer.headers


def test_an_envelope_in_a_legacy_request_changes_nothing() -> None:
    meta = {**ENVELOPE, VERSION: "2025-11-25"}

    assert ask(an_endpoint(), "2025-11-25", "tools/list", {"_meta": meta}).status == 200
