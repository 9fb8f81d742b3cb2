"""Who comes in at a door, and with what they are turned away."""

from datetime import timedelta
from typing import Any

import pytest

from greenroom.components import (
    ANONYMOUS,
    Acl,
    Issuer,
    Jwt,
    Principal,
    RateLimit,
    Security,
    ToolContext,
    define,
    resolve_tools,
)
from greenroom.edge import Audit, AuditRecord, Guard, RefusedError, Surroundings
from greenroom.edge._service_tokens import ServiceTokens
from greenroom.settings import Settings
from greenroom.testkit import ManualClock
from tests.support.components import Counter
from tests.support.tokens import AUDIENCE, TokenIssuer

SECRET = "s" * 48
CLOCK = ManualClock()
ISSUER = TokenIssuer(clock=CLOCK)
JWT = Jwt([Issuer(ISSUER.url, keys=[ISSUER.key.jwk])], [AUDIENCE], scopes={"read"})
AROUND = Surroundings("shop", Settings(service_secret=SECRET), CLOCK)  # type: ignore[arg-type]
BILLING = ServiceTokens(SECRET, own_name="billing", clock=CLOCK)
KNOWN = {Counter: define(Counter)}


def a_scope(*headers: tuple[str, str], client: str = "192.0.2.1") -> dict[str, Any]:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "scheme": "http",
        "headers": [(b"host", b"shop.example"), *raw],
        "client": (client, 50000),
    }


def bearing(token: str, scheme: str = "Bearer") -> tuple[str, str]:
    return ("Authorization", f"{scheme} {token}")


def serving(audience: str = "shop") -> tuple[str, str]:
    return ("Greenroom-Service-Token", BILLING.issue(audience))


async def refused(guard: Guard, scope: dict[str, Any]) -> tuple[int, str, dict[str, str]]:
    with pytest.raises(RefusedError) as caught:
        await guard.admit(scope)
    refusal = caught.value.refusal
    lines = guard.headers(refusal, scope)
    return refusal.status, refusal.code, {key.decode(): text.decode() for key, text in lines}


async def test_a_door_that_asks_nothing_lets_anybody_in() -> None:
    assert await Guard(Security(), AROUND).admit(a_scope()) is ANONYMOUS


async def test_a_token_makes_a_principal() -> None:
    guard = Guard(Security(jwt=JWT), AROUND)

    for scheme in ("Bearer", "bearer", "BEARER"):
        principal = await guard.admit(a_scope(bearing(ISSUER.token(scope="read"), scheme)))
        assert (principal.subject, principal.scopes) == ("ada", {"read"})


async def test_who_shows_no_token_is_told_where_to_get_one() -> None:
    guard = Guard(Security(jwt=JWT), AROUND, path="/mcp")
    where = 'resource_metadata="http://shop.example/.well-known/oauth-protected-resource/mcp"'

    status, code, headers = await refused(guard, a_scope())
    assert (status, code) == (401, "token-missing")
    assert headers == {"www-authenticate": f'Bearer scope="read", {where}'}

    status, code, headers = await refused(guard, a_scope(("Authorization", "Basic eDp5")))
    assert (status, code) == (401, "token-missing")

    status, code, headers = await refused(guard, a_scope(bearing("rubbish")))
    assert (status, code) == (401, "invalid-token")
    assert headers["www-authenticate"] == (
        f'Bearer error="invalid_token", error_description="it is not a signed token", {where}'
    )


async def test_a_token_that_permits_too_little_is_told_what_it_needs() -> None:
    guard = Guard(Security(jwt=JWT), AROUND)

    status, code, headers = await refused(guard, a_scope(bearing(ISSUER.token(scope="write"))))

    assert (status, code) == (403, "insufficient-scope")
    assert headers == {"www-authenticate": 'Bearer error="insufficient_scope", scope="read"'}


async def test_the_public_address_is_told_where_it_is_known() -> None:
    settings = Settings(public_url="https://shop.example.com/")
    jwt = Jwt([Issuer(ISSUER.url, keys=[ISSUER.key.jwk])])
    guard = Guard(Security(jwt=jwt), Surroundings("shop", settings, CLOCK), path="/mcp")

    _, _, headers = await refused(guard, a_scope())
    assert "https://shop.example.com/.well-known/oauth-protected-resource/mcp" in str(headers)
    document = guard.metadata(a_scope())
    assert document is not None
    assert document["resource"] == "https://shop.example.com/mcp"

    right = ISSUER.token(aud="https://shop.example.com/mcp")
    assert (await guard.admit(a_scope(bearing(right)))).subject == "ada"
    other = ISSUER.token(aud="https://shop.example.com/other")
    assert (await refused(guard, a_scope(bearing(other))))[0] == 401


@pytest.mark.parametrize("name", ["Authorization", "Greenroom-Service-Token"])
async def test_two_of_one_kind_are_none(name: str) -> None:
    """Readers of the first and the last would see different callers."""
    guard = Guard(Security(jwt=JWT), AROUND)
    good = bearing(ISSUER.token(scope="read"))
    extra = good if name == "Authorization" else serving()

    status, code, _ = await refused(guard, a_scope(good, extra, extra))

    assert (status, code) == (400, "doubled-header")


