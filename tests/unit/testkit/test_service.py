"""A service under test: real, on a file of its own, in a time of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from fastapi import APIRouter, Depends, FastAPI

from greenroom import (
    AsyncComponentClient,
    Effect,
    KeyValueEntity,
    ReadOnlyEffect,
    Service,
    async_component_client,
    component,
    mcp_endpoint,
)
from greenroom.settings import Settings
from greenroom.testkit import EventSourcedTestKit, KeyValueTestKit, ManualClock, ServiceTestKit
from greenroom.version import package_version
from tests.support.components import Counter
from tests.support.counting import CountingMcp, ProfileEntity, service

START = datetime(2030, 1, 1, tzinfo=UTC)

started: list[str] = []


@asynccontextmanager
async def router_lifespan(_app: FastAPI) -> AsyncIterator[None]:
    started.append("up")
    yield
    started.append("down")


router = APIRouter(lifespan=router_lifespan)


@router.get("/counters/{name}")
async def total(
    name: str, client: Annotated[AsyncComponentClient, Depends(async_component_client)]
) -> int:
    return await client.for_event_sourced_entity(Counter, name).ask(Counter.total)


@router.post("/counters/{name}/decline")
async def decline(
    name: str, client: Annotated[AsyncComponentClient, Depends(async_component_client)]
) -> int:
    return await client.for_event_sourced_entity(Counter, name).ask(Counter.decline)


@router.get("/broken")
async def broken() -> int:
    raise LookupError("a mistake in a route")


WITH_ROUTES = Service(
    "counting",
    components=[Counter, ProfileEntity],
    endpoints=[CountingMcp, router],
    settings=Settings(allowed_hosts=["shop.example"]),
    version="4.2",
)


@component("clocked")
class Clocked(KeyValueEntity[datetime | None]):
    """Remembers when it was looked at."""

    def look(self) -> Effect[datetime]:
        now = self.command_context.now
        return self.effects.update_state(now).then_reply(now)

    def looked(self) -> ReadOnlyEffect[datetime | None]:
        return self.effects.reply(self.state)


def test_what_was_acknowledged_survives_a_restart() -> None:
    with ServiceTestKit(service) as kit:
        kit.client.for_event_sourced_entity(Counter, "a").ask(Counter.increase, 2)
        kit.restart()
        assert kit.client.for_event_sourced_entity(Counter, "a").ask(Counter.total) == 2


def test_time_passes_when_it_is_told_to() -> None:
    with ServiceTestKit(service) as kit:
        kit.client.for_event_sourced_entity(Counter, "a").ask(Counter.keep_for, 60)
        [summary] = kit.client.instances(Counter)
        assert (summary.created_at, summary.updated_at, summary.deleted_at) == (START, START, None)
        assert summary.expires_at == START + timedelta(seconds=60)
        kit.advance(timedelta(seconds=61))
        [summary] = kit.client.instances(Counter)
        assert summary.deleted_at == START + timedelta(seconds=60)


def test_two_kits_share_nothing() -> None:
    with ServiceTestKit(service) as first, ServiceTestKit(service) as second:
        first.client.for_event_sourced_entity(Counter, "a").ask(Counter.increase)
        assert second.client.for_event_sourced_entity(Counter, "a").ask(Counter.total) == 0


def test_a_handler_knows_the_time_of_the_services_clock() -> None:
    with ServiceTestKit(Service("clocked", components=[Clocked])) as kit:
        kit.advance(timedelta(hours=3))
        clocked = kit.client.for_key_value_entity(Clocked, "c")
        assert clocked.ask(Clocked.look) == START + timedelta(hours=3)
        kit.advance(timedelta(hours=1))
        assert clocked.ask(Clocked.looked) == START + timedelta(hours=3)


def test_a_handler_knows_the_time_of_an_entity_kits_clock() -> None:
    clock = ManualClock()
    kit = KeyValueTestKit(Clocked, clock=clock)
    clock.advance(timedelta(days=1))

    reply = kit.run(Clocked.look).reply

    assert (reply, reply.tzinfo) == (START + timedelta(days=1), UTC)
    assert EventSourcedTestKit(Counter, clock=clock).run(Counter.increase).reply == 1


def test_routes_are_called_over_http() -> None:
    started.clear()
    with ServiceTestKit(WITH_ROUTES) as kit:
        kit.client.for_event_sourced_entity(Counter, "a").ask(Counter.increase, 2)
        assert kit.http.get("/counters/a").json() == 2
        assert kit.http.get("/health/ready").status_code == 200
        assert kit.http.get("/openapi.json").json()["info"]["version"] == "4.2"

        refused = kit.http.post("/counters/a/decline")
        assert (refused.status_code, refused.json()["code"]) == (400, "declined")
        with pytest.raises(LookupError, match="a mistake in a route"):
            kit.http.get("/broken")

        kit.restart()
        assert kit.http.get("/counters/a").json() == 2
        assert started == ["up", "down", "up"]
    assert started == ["up", "down", "up", "down"]


def test_tools_are_called_over_mcp() -> None:
    with ServiceTestKit(WITH_ROUTES) as kit:
        mcp = kit.mcp(headers={"X-Tenant": "t-1"})
        [increase] = [one for one in mcp.list_tools() if one["name"] == "counter_increase"]
        assert "by" in increase["inputSchema"]["properties"]

        call = {"counter_id": "a", "by": 2}
        first = mcp.call_tool("counter_increase", call, idempotency_key="k-1")
        again = mcp.call_tool("counter_increase", call, idempotency_key="k-1")
        assert (first.text, first.is_error) == (again.text, again.is_error) == ("2", False)
        got = mcp.call_tool("counter_get", {"counter_id": "a"})
        assert got.structured is not None
        assert got.structured["total"] == 2

        wrong = mcp.call_tool("counter_increase", {"counter_id": "a", "by": "many"})
        assert wrong.is_error
        assert wrong.meta["greenroom/code"] == "invalid-arguments"
        with pytest.raises(ValueError, match="at /mcp refused tools/call: Unknown tool: gone"):
            mcp.call_tool("gone")
        with pytest.raises(ValueError, match="at /nowhere refused tools/list: HTTP 404"):
            kit.mcp("/nowhere").list_tools()


def test_an_endpoint_says_the_version_of_its_service() -> None:
    """Unless it has one of its own; a service without one says which greenroom it runs on."""

    def version_of(one: Service) -> str:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        hello["params"] = {"protocolVersion": "2025-11-25"}
        with ServiceTestKit(one) as kit:
            answer = kit.http.post("/mcp", json=hello).json()["result"]
            return str(answer["serverInfo"]["version"])

    assert version_of(WITH_ROUTES) == "4.2"
    assert version_of(service) == f"greenroom {package_version()}"

    @mcp_endpoint(server_name="own", server_version="7", tools=[Counter])
    class OwnMcp:
        """Has a version of its own."""

    own = Service("own", components=[Counter], endpoints=[OwnMcp], version="4.2")
    assert version_of(own) == "7"


def test_any_test_client_may_use_the_running_service() -> None:
    """With its start-up or without, since the service runs already."""
    from starlette.testclient import TestClient

    with ServiceTestKit(service) as kit:
        assert TestClient(kit.app).get("/health/ready").status_code == 200
        with TestClient(kit.app) as client:
            assert client.get("/health/ready").status_code == 200
        kit.client.for_event_sourced_entity(Counter, "a").ask(Counter.increase)


def test_a_clock_loses_no_milliseconds() -> None:
    clock = ManualClock()
    began = clock.now_ms()
    for milliseconds in range(1000):
        clock.advance(timedelta(milliseconds=milliseconds))
    assert clock.now_ms() - began == sum(range(1000))


@component("diary")
class Diary(KeyValueEntity[list[str]]):
    """Notes who came when."""

    def empty_state(self) -> list[str]:
        return []

    def note(self, who: str) -> Effect[None]:
        minutes = (self.command_context.now - START) // timedelta(minutes=1)
        return self.effects.update_state([*self.state, f"{who} {minutes}"]).then_reply(None)


def test_timers_fire_in_order_and_at_their_times() -> None:
    with ServiceTestKit(Service("diary", components=[Diary])) as kit:
        diary = kit.client.for_key_value_entity(Diary, "d")
        timers = kit.client.timers
        timers.start_recurring_timer("o", diary.deferred(Diary.note, "o"), every=TWENTY)
        timers.start_single_timer("s", timedelta(minutes=50), diary.deferred(Diary.note, "s"))
        kit.restart()

        kit.advance(timedelta(hours=1))

        assert kit.client.state_at(Diary, "d") == ["o 20", "o 40", "s 50", "o 60"]


TWENTY = timedelta(minutes=20)
