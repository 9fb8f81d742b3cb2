"""A service in a module of its own, in the current folder, on a database of its own."""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

_numbers = count()

MODULE = """
from greenroom.components import mcp_endpoint
from greenroom.service import Service
from tests.support.components import Counter, ProfileEntity

@mcp_endpoint(path="/mcp", server_name="counters", tools=[Counter])
class CountersMcp:
    "Counters, for MCP clients."

service = Service("counters", components=[Counter, ProfileEntity], endpoints=[CountersMcp])
"""


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database file that commands use; not there yet."""
    file = tmp_path / "cli.db"
    monkeypatch.setenv("GREENROOM_DATABASE_URL", f"sqlite:///{file}")
    return file


@pytest.fixture
def target(tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How the service is named on the command line."""
    name = f"counters_service_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield f"{name}:service"
    sys.modules.pop(name, None)
