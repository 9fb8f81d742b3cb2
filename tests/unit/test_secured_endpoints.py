"""Methods of endpoints, their resources and prompts, and their HTTP routes behind one guard."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from greenroom import (
    Acl,
    AskModel,
    AuditRecord,
    ComponentClient,
    Effect,
    Jwt,
    KeyValueEntity,
    McpContext,
    RateLimit,
    Service,
    Settings,
    ToolRequest,
    component,
    function_tool,
    mcp_endpoint,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
)
from greenroom.testkit import ServiceTestKit
from tests.support.mcp_wire import MODERN, headers_of, request

LOGIN, SHOP = "https://login.example", "https://shop.example/shop"


@component("mirror")
class Mirror(KeyValueEntity[int]):
    """Says who asks."""

    def empty_state(self) -> int:
        return 0

    @function_tool(description="Says who asks.")
    def who(self) -> Effect[str]:
        return self.effects.reply(self.command_context.principal or "nobody")


def even(call: ToolRequest) -> bool:
    return call.arguments["number"] % 2 == 0


@mcp_endpoint(
    path="/shop",
    server_name="shop",
    http=True,
    jwt=Jwt([LOGIN], [SHOP], scopes={"read"}),
    tools=[Mirror.tools(bind=lambda call: call.principal.subject)],
)
class ShopMcp:
    """Methods that ask who calls."""

    def __init__(self, client: ComponentClient) -> None:
        self._client = client

    @mcp_tool(description="Says who asks, by way of a component.")
    def relayed(self) -> str:
        return self._client.for_key_value_entity(Mirror, "m").ask(Mirror.who)

    @mcp_tool(description="Says who asks.")
    async def told(self, context: McpContext) -> str:
        claims = context.principal.claims
        return f"{context.principal.subject} of {claims['tenant'] if claims else None}"

    @mcp_tool(description="Writes.", scopes={"write"})
    def write(self) -> str:
        return "written"

    @mcp_tool(description="Takes even numbers.", authorize=even)
    def halve(self, number: int = 1) -> int:
        return number // 2

    @mcp_tool(description="For services.", acl=Acl.allow_services("*"))
    def inside(self) -> str:
        return "in"

    @mcp_tool(description="Asks.")
    def asks(self, context: McpContext) -> str:
        return f"{context.principal}: {context.ask('word', AskModel('The word?'))}"

    @mcp_resource(uri="shop://me")
    def me(self, context: McpContext) -> str:
        return str(context.principal)

    @mcp_prompt
    def greet(self, context: McpContext) -> str:
        """Greets."""
        return f"Greet {context.principal}."


class Kept:
    """Keeps audit records in a list."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def record(self, record: AuditRecord) -> None:
        self.records.append(record)


KEPT = Kept()
SETTINGS = Settings(service_secret=SecretStr("s" * 48))
SERVICE = Service("shop", components=[Mirror], endpoints=[ShopMcp], audit=KEPT, settings=SETTINGS)


@pytest.fixture(scope="module", name="kit")
def running_kit() -> Iterator[ServiceTestKit]:
    with ServiceTestKit(SERVICE) as kit:
        yield kit


def bearing(kit: ServiceTestKit, *scopes: str, subject: str = "ada") -> dict[str, str]:
    asked = {"read", *scopes}
    token = kit.token(subject, issuer=LOGIN, audience=SHOP, scopes=asked, tenant="acme")
    return {"Authorization": f"Bearer {token}"}


def ask(kit: ServiceTestKit, method: str, params: Any, headers: dict[str, str]) -> Any:
    meta = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
    body = request(MODERN, method, {**params, "_meta": meta})
    lines = {name: str(value) for name, value in headers_of(MODERN, body).items()}
    if "uri" in params:
        lines["Mcp-Name"] = params["uri"]
    elif "name" in params:
        lines["Mcp-Name"] = params["name"]
    accept = {"Accept": "application/json"}
    return kit.http.post("/shop", json=body, headers={**lines, **accept, **headers})


@pytest.mark.parametrize(
    ("tool", "said"),
    [("relayed", "ada"), ("told", "ada of acme"), ("mirror_who", "ada"), ("write", "written")],
)
def test_who_asks_is_known_in_every_kind_of_method_and_at_both_faces(
    kit: ServiceTestKit, tool: str, said: str
) -> None:
    """Those on threads, those on the loop, and components that they call."""
    headers = bearing(kit, "write")

    assert kit.mcp("/shop", headers=headers).call_tool(tool).text == said
    assert kit.http.post(f"/shop/tools/{tool}", headers=headers).json() == said


