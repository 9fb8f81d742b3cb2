"""FastAPI routes behind the same doors as MCP endpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from greenroom import (
    Acl,
    AsyncComponentClient,
    ComponentClient,
    Effect,
    Issuer,
    Jwt,
    KeyValueEntity,
    Principal,
    RateLimit,
    ReadOnlyEffect,
    RequestContext,
    Service,
    Settings,
    async_component_client,
    component,
    component_client,
    mcp_endpoint,
    mcp_tool,
    request_context,
    secured,
)
from greenroom.components import current_request
from greenroom.errors import ConfigurationError, DefinitionError
from greenroom.testkit import ManualClock
from tests.support.tokens import AUDIENCE, TokenIssuer

CLOCK = ManualClock()
ISSUER = TokenIssuer(clock=CLOCK)
JWT = Jwt([Issuer(ISSUER.url, keys=[ISSUER.key.jwk])], [AUDIENCE])


@component("mirror")
class Mirror(KeyValueEntity[int]):
    """Says who asks."""

    def empty_state(self) -> int:
        return 0

    def who(self) -> Effect[str]:
        return self.effects.reply(self.command_context.principal or "nobody")

    def trace(self) -> ReadOnlyEffect[str]:
        return self.effects.reply(self.command_context.traceparent or "none")


def a_service(tmp_path: Path, *routers: APIRouter, **settings: Any) -> Service:
    given = {"allowed_hosts": ["testserver"], "max_body_bytes": 1000, **settings}
    return Service(
        "shop",
        components=[Mirror],
        endpoints=list(routers),
        settings=Settings(database_url=f"sqlite:///{tmp_path}/test.db", **given),
        clock=CLOCK,
    )


@contextmanager
def calling(service: Service) -> Iterator[TestClient]:
    with TestClient(service.app) as client:
        yield client


def bearing(**claims: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {ISSUER.token(**claims)}"}


def test_a_router_may_ask_for_tokens(tmp_path: Path) -> None:
    router = APIRouter(dependencies=[Depends(secured(jwt=JWT))])

    @router.get("/me")
    async def me(context: Annotated[RequestContext, Depends(request_context)]) -> dict[str, Any]:
        return {"me": context.principal.subject, "tenant": context.claims.get("tenant")}

    with calling(a_service(tmp_path, router)) as client:
        assert client.get("/me", headers=bearing(tenant="acme")).json() == {
            "me": "ada",
            "tenant": "acme",
        }
        refused = client.get("/me", headers={"X-Correlation-Id": "order-7"})

    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json() == {
        "type": "urn:greenroom:error:token-missing",
        "title": "Token missing",
        "status": 401,
        "detail": "A bearer token is required.",
        "code": "token-missing",
        "retryable": False,
        "correlation_id": "order-7",
    }


def test_openapi_knows_which_routes_take_tokens(tmp_path: Path) -> None:
    router = APIRouter()
    router.get("/with", dependencies=[Depends(secured(jwt=JWT))])(lambda: None)
    router.get("/without", dependencies=[Depends(secured(acl=Acl.allow_all()))])(lambda: None)

    document = a_service(tmp_path, router).app.openapi()

    assert document["components"]["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    }
    assert document["paths"]["/with"]["get"]["security"] == [{"bearer": []}]
    assert "security" not in document["paths"]["/without"]["get"]


def test_openapi_knows_that_tools_take_tokens(tmp_path: Path) -> None:
    @mcp_endpoint(path="/own", server_name="own", http=True, jwt=JWT)
    class Own:
        @mcp_tool(description="Answers.")
        def own(self) -> str:
            return "yes"

    @mcp_endpoint(path="/open", server_name="open", http=True)
    class Open:
        @mcp_tool(description="Answers.")
        def open(self) -> str:
            return "yes"

    settings = Settings(database_url=f"sqlite:///{tmp_path}/test.db")
    document = Service("tools", endpoints=[Own, Open], settings=settings).app.openapi()

    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    own = document["paths"]["/own/tools/own"]["post"]
    assert own["security"] == [{"bearer": []}]
    assert {"401", "403", "429"} <= own["responses"].keys()
    assert "security" not in document["paths"]["/open/tools/open"]["post"]


def test_a_path_can_not_forge_lines_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    router = APIRouter(dependencies=[Depends(secured(jwt=JWT))])
    router.get("/notes/{name}")(lambda name: None)

    with calling(a_service(tmp_path, router)) as client, caplog.at_level("INFO"):
        assert client.get("/notes/a%0Ab").status_code == 401

    [line] = [one for one in caplog.messages if "refused" in one]
    assert line == "GET /notes/a\\nb: refused: token-missing"


def test_components_are_called_on_behalf_of_who_asks(tmp_path: Path) -> None:
    """From threads and from coroutines; and nobody's name outlives the request."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
    router = APIRouter()
    access = secured(jwt=JWT)

    @router.get("/threads", dependencies=[Depends(access)])
    def in_a_thread(client: Annotated[ComponentClient, Depends(component_client)]) -> list[str]:
        mirror = client.for_key_value_entity(Mirror, "m")
        named = mirror.with_options(principal="somebody")
        return [mirror.ask(Mirror.who), mirror.ask(Mirror.trace), named.ask(Mirror.who)]

    @router.get("/loop")
    async def on_the_loop(
        principal: Annotated[Principal, Depends(access)],
        client: Annotated[AsyncComponentClient, Depends(async_component_client)],
    ) -> list[str]:
        return [str(principal), await client.for_key_value_entity(Mirror, "m").ask(Mirror.who)]

    @router.get("/open")
    async def for_all(
        client: Annotated[AsyncComponentClient, Depends(async_component_client)],
    ) -> str:
        return await client.for_key_value_entity(Mirror, "m").ask(Mirror.who)

    with calling(a_service(tmp_path, router)) as client:
        headers = {**bearing(), "traceparent": trace}
        assert client.get("/threads", headers=headers).json() == ["ada", trace, "somebody"]
        assert client.get("/loop", headers=bearing(sub="bob")).json() == ["bob", "bob"]
        assert client.get("/open", headers=bearing()).json() == "nobody"


