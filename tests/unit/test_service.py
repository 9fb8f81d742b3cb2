"""A service: what is wrong with it is told at once, and every way to run it works."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr

from greenroom import AuditRecord
from greenroom.components import (
    Acl,
    Effect,
    Jwt,
    KeyValueEntity,
    RateLimit,
    component,
    function_tool,
    mcp_endpoint,
)
from greenroom.errors import CommandError, ConfigurationError, DefinitionError
from greenroom.ids import EntityRef
from greenroom.logs import correlation_id
from greenroom.runtime import AsyncComponentClient, ComponentClient
from greenroom.service import Service
from greenroom.settings import Settings
from greenroom.web import async_component_client, component_client
from tests.support.components import Counter, ProfileEntity

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "counter_increase", "arguments": {"counter_id": "c-1", "by": 2}},
}


@mcp_endpoint(path="/mcp", server_name="counters", tools=[Counter])
class CountersMcp:
    """Counters, for MCP clients."""


@mcp_endpoint(path="/mcp", server_name="others", tools=[ProfileEntity])
class SamePathMcp:
    """Something else at the same place."""


@mcp_endpoint(path="/profiles", server_name="profiles", tools=[ProfileEntity])
class ProfilesMcp:
    """Profiles, for MCP clients."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        database_url=f"sqlite:///{tmp_path}/test.db", allowed_hosts=["testserver", "localhost"]
    )


def a_service(settings: Settings, *routers: APIRouter) -> Service:
    return Service(
        "counters",
        components=[Counter, ProfileEntity],
        endpoints=[CountersMcp, ProfilesMcp, *routers],
        settings=settings,
    )


class NoEntity:
    """Not a component at all."""


def test_everything_that_is_wrong_is_told_at_once(settings: Settings) -> None:
    with pytest.raises(DefinitionError) as caught:
        Service(
            "wrong",
            components=[NoEntity, Counter],
            endpoints=[CountersMcp, SamePathMcp, NoEntity],
            settings=settings,
        )

    told = "\n".join(caught.value.problems)
    assert "NoEntity" in told
    assert "ProfileEntity" in told, "the endpoint exposes a component that the service lacks"
    assert "'/mcp' is already taken by CountersMcp" in told


def test_two_endpoints_can_not_share_a_path(settings: Settings) -> None:
    with pytest.raises(DefinitionError, match="SamePathMcp: the path '/mcp' is already taken by C"):
        Service(
            "twice",
            components=[Counter, ProfileEntity],
            endpoints=[CountersMcp, SamePathMcp],
            settings=settings,
        )


def test_an_endpoint_can_not_take_the_path_of_a_router(settings: Settings) -> None:
    router = APIRouter()
    router.get("/mcp")(lambda: None)

    with pytest.raises(DefinitionError, match="'/mcp' is already taken by a router"):
        a_service(settings, router)


def test_a_broken_component_is_not_also_unknown_to_its_endpoint(settings: Settings) -> None:
    """Each mistake is told once."""

    @mcp_endpoint(path="/x", server_name="x", tools=[NoEntity])
    class ExposesBroken:
        """Exposes what is no component."""

    with pytest.raises(DefinitionError) as caught:
        Service("x", components=[NoEntity], endpoints=[ExposesBroken], settings=settings)

    assert not [line for line in caught.value.problems if "ExposesBroken" in line]


def test_breaches_of_endpoints_are_told_beside_those_of_the_components_they_name(
    settings: Settings,
) -> None:
    """Who mends a component must not learn only then what else was wrong."""

    @component("counter")
    class Broken(KeyValueEntity[int]):
        """Has no empty state, and the id of another."""

        @function_tool(description="Puts.", name="counter_increase")
        def put(self) -> Effect[int]: ...

    @mcp_endpoint(
        path="/broken",
        server_name="",
        rate_limit=RateLimit(0),
        tools=[Broken.tools(only={"zz"}, bind=""), Broken.tools(exclude={"yy"}), Counter, Broken],
    )
    class BrokenMcp:
        """Names what is not there."""

    with pytest.raises(DefinitionError) as caught:
        Service("x", components=[Broken, Counter], endpoints=[BrokenMcp], settings=settings)

    told = "\n".join(caught.value.problems)
    for said in (
        "Broken has no empty_state",
        "Broken both have the component id 'counter'",
        "server_name must not be empty",
        "rate_limit= must allow one call at least",
        "Broken.tools(bind=''): no instance",
        "Broken.tools(only={'zz'}): it has no such tool, only put",
        "Broken.tools(exclude={'yy'}): it has no such tool, only put",
        "two tools are named 'counter_increase'",
    ):
        assert said in told
    assert "not among" not in told


