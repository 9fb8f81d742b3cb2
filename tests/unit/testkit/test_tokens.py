"""A service that asks for tokens, under test without whoever gives them out."""

from datetime import timedelta
from typing import Annotated

import pytest
from fastapi import APIRouter, Depends

from greenroom import Jwt, Principal, Service, mcp_endpoint, secured
from greenroom.testkit import ServiceTestKit
from tests.support.components import Counter

LOGIN = "https://login.example/"
SHOP = "https://shop.example/mcp"
JWT = Jwt([LOGIN], [SHOP], claims={"tenant": "acme"}, scopes={"count"})


@mcp_endpoint(server_name="counters", jwt=JWT, tools=[Counter.tools(bind="c")])
class CountersMcp:
    """Counters, for those who may count."""


router = APIRouter()


@router.get("/me")
async def me(principal: Annotated[Principal, Depends(secured(jwt=JWT))]) -> str:
    return str(principal)


service = Service("counters", components=[Counter], endpoints=[CountersMcp, router])


def bearing(kit: ServiceTestKit, **changes: object) -> dict[str, str]:
    claims = {"tenant": "acme", **changes}
    token = kit.token("ada", issuer=LOGIN, audience=SHOP, scopes={"count"}, **claims)  # type: ignore[arg-type]
    return {"Authorization": f"Bearer {token}"}


def test_the_kits_tokens_are_believed_at_every_door_until_they_end() -> None:
    with ServiceTestKit(service) as kit:
        ada = bearing(kit)
        assert kit.mcp(headers=ada).call_tool("counter_increase", {"by": 2}).text == "2"
        assert kit.http.get("/me", headers=ada).json() == "ada"
        kit.restart()
        assert kit.http.get("/me", headers=ada).json() == "ada"
        kit.advance(timedelta(minutes=5, seconds=30))
        assert kit.http.get("/me", headers=ada).status_code == 401
        assert kit.http.get("/me", headers=bearing(kit)).json() == "ada"


def test_what_a_token_lacks_shows() -> None:
    with ServiceTestKit(service) as kit:
        assert kit.http.get("/me", headers=bearing(kit, tenant="other")).status_code == 403
        assert kit.http.get("/me", headers=bearing(kit, scope=None)).status_code == 403
        assert kit.http.get("/me", headers=bearing(kit, exp=None)).status_code == 401
        with pytest.raises(ValueError, match="A bearer token is required"):
            kit.mcp().list_tools()


def test_the_kits_key_is_no_other_services_key() -> None:
    with ServiceTestKit(service) as kit:
        foreign = ServiceTestKit(service).token("ada", issuer=LOGIN, audience=SHOP)
        assert kit.http.get("/me", headers=bearing(kit)).status_code == 200
        headers = {"Authorization": f"Bearer {foreign}"}
        assert kit.http.get("/me", headers=headers).status_code == 401
