"""Where runs keep their data: a folder on the disk, or a database on a server of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

TOOLS = "GREENROOM_BENCH_TOOLS"

Make = Callable[[], AbstractContextManager[dict[str, Any]]]


def tools_wanted() -> int:
    """How many tools a server has; said by whoever starts it."""
    return int(os.environ.get(TOOLS, "1"))


@contextmanager
def sqlite() -> Iterator[dict[str, Any]]:
    """A fresh SQLite file."""
    with tempfile.TemporaryDirectory(prefix="greenroom-bench-") as folder:
        yield {"database_url": f"sqlite:///{folder}/bench.db"}


@contextmanager
def postgresql() -> Iterator[Make]:
    """A PostgreSQL server with its defaults; makes a fresh database for each run."""
    from tests.support.postgres import postgres_server

    with postgres_server() as server:

        @contextmanager
        def database() -> Iterator[dict[str, Any]]:
            yield {"database_url": server.create_database()}

        yield database