async def test_services_are_let_in_by_name_and_the_internet_is_not() -> None:
    guard = Guard(Security(acl=Acl(allow=[Acl.service("bill*")], deny_code=404)), AROUND)

    principal = await guard.admit(a_scope(serving()))
    assert (principal.subject, principal.service) == ("service:billing", "billing")
    assert not principal.is_internet
    assert (await refused(guard, a_scope()))[:2] == (404, "access-denied")
    status, code, _ = await refused(guard, a_scope(serving("another")))
    assert (status, code) == (401, "invalid-service-token")


async def test_without_a_secret_no_service_token_is_good() -> None:
    around = Surroundings("shop", Settings(), CLOCK)

    assert (await refused(Guard(Security(), around), a_scope(serving())))[0] == 401


async def test_a_service_may_bring_a_users_token() -> None:
    guard = Guard(Security(acl=Acl.allow_services("billing"), jwt=JWT), AROUND)
    users = bearing(ISSUER.token(scope="read"))

    principal = await guard.admit(a_scope(serving(), users))

    assert (principal.subject, principal.service) == ("ada", "billing")
    assert (await refused(guard, a_scope(users)))[:2] == (403, "access-denied")
    assert (await refused(guard, a_scope(serving())))[:2] == (401, "token-missing")


async def test_who_calls_too_often_is_told_when_to_come_again() -> None:
    clock = ManualClock()
    around = Surroundings("shop", Settings(service_secret=SECRET), clock)  # type: ignore[arg-type]
    limit = RateLimit(2, per=timedelta(seconds=10))
    guard = Guard(Security(rate_limit=limit), around)
    for _ in range(2):
        await guard.admit(a_scope())

    status, code, headers = await refused(guard, a_scope())
    assert (status, code, headers) == (429, "rate-limited", {"retry-after": "5"})
    await guard.admit(a_scope(client="192.0.2.2"))
    clock.advance(timedelta(seconds=5))
    await guard.admit(a_scope())


async def test_the_rate_is_the_principals_wherever_it_calls_from() -> None:
    guard = Guard(Security(jwt=JWT, rate_limit=RateLimit(1)), AROUND)
    ada = bearing(ISSUER.token(scope="read"))
    await guard.admit(a_scope(ada, client="192.0.2.1"))

    assert (await refused(guard, a_scope(ada, client="192.0.2.2")))[0] == 429
    await guard.admit(a_scope(bearing(ISSUER.token(scope="read", sub="bob"))))


async def test_who_is_refused_spends_nothing() -> None:
    guard = Guard(Security(jwt=JWT, rate_limit=RateLimit(1)), AROUND)
    for _ in range(3):
        assert (await refused(guard, a_scope()))[0] == 401

    await guard.admit(a_scope(bearing(ISSUER.token(scope="read"))))


class Kept:
    """Keeps audit records in a list."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def record(self, record: AuditRecord) -> None:
        self.records.append(record)


def test_tools_may_ask_for_more_than_their_endpoint() -> None:
    tools, problems = resolve_tools(
        [
            Counter.tools(only={"get"}, acl=Acl.allow_services("*")),
            Counter.tools(only={"increase"}, scopes={"write"}),
        ],
        KNOWN,
    )
    assert problems == []
    get, increase = tools
    kept = Kept()
    audit = Audit(kept, "/mcp", CLOCK)
    guard = Guard(Security(jwt=JWT), AROUND, path="/mcp", tools=tools, audit=audit)
    reader = ToolContext(principal=Principal("ada", scopes=frozenset({"read"})), correlation_id="r")
    writer = ToolContext(principal=Principal("bob", scopes=frozenset({"read", "write"})))

    assert not guard.offers(get, reader.principal)
    assert guard.offers(increase, reader.principal), "so that a client can ask for the scope"
    guard.check_tool(increase, {}, writer, None)
    assert kept.records == []
    with pytest.raises(RefusedError) as caught:
        guard.check_tool(increase, {"counter_id": "c", "by": 3}, reader, None)
    assert caught.value.refusal.status == 403
    lines = dict(guard.headers(caught.value.refusal, a_scope()))
    assert b'error="insufficient_scope", scope="read write"' in lines[b"www-authenticate"]
    with pytest.raises(RefusedError):
        guard.check_tool(get, {}, writer, None)

    assert [(one.tool, one.outcome, one.code) for one in kept.records] == [
        ("counter_increase", "denied", "insufficient-scope"),
        ("counter_get", "denied", "access-denied"),
    ]
    assert kept.records[0].arguments == {"by": "number"}
    document = guard.metadata(a_scope())
    assert document == {
        "resource": "http://shop.example/mcp",
        "authorization_servers": ["https://login.example"],
        "bearer_methods_supported": ["header"],
        "resource_name": "shop",
        "scopes_supported": ["read", "write"],
    }


def test_a_door_without_tokens_describes_nothing() -> None:
    assert Guard(Security(acl=Acl.allow_all()), AROUND, path="/mcp").metadata(a_scope()) is None
