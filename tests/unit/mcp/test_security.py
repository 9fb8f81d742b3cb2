"""The endpoint with a guard at its door: what clients of both eras see."""

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from greenroom.components import (
    Access,
    Acl,
    Issuer,
    Jwt,
    Principal,
    RateLimit,
    RequestContext,
    Security,
    current_request,
)
from greenroom.edge import Guard, HostCheck, Surroundings, ToolOutcome
from greenroom.edge._service_tokens import ServiceTokens
from greenroom.mcp import McpEndpoint, ResourceMetadata
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.mcp_wire import (
    EVERY_REVISION,
    MODERN,
    HttpAnswer,
    ScriptedCaller,
    a_tool,
    an_endpoint,
    ask,
    request,
    send,
)
from tests.support.tokens import AUDIENCE, TokenIssuer

SECRET = "s" * 48
CLOCK = ManualClock()
ISSUER = TokenIssuer(clock=CLOCK)
JWT = Jwt([Issuer(ISSUER.url, keys=[ISSUER.key.jwk])], [AUDIENCE])
AROUND = Surroundings("shop", Settings(service_secret=SECRET), CLOCK)  # type: ignore[arg-type]
SERVICE = {
    "Greenroom-Service-Token": ServiceTokens(SECRET, own_name="billing", clock=CLOCK).issue("shop")
}
CALL = {"name": "counter_increase"}


def a_secured_tool(name: str = "counter_increase", access: Access | None = None) -> Any:
    handler = SimpleNamespace(component="counter", name="increase", parameters=())
    return a_tool(name, access=access, handler=handler)


def secured(
    security: Security, *tools: Any, caller: ScriptedCaller | None = None
) -> tuple[McpEndpoint, Guard]:
    offered = list(tools) or [a_secured_tool()]
    guard = Guard(security, AROUND, path="/mcp", tools=offered)
    endpoint = an_endpoint(caller, offered, guard=guard)
    return endpoint, guard


async def exchange(endpoint: Any, body: str, headers: list[tuple[bytes, bytes]]) -> None:
    """One request, in the task that asks."""

    async def receive() -> Any:
        return {"type": "http.request", "body": body.encode()}

    async def keep(_message: Any) -> None:
        """Nobody looks."""

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    await endpoint(scope, receive, keep)


def bearing(**claims: Any) -> dict[str, str | None]:
    return {"Authorization": f"Bearer {ISSUER.token(**claims)}"}


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_who_the_token_names_reaches_the_tool(version: str) -> None:
    caller = ScriptedCaller()
    endpoint, _ = secured(Security(jwt=JWT), caller=caller)

    assert ask(endpoint, version, "tools/call", CALL, bearing(sub="ada")).status == 200

    principal: Principal = caller.calls[0].context.principal
    assert principal.subject == "ada"
    assert principal.claims is not None
    assert principal.claims.issuer == ISSUER.url


def test_what_the_request_brought_is_at_hand_while_it_is_answered_and_not_longer() -> None:
    """So a method of an endpoint calls components on behalf of who asks."""
    seen: list[RequestContext | None] = []

    class Looking(ScriptedCaller):
        async def call(self, *given: Any, **options: Any) -> ToolOutcome:
            seen.append(current_request.get())
            return await super().call(*given, **options)

    endpoint, _ = secured(Security(jwt=JWT), caller=Looking())

    async def both() -> None:
        for headers in (bearing(sub="ada"), bearing(sub="bob")):
            given = {"X-Tenant": "acme", "Host": "localhost", **headers}
            pairs = [(k.lower().encode(), str(v).encode()) for k, v in given.items()]
            await exchange(endpoint, json.dumps(request("2025-06-18", "tools/call", CALL)), pairs)
            assert current_request.get() is None

    asyncio.run(both())

    assert [one and one.principal.subject for one in seen] == ["ada", "bob"]
    assert seen[0] is not None
    assert seen[0].header("X-Tenant") == "acme"


@pytest.mark.parametrize("version", EVERY_REVISION)
@pytest.mark.parametrize("method", ["initialize", "server/discover", "tools/list", "tools/call"])
def test_without_a_token_nothing_is_answered(version: str, method: str) -> None:
    """Not even what the server is; and the client learns where to get a token."""
    caller = ScriptedCaller()
    endpoint, _ = secured(Security(jwt=JWT), caller=caller)

    answer = ask(endpoint, version, method, CALL)

    assert answer.status == 401
    assert answer.headers["www-authenticate"] == (
        'Bearer resource_metadata="http://localhost:8000/.well-known/oauth-protected-resource/mcp"'
    )
    assert answer.error["message"] == "A bearer token is required."
    assert caller.calls == []