def test_a_service_runs_as_an_application(settings: Settings) -> None:
    service = a_service(settings)
    assert service.app is service.app

    with TestClient(service.app) as client:
        assert client.get("/health/live").json() == {"status": "live"}
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json()["database"]) == (200, "ok")
        result = client.post("/mcp", json=CALL).json()["result"]
        assert result["content"] == [{"type": "text", "text": "2"}]
        assert client.post("/profiles", json=CALL).json()["error"]["code"] == -32602


def test_a_trailing_slash_is_served_and_not_redirected(settings: Settings) -> None:
    with TestClient(a_service(settings).app, follow_redirects=False) as client:
        assert client.post("/mcp/", json=CALL).status_code == 200
        assert client.get("/mcp").status_code == 405


def test_endpoints_are_not_in_the_openapi_document(settings: Settings) -> None:
    paths = a_service(settings).app.openapi()["paths"]

    assert set(paths) == {"/health/live", "/health/ready"}


def test_a_service_runs_inside_an_application_of_ones_own(settings: Settings) -> None:
    """The application's own start-up and shutdown run while components can be called."""
    service = a_service(settings)
    seen: list[int] = []

    async def lifespan_total() -> int:
        counter = service.async_client.for_event_sourced_entity(Counter, "mine")
        return await counter.ask(Counter.increase)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, str]]:
        seen.append(await lifespan_total())
        yield {"greeting": "hello"}
        seen.append(await lifespan_total())

    app = FastAPI(lifespan=lifespan)
    app.get("/mine")(lambda: "mine")
    service.install(app)

    with TestClient(app) as client:
        assert client.get("/mine").json() == "mine"
        assert client.post("/mcp", json=CALL).json()["result"]["isError"] is False
    assert seen == [1, 2]


def test_one_application_has_one_service(settings: Settings) -> None:
    app = FastAPI()
    a_service(settings).install(app)

    with pytest.raises(ConfigurationError, match="already"):
        a_service(settings).install(app)


def test_a_runtime_that_was_not_started_says_so_at_every_door(settings: Settings) -> None:
    """What happens to an application whose lifespan nobody runs, for example a mounted one."""
    router = APIRouter()

    @router.get("/total")
    async def total(
        client: Annotated[AsyncComponentClient, Depends(async_component_client)],
    ) -> int:
        return await client.for_event_sourced_entity(Counter, "c").ask(Counter.total)

    client = TestClient(a_service(settings, router).app)

    assert client.get("/health/live").status_code == 200
    assert client.get("/health/ready").status_code == 503
    problem = client.get("/total")
    assert (problem.status_code, problem.json()["code"]) == (503, "stopped")
    assert "Start it" in problem.json()["detail"]
    result = client.post("/mcp", json=CALL).json()["result"]
    assert result["isError"] is True
    assert "Start it" in result["content"][0]["text"]


def test_routes_get_the_client_for_their_kind(settings: Settings) -> None:
    router = APIRouter()

    @router.post("/threads/{name}")
    def in_a_thread(
        name: str, client: Annotated[ComponentClient, Depends(component_client)]
    ) -> int:
        return client.for_event_sourced_entity(Counter, name).ask(Counter.increase, 3)

    @router.post("/loop/{name}")
    async def on_the_loop(
        name: str, client: Annotated[AsyncComponentClient, Depends(async_component_client)]
    ) -> int:
        return await client.for_event_sourced_entity(Counter, name).ask(Counter.increase, 4)

    with TestClient(a_service(settings, router).app) as client:
        assert client.post("/threads/a").json() == 3
        assert client.post("/loop/a").json() == 7


def test_errors_of_components_leave_routes_as_problems(settings: Settings) -> None:
    router = APIRouter()

    @router.post("/decline")
    async def decline(
        client: Annotated[AsyncComponentClient, Depends(async_component_client)],
    ) -> int:
        return await client.for_event_sourced_entity(Counter, "a").ask(Counter.decline)

    with TestClient(a_service(settings, router).app) as client:
        problem = client.post("/decline", headers={"X-Correlation-Id": "order-7"})

    assert problem.status_code == 400
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.headers["x-correlation-id"] == "order-7"
    assert problem.json()["detail"] == "Declined on purpose."
    assert problem.json()["correlation_id"] == "order-7"


def test_a_dependency_without_a_service_says_what_to_do() -> None:
    app = FastAPI()

    @app.get("/")
    async def root(
        client: Annotated[AsyncComponentClient, Depends(async_component_client)],
    ) -> None:
        """Never gets here."""

    with pytest.raises(ConfigurationError, match=r"service\.app, or service\.install"):
        TestClient(app).get("/")


def test_routes_see_the_correlation_id(settings: Settings) -> None:
    router = APIRouter()

    @router.get("/id")
    async def which() -> str | None:
        return correlation_id.get()

    with TestClient(a_service(settings, router).app) as client:
        assert client.get("/id", headers={"X-Correlation-Id": "order-7"}).json() == "order-7"