def test_acls_and_rates_hold_for_routes_too(tmp_path: Path) -> None:
    router = APIRouter()
    limit = RateLimit(1, per=timedelta(seconds=10))

    @router.get("/inside", dependencies=[Depends(secured(acl=Acl.allow_services("billing")))])
    async def inside() -> str:
        return "in"

    @router.get("/slow", dependencies=[Depends(secured(rate_limit=limit))])
    async def slow() -> str:
        return "in"

    shop = a_service(tmp_path, router, service_secret="s" * 48)
    billing = Service(
        "billing",
        settings=Settings(service_secret="s" * 48),
        clock=CLOCK,  # type: ignore[arg-type]
    )
    with calling(shop) as client:
        assert client.get("/inside").status_code == 403
        proof = {"Greenroom-Service-Token": billing.service_token("shop")}
        assert client.get("/inside", headers=proof).json() == "in"
        assert client.get("/slow").json() == "in"
        refused = client.get("/slow")

    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "10"
    assert refused.json()["retryable"] is True


def test_a_router_may_ask_for_a_token_and_a_route_for_more(tmp_path: Path) -> None:
    """Whom the first has found, the second knows: its scopes, and in whose name to count."""
    router = APIRouter(dependencies=[Depends(secured(jwt=JWT))])
    limit = RateLimit(1)

    @router.post("/write", dependencies=[Depends(secured(scopes={"write"}, rate_limit=limit))])
    async def write(context: Annotated[RequestContext, Depends(request_context)]) -> str | None:
        return context.principal.subject

    with calling(a_service(tmp_path, router)) as client:
        assert client.post("/write").status_code == 401
        refused = client.post("/write", headers=bearing(scope="read"))
        assert refused.status_code == 403
        assert refused.headers["www-authenticate"] == (
            'Bearer error="insufficient_scope", scope="write"'
        )
        ada, bob = bearing(scope="write"), bearing(scope="write", sub="bob")
        assert client.post("/write", headers=ada).json() == "ada"
        assert client.post("/write", headers=bob).json() == "bob"
        assert client.post("/write", headers=ada).status_code == 429


async def test_who_asked_is_forgotten_even_where_one_task_sends_many(tmp_path: Path) -> None:
    """Some servers, and clients in tests, answer all requests in the task that asks."""
    router = APIRouter()

    @router.get("/secured", dependencies=[Depends(secured(jwt=JWT))])
    async def behind(context: Annotated[RequestContext, Depends(request_context)]) -> str:
        return str(context.principal)

    @router.get("/open", dependencies=[Depends(secured(acl=Acl.allow_all()))])
    async def for_all(context: Annotated[RequestContext, Depends(request_context)]) -> str:
        return str(context.principal)

    transport = httpx.ASGITransport(a_service(tmp_path, router).app)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        assert (await client.get("/secured", headers=bearing())).json() == "ada"
        assert (await client.get("/open")).json() == "anonymous"
        assert (await client.get("/secured")).status_code == 401
    assert current_request.get() is None


def test_a_websocket_is_closed_on_who_may_not_come_in(tmp_path: Path) -> None:
    router = APIRouter()

    @router.websocket("/ws")
    async def talk(socket: WebSocket, who: Annotated[Principal, Depends(secured(jwt=JWT))]) -> None:
        await socket.accept()
        await socket.send_text(str(who))
        await socket.close()

    with calling(a_service(tmp_path, router)) as client:
        with client.websocket_connect("/ws", headers=bearing()) as socket:
            assert socket.receive_text() == "ada"
        with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect("/ws"):
            """Never gets here."""
    assert closed.value.code == 1008


