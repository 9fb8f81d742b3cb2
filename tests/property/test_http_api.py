"""The HTTP API under schemathesis: requests that fit its OpenAPI document, and such that don't."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from examples.shopping_cart.application import Catalogue, ShoppingCart
from examples.transfer_workflow.application import Transfer, WalletEntity
from greenroom import (
    Acl,
    ComponentClient,
    Issuer,
    Jwt,
    Service,
    Settings,
    component_client,
    mcp_endpoint,
)
from tests.conformance.server import Everything
from tests.conformance.tasks import WORKFLOWS
from tests.support.served import served
from tests.support.tokens import AUDIENCE, TokenIssuer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EXAMPLES = 40
SECONDS = 10
"""Longer than any of these takes: what does not answer by then hangs."""
LEAKS = ("Traceback", 'File "', "site-packages", "/src/greenroom", "sqlalchemy", "pydantic.dev")
ISSUER = TokenIssuer()
JWT = Jwt([Issuer(ISSUER.url, keys=[ISSUER.key.jwk])], [AUDIENCE])
SHOP, BANK = [ShoppingCart, Catalogue], [WalletEntity, Transfer]


@mcp_endpoint(path="/open", server_name="open", tools=SHOP, http=True)
class Open:
    """The examples, for everybody."""


@mcp_endpoint(
    path="/own", server_name="own", tools=BANK, http=True, jwt=JWT, acl=Acl.allow_internet()
)
class Own:
    """The examples, for those with a token."""


@mcp_endpoint(path="/all", server_name="all", http=True)
class All(Everything):
    """Methods of every kind."""


router = APIRouter()


@router.get("/carts/{cart_id}")
def cart(cart_id: str, client: Annotated[ComponentClient, Depends(component_client)]) -> Any:
    """A route as an application writes it."""
    return client.for_event_sourced_entity(ShoppingCart, cart_id).ask(ShoppingCart.get_cart)


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """What the OpenAPI document of a served application says can be done."""
    import schemathesis

    folder: Path = tmp_path_factory.mktemp("fuzzed")
    service = Service(
        "fuzzed",
        components=[*SHOP, *BANK, *WORKFLOWS],
        endpoints=[Open, Own, All, router],
        settings=Settings(database_url=f"sqlite:///{folder}/test.db"),
    )
    with served(service.app) as address:
        document = schemathesis.openapi.from_url(f"{address}/openapi.json")
        yield [one.ok() for one in document.get_all_operations()]


@pytest.mark.parametrize(
    ("path", "with_token", "kind"),
    [
        ("/open/", True, "positive"),
        ("/open/", True, "negative"),
        ("/own/", True, "positive"),
        ("/own/", True, "negative"),
        ("/own/", False, "positive"),
        ("/all/", True, "positive"),
        ("/all/", True, "negative"),
        ("/carts/", True, "positive"),
        ("/health/", True, "positive"),
    ],
)
def test_nothing_breaks_the_http_api(
    operations: list[Any], path: str, kind: str, *, with_token: bool
) -> None:
    from schemathesis import GenerationMode

    chosen = [one for one in operations if one.path.startswith(path)]
    assert chosen
    headers = {"Authorization": f"Bearer {ISSUER.token()}"} if with_token else {}
    mode = GenerationMode.POSITIVE if kind == "positive" else GenerationMode.NEGATIVE
    answered: set[int] = set()

    def fuzz(operation: Any) -> None:
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def one(case: Any) -> None:
            response = case.call(headers=headers, timeout=SECONDS)
            answered.add(response.status_code)
            assert response.status_code < 500, (case, response.text)
            assert not [leak for leak in LEAKS if leak in response.text], response.text
            if path == "/own/" and not with_token:
                assert response.status_code == 401

        one()

    for operation in chosen:
        # Some take nothing that could be wrong.
        with suppress(Unsatisfiable) if kind == "negative" else nullcontext():
            fuzz(operation)
    if with_token:
        expected = {200, 204} if kind == "positive" else {400, 422}
        assert answered & expected, f"only {answered} in answer to {kind} requests"
