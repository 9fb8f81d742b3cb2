"""Databases for every suite."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import NoPostgresError, PostgresServer, postgres_server

REQUIRED = "GREENROOM_REQUIRE_POSTGRESQL"
"""CI sets it to 1: a missing PostgreSQL is then a failure and not a skip."""


@pytest.fixture(scope="session", name="postgres_server")
def running_postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL server for the whole run."""
    try:
        with postgres_server() as server:
            yield server
    except NoPostgresError as error:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED} is 1, but: {error}", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh PostgreSQL database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A fresh SQLite file."""
    return f"sqlite:///{tmp_path / 'greenroom.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database of each kind."""
    url: str = request.getfixturevalue(
        "sqlite_url" if request.param == "sqlite" else "postgres_url"
    )
    return url