def test_resources_and_prompts_are_behind_the_same_door(kit: ServiceTestKit) -> None:
    read = ("resources/read", {"uri": "shop://me"})
    prompt = ("prompts/get", {"name": "greet"})

    assert "ada" in ask(kit, *read, bearing(kit)).text
    assert "Greet ada." in ask(kit, *prompt, bearing(kit)).text
    for method, params in (read, prompt, ("resources/list", {}), ("prompts/list", {})):
        refused = ask(kit, method, params, {})
        assert refused.status_code == 401
        assert "resource_metadata=" in refused.headers["WWW-Authenticate"]


def test_what_a_method_asks_for_holds_at_both_faces(kit: ServiceTestKit) -> None:
    """A plain HTTP route must not be the way around what the MCP endpoint asks."""
    reader = bearing(kit)

    def both(tool: str, arguments: Any, headers: dict[str, str]) -> list[int]:
        call = ask(kit, "tools/call", {"name": tool, "arguments": arguments}, headers)
        route = kit.http.post(f"/shop/tools/{tool}", json=arguments, headers=headers)
        return [call.status_code, route.status_code]

    assert both("told", {}, {}) == [401, 401]
    assert both("write", {}, reader) == [403, 403]
    assert both("inside", {}, reader) == [403, 403]
    route = kit.http.post("/shop/tools/write", headers=reader)
    assert 'scope="read write"' in route.headers["WWW-Authenticate"]
    assert route.json()["code"] == "insufficient-scope"
    assert kit.http.post("/shop/tools/told").headers["WWW-Authenticate"].startswith("Bearer")

    assert both("halve", {"number": 4}, reader) == [200, 200]
    assert kit.http.post("/shop/tools/halve", json={"number": 3}, headers=reader).json()[
        "detail"
    ] == ("You may not use halve.")
    odd = kit.mcp("/shop", headers=reader).call_tool("halve", {"number": 3})
    assert (odd.is_error, odd.text) == (True, "You may not use halve.")


def test_a_tool_that_somebody_may_not_use_is_not_listed(kit: ServiceTestKit) -> None:
    names = {tool["name"] for tool in kit.mcp("/shop", headers=bearing(kit)).list_tools()}

    assert "inside" not in names
    assert {"write", "told", "mirror_who"} <= names


def test_calls_of_methods_are_recorded_at_both_faces(kit: ServiceTestKit) -> None:
    KEPT.records.clear()
    headers = bearing(kit)
    kit.mcp("/shop", headers=headers).call_tool("halve", {"number": 4})
    kit.http.post("/shop/tools/halve", json={"number": 3}, headers=headers)
    kit.http.post("/shop/tools/write", headers=headers)
    kit.mcp("/shop", headers=headers).call_tool("mirror_who")

    told = [(one.component, one.handler, one.instance, one.outcome) for one in KEPT.records]
    assert told == [
        ("ShopMcp", "halve", None, "done"),
        ("ShopMcp", "halve", None, "denied"),
        ("ShopMcp", "write", None, "denied"),
        ("mirror", "who", "ada", "done"),
    ]
    assert {one.principal for one in KEPT.records} == {"ada"}
    assert KEPT.records[0].arguments == {"number": "number"}


def test_what_somebody_has_answered_is_of_no_use_to_others(kit: ServiceTestKit) -> None:
    """The state that a client carries between two rounds is bound to who called."""
    call = {"name": "asks", "arguments": {}}
    state = ask(kit, "tools/call", call, bearing(kit)).json()["result"]["requestState"]
    text = {"role": "assistant", "content": {"type": "text", "text": "tea"}, "model": "m"}
    again = {**call, "requestState": state, "inputResponses": {"word": text}}

    stolen = ask(kit, "tools/call", again, bearing(kit, subject="eve"))
    assert "not one of this request's" in stolen.json()["error"]["message"]
    own = ask(kit, "tools/call", again, bearing(kit))
    assert own.json()["result"]["content"][0]["text"] == "ada: tea"


def test_both_faces_count_together() -> None:
    @mcp_endpoint(
        path="/few",
        server_name="few",
        http=True,
        rate_limit=RateLimit(2),
        tools=[Mirror.tools(bind="m")],
    )
    class FewMcp: ...

    with ServiceTestKit(Service("few", components=[Mirror], endpoints=[FewMcp])) as kit:
        assert kit.mcp("/few").call_tool("mirror_who").text == "nobody"
        assert kit.http.post("/few/tools/mirror_who").status_code == 200
        refused = kit.http.post("/few/tools/mirror_who")
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) == 30