def test_routers_answer_to_known_hosts_and_origins_alone(tmp_path: Path) -> None:
    router = APIRouter()

    @router.get("/")
    async def root() -> str:
        return "in"

    with calling(a_service(tmp_path, router)) as client:
        assert client.get("/").json() == "in"
        wrong = client.get("/", headers={"Host": "evil.example"})
        assert (wrong.status_code, wrong.json()["code"]) == (421, "wrong-host")
        assert client.get("/", headers={"Origin": "https://evil.example"}).status_code == 403
        assert client.get("/", headers={"Origin": "http://testserver"}).status_code == 200
        # Whoever watches the process knows it by its address.
        assert client.get("/health/live", headers={"Host": "10.0.0.7"}).status_code == 200


def test_bodies_are_limited_unless_a_router_says_otherwise(tmp_path: Path) -> None:
    small, large = APIRouter(), APIRouter(max_body_size=5000)

    @small.post("/small")
    async def to_small(body: dict[str, Any]) -> int:
        return len(body)

    @large.post("/large")
    async def to_large(body: dict[str, Any]) -> int:
        return len(body)

    def chunks() -> Iterator[bytes]:
        yield b'{"a": "'
        yield b"x" * 2000
        yield b'"}'

    with calling(a_service(tmp_path, small, large)) as client:
        assert client.post("/small", json={"a": 1}).json() == 1
        assert client.post("/small", json={"a": "x" * 2000}).status_code == 413
        lines = {"Content-Type": "application/json"}
        assert client.post("/small", content=chunks(), headers=lines).status_code == 413
        assert client.post("/large", json={"a": "x" * 2000}).json() == 1
        assert client.post("/large", json={"a": "x" * 6000}).status_code == 413


def test_what_is_wrong_with_routes_is_told_at_start(tmp_path: Path) -> None:
    router = APIRouter(dependencies=[Depends(secured(jwt=Jwt([], ["aud"])))], prefix="/api")
    router.get("/a")(lambda: None)

    @router.get("/b", dependencies=[Depends(secured(rate_limit=RateLimit(0)))])
    async def second() -> None: ...

    empty = APIRouter(dependencies=[Depends(secured(acl=Acl(deny_code=1)))], prefix="/empty")

    with pytest.raises(DefinitionError) as caught:
        a_service(tmp_path, router, empty)

    text = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 3
    assert "router '/api/a': secured: jwt= needs issuers=[...]" in text
    assert "router '/api/b': secured: rate_limit= must allow one call at least" in text
    assert "router '/empty': secured: acl= deny_code 1 is no HTTP status" in text


def test_routes_of_the_application_itself_may_be_secured(tmp_path: Path) -> None:
    service = a_service(tmp_path)

    @service.app.get("/own")
    async def own(principal: Annotated[Principal, Depends(secured(jwt=JWT))]) -> str:
        return str(principal)

    @service.app.get("/wrong", dependencies=[Depends(secured(jwt=Jwt([], ["aud"])))])
    async def wrong() -> str:
        return "in"

    with TestClient(service.app, raise_server_exceptions=False) as client:
        assert client.get("/own", headers=bearing()).json() == "ada"
        assert client.get("/own").status_code == 401
        assert client.get("/wrong").status_code == 500, "closed, if nothing else"


def test_secured_without_a_service_says_what_to_do() -> None:
    app = FastAPI()

    @app.get("/", dependencies=[Depends(secured(jwt=JWT))])
    async def root() -> None: ...

    with pytest.raises(ConfigurationError, match=r"service\.app, or service\.install"):
        TestClient(app).get("/")


def test_a_service_without_a_secret_can_not_prove_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="GREENROOM_SERVICE_SECRET"):
        a_service(tmp_path).service_token("billing")


def test_what_nobody_expected_is_a_reference_and_nothing_else(tmp_path: Path) -> None:
    router = APIRouter()

    @router.get("/crash")
    async def crash() -> None:
        raise LookupError("SELECT secret FROM table")

    service = a_service(tmp_path, router)
    with TestClient(service.app, raise_server_exceptions=False) as client:
        answer = client.get("/crash", headers={"X-Correlation-Id": "order-7"})
        assert client.get("/crash").json()["correlation_id"]

    assert answer.status_code == 500
    assert answer.headers["x-correlation-id"] == "order-7"
    assert answer.json()["detail"] == "Failed unexpectedly. Reference: order-7"
    assert "secret" not in answer.text
    with TestClient(service.app) as client, pytest.raises(LookupError):
        client.get("/crash")


def test_an_application_may_tell_errors_in_its_own_way(tmp_path: Path) -> None:
    from starlette.responses import PlainTextResponse

    app = FastAPI()

    @app.exception_handler(Exception)
    async def mine(_request: Any, _error: Exception) -> PlainTextResponse:
        return PlainTextResponse("sorry", 500)

    @app.get("/crash")
    async def crash() -> None:
        raise LookupError

    a_service(tmp_path).install(app)
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/crash").text == "sorry"
