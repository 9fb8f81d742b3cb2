"""Servers for other people's clients."""

import os
from collections.abc import Iterator

import pytest

from greenroom import Settings
from tests.conformance.server import service
from tests.support.node import NoNodeError, packages
from tests.support.served import served

REQUIRED = "GREENROOM_REQUIRE_NODE"
"""CI sets it to 1: Node or packages that are missing are then a failure and not a skip."""


@pytest.fixture(scope="session", autouse=True)
def node_packages() -> None:
    """Node and what it runs."""
    try:
        packages()
    except NoNodeError as error:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED} is 1, but: {error}", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=["h11", "httptools"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The fixture server, under each HTTP parser; by the name that the suite insists on."""
    folder = tmp_path_factory.mktemp("conformance")
    settings = Settings(database_url=f"sqlite:///{folder}/test.db")
    with served(service.with_settings(settings).app, http=request.param) as address:
        yield f"{address.replace('127.0.0.1', 'localhost')}/mcp"
