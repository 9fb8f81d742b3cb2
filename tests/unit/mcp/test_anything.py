"""Whatever is sent: an answer of the protocol, never a crash, never the inside."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    AskModel,
    McpContext,
    mcp_completion,
    mcp_endpoint,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
)
from tests.support.mcp_wire import (
    EVERY_REVISION,
    MODERN,
    an_endpoint,
    headers_of,
    request,
    send,
    served_by,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = ["jsonrpc", "id", "method", "params", "result"]
METHODS = ["initialize", "ping", "tools/list", "tools/call", "server/discover", "nobody"]
PARAMS = ["name", "arguments", "cursor", "_meta", "protocolVersion"]
META = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "greenroom/idempotencyKey",
    "traceparent",
]
HEADERS = [
    "Accept",
    "Content-Length",
    "Content-Type",
    "Host",
    "Idempotency-Key",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Origin",
    "traceparent",
]


@mcp_endpoint(server_name="anything")
class Own:
    """Methods of an endpoint, one of each kind, under one name."""

    @mcp_tool(description="Asks.")
    async def one(self, context: McpContext, x: int = 0) -> str:
        return context.ask("q", AskModel(f"{x}?"))

    @mcp_resource(uri_template="any://one/{x}")
    async def read(self, x: str) -> str:
        return x

    @mcp_prompt(name="one")
    async def prompt(self, x: str = "") -> str:
        return x

    @mcp_completion(prompt, "x")
    async def values(self, typed: str) -> list[str]:
        return [typed]


OWN = served_by(Own)
OF_OWN: dict[str, dict[str, Any]] = {
    "tools/call": {
        "name": "one",
        "arguments": {"x": 1},
        "requestState": "state",
        "inputResponses": {"q": {"content": {"type": "text", "text": "a"}}},
    },
    "resources/list": {"cursor": None},
    "resources/templates/list": {"cursor": None},
    "resources/read": {"uri": "any://one/two"},
    "prompts/list": {"cursor": None},
    "prompts/get": {"name": "one", "arguments": {"x": "1"}},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "one"},
        "argument": {"name": "x", "value": "v"},
        "context": {"arguments": {"y": "z"}},
    },
    "subscriptions/listen": {"notifications": None},
}
OF_CLIENT = [*META, "progressToken", "io.modelcontextprotocol/logLevel"]
STATUSES = {200, 202, 400, 404, 413}


@given(body=st.binary(max_size=60) | VALUES, version=st.sampled_from([None, *EVERY_REVISION]))
@settings(max_examples=200, deadline=None)
def test_any_body_gets_an_answer(body: Any, version: str | None) -> None:
    answer = send(an_endpoint(), body, {"MCP-Protocol-Version": version})

    assert answer.status in STATUSES


@pytest.mark.parametrize("version", EVERY_REVISION)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_request_with_any_part_replaced_gets_an_answer(version: str, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(METHODS))
    body = request(version, method, {"name": "counter_increase", "protocolVersion": version})
    headers = headers_of(version, body)
    place: Any = body
    if data.draw(st.booleans()):
        names = PARAMS
        place = body["params"]
        if version == MODERN and data.draw(st.booleans()):
            names = META
            place = place["_meta"]
    else:
        names = NAMES
    name = data.draw(st.sampled_from(names))
    if data.draw(st.booleans()):
        place[name] = data.draw(VALUES)
    else:
        place.pop(name, None)

    answer = send(an_endpoint(), body, headers)

    assert answer.status in STATUSES
    if answer.body:
        assert answer.json["jsonrpc"] == "2.0"
        assert ("result" in answer.json) != ("error" in answer.json)


@given(
    value=st.text(
        alphabet=st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=20
    )
)
@settings(max_examples=200, deadline=None)
def test_any_header_gets_an_answer(value: str) -> None:
    body = request(MODERN, "tools/call", {"name": "counter_increase"})
    for name in HEADERS:
        answer = send(an_endpoint(), body, {**headers_of(MODERN, body), name: value})

        assert answer.status in STATUSES | {403, 406, 415, 421}


@pytest.mark.parametrize("version", EVERY_REVISION)
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_any_part_of_a_request_to_an_endpoints_own_methods(
    version: str, data: st.DataObject
) -> None:
    method = data.draw(st.sampled_from(sorted(OF_OWN)))
    body = request(version, method, copy.deepcopy(OF_OWN[method]))
    headers = headers_of(version, body)
    place: Any = body["params"]
    names = sorted(OF_OWN[method])
    if version == MODERN and data.draw(st.booleans()):
        place, names = place["_meta"], OF_CLIENT
    name = data.draw(st.sampled_from(names))
    inner = place.get(name)
    if type(inner) is dict and data.draw(st.booleans()):
        place[name] = {**inner, data.draw(st.sampled_from([*inner, "more"])): data.draw(VALUES)}
    elif data.draw(st.booleans()):
        # A wish to listen that is one would never end.
        place[name] = data.draw(VALUES.filter(lambda value: type(value) is not dict))
    else:
        place.pop(name, None)

    answer = send(OWN, body, headers)

    assert answer.status in STATUSES, answer.body
    assert answer.json["jsonrpc"] == "2.0"
    assert ("result" in answer.json) != ("error" in answer.json)