def test_a_service_runs_without_a_server(settings: Settings) -> None:
    service = a_service(settings)

    with service.running() as client:
        assert client.for_event_sourced_entity(Counter, "a").ask(Counter.increase, 2) == 2
        with pytest.raises(CommandError):
            client.for_event_sourced_entity(Counter, "a").ask(Counter.decline)
    with service.running() as client:
        assert client.for_event_sourced_entity(Counter, "a").ask(Counter.total) == 2


def test_what_is_stored_can_be_read_while_the_service_runs(settings: Settings) -> None:
    running, looking = a_service(settings), a_service(settings)
    with running.running() as client:
        client.for_event_sourced_entity(Counter, "a").ask(Counter.increase, 2)

        with looking.reading() as reader:
            assert [one.ref.instance for one in reader.instances("counter", after=None, limit=9)]
            assert [one.type_name for one in reader.events(_ref("a"), after=0, limit=9)] == [
                "increased"
            ]
            assert reader.state_at(_ref("a"), None).total == 2

        assert client.for_event_sourced_entity(Counter, "a").ask(Counter.increase, 1) == 3


def test_the_same_service_may_be_had_with_other_settings(
    settings: Settings, tmp_path: Path
) -> None:
    other = a_service(settings).with_settings(
        Settings(database_url=f"sqlite:///{tmp_path}/other.db")
    )

    with other.running() as client:
        client.for_event_sourced_entity(Counter, "a").ask(Counter.increase)
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "test.db").exists()
    assert other.mcp_paths == ["/mcp", "/profiles"]


def _ref(name: str) -> EntityRef:
    return EntityRef("counter", name)


class Kept:
    """Keeps audit records in a list."""

    def __init__(self) -> None:
        self.tools: list[str] = []

    def record(self, record: AuditRecord) -> None:
        self.tools.append(f"{record.endpoint}: {record.tool}")


@mcp_endpoint(path="/secured", server_name="secured", acl=Acl.allow_internet(), tools=[Counter])
class SecuredMcp:
    """Counters, for everybody who comes from outside; which was said on purpose."""


@pytest.mark.parametrize(
    ("audit", "recorded"),
    [
        ("secured", ["/secured: counter_get"]),
        ("all", ["/mcp: counter_get", "/secured: counter_get"]),
        ("off", []),
    ],
)
def test_which_calls_are_recorded_is_a_setting(
    settings: Settings, audit: str, recorded: list[str]
) -> None:
    kept = Kept()
    original = Service(
        "counters", components=[Counter], endpoints=[CountersMcp, SecuredMcp], audit=kept
    )
    service = original.with_settings(settings.model_copy(update={"audit": audit}))
    call = {**CALL, "params": {"name": "counter_get", "arguments": {"counter_id": "c"}}}

    with TestClient(service.app) as client:
        for path in ("/mcp", "/secured"):
            assert client.post(path, json=call).json()["result"]["isError"] is False

    assert kept.tools == recorded


def test_what_is_wrong_with_security_is_told_with_all_the_rest(settings: Settings) -> None:
    @mcp_endpoint(path="/a", server_name="a", jwt=Jwt([]), tools=[Counter])
    class WrongMcp: ...

    with pytest.raises(DefinitionError) as caught:
        Service(
            "wrong",
            components=[Counter, NoEntity],
            endpoints=[WrongMcp, CountersMcp],
            settings=settings.model_copy(
                update={"require_acl": True, "service_secret": SecretStr("short")}
            ),
        )

    told = "\n".join(caught.value.problems)
    for part in (
        "NoEntity",
        "jwt= needs issuers=[...]",
        "jwt= needs audiences=[...]",
        "CountersMcp: has no acl=",
        "GREENROOM_SERVICE_SECRET must have at least 32 bytes",
    ):
        assert part in told


def test_each_endpoint_with_tokens_describes_itself(settings: Settings) -> None:
    """At its own path; at the bare one only where there is no doubt which is meant."""
    well_known = "/.well-known/oauth-protected-resource"

    @mcp_endpoint(
        path="/a", server_name="a", jwt=Jwt(["https://a.example"], ["a"]), tools=[Counter]
    )
    class FirstMcp: ...

    @mcp_endpoint(
        path="/b", server_name="b", jwt=Jwt(["https://b.example"], ["b"]), tools=[Counter]
    )
    class SecondMcp: ...

    def described(*endpoints: type) -> dict[str, int]:
        service = Service(
            "counters", components=[Counter], endpoints=[*endpoints, CountersMcp], settings=settings
        )
        client = TestClient(service.app)
        paths = ["", "/a", "/b", "/mcp"]
        return {path: client.get(well_known + path).status_code for path in paths}

    assert described(FirstMcp) == {"": 200, "/a": 200, "/b": 404, "/mcp": 404}
    assert described(FirstMcp, SecondMcp) == {"": 404, "/a": 200, "/b": 200, "/mcp": 404}