def test_the_door_comes_before_the_body() -> None:
    """Who may not come in can't make the server read, or say what it thinks of a body."""
    endpoint, _ = secured(Security(jwt=JWT))

    assert send(endpoint, b"{" * 100_000).status == 401
    assert send(endpoint, b"", method="GET").status == 401
    assert send(endpoint, b"", {"Host": "evil.example"}).status == 421


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_a_tool_may_need_a_scope(version: str) -> None:
    caller = ScriptedCaller()
    tool = a_secured_tool(access=Access(scopes={"write"}))
    endpoint, _ = secured(Security(jwt=JWT), tool, caller=caller)

    answer = ask(endpoint, version, "tools/call", CALL, bearing(scope="read"))
    assert answer.status == 403
    assert 'error="insufficient_scope", scope="write"' in answer.headers["www-authenticate"]
    assert caller.calls == []
    listed = ask(endpoint, version, "tools/list", None, bearing(scope="read")).result["tools"]
    assert [one["name"] for one in listed] == ["counter_increase"]
    assert ask(endpoint, version, "tools/call", CALL, bearing(scope="write")).status == 200


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_a_tool_for_services_alone_is_not_shown_to_others(version: str) -> None:
    caller = ScriptedCaller()
    tools = [
        a_secured_tool("counter_get"),
        a_secured_tool(access=Access(acl=Acl(allow=[Acl.service("*")], deny_code=404))),
    ]
    endpoint, _ = secured(Security(acl=Acl.allow_all()), *tools, caller=caller)

    def listed(headers: dict[str, Any]) -> list[str]:
        result = ask(endpoint, version, "tools/list", None, headers).result
        return [one["name"] for one in result["tools"]]

    assert listed({}) == ["counter_get"]
    assert listed(SERVICE) == ["counter_get", "counter_increase"]
    assert listed({}) == ["counter_get"]
    assert ask(endpoint, version, "tools/call", CALL).status == 404
    assert caller.calls == []
    assert ask(endpoint, version, "tools/call", CALL, SERVICE).status == 200


def test_what_depends_on_the_caller_is_not_cached_for_others() -> None:
    endpoint, _ = secured(Security(acl=Acl.allow_internet()))
    for method in ("tools/list", "server/discover"):
        assert ask(endpoint, MODERN, method).result["cacheScope"] == "private"
        assert ask(an_endpoint(), MODERN, method).result["cacheScope"] == "public"


def test_a_batch_is_no_way_around() -> None:
    """Each message is checked by itself, and each counts."""
    caller = ScriptedCaller()
    tools = [a_secured_tool(), a_secured_tool("counter_clear", Access(scopes={"write"}))]
    security = Security(jwt=JWT, rate_limit=RateLimit(5))
    endpoint, _ = secured(security, *tools, caller=caller)

    def batch(*names: str) -> HttpAnswer:
        messages = [
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name}}
            for number, name in enumerate(names)
        ]
        return send(endpoint, messages, bearing(scope="read"))

    answers = {one["id"]: one for one in batch("counter_increase", "counter_clear").json}
    assert "result" in answers[0]
    assert answers[1]["error"]["message"] == "The token lacks the scope write."
    refused = batch(*["counter_increase"] * 4)
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) > 0
    assert [call.tool for call in caller.calls] == ["counter_increase"]


def test_a_refusal_is_in_the_log_and_no_token_is(caplog: pytest.LogCaptureFixture) -> None:
    endpoint, _ = secured(Security(jwt=JWT))
    token = ISSUER.token(aud="https://other.example")

    with caplog.at_level(logging.DEBUG):
        send(endpoint, {}, {"Authorization": f"Bearer {token}"})

    assert "POST /mcp: refused: invalid-token" in caplog.text
    assert token not in caplog.text
    assert token.rpartition(".")[2] not in caplog.text


def test_the_resource_describes_itself_to_everybody() -> None:
    _, guard = secured(Security(jwt=JWT), a_secured_tool(access=Access(scopes={"write"})))
    described = ResourceMetadata(guard, HostCheck(["localhost"]))

    answer = send(described, b"", method="GET")

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {
        "resource": "http://localhost:8000/mcp",
        "authorization_servers": [ISSUER.url],
        "bearer_methods_supported": ["header"],
        "resource_name": "shop",
        "scopes_supported": ["write"],
    }
    head = send(described, b"", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == answer.headers["content-length"]
    assert send(described, b"").status == 405
    assert send(described, b"", {"Host": "evil.example"}, method="GET").status == 421
