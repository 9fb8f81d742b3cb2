"""The same ledger as an aggregate of `eventsourcing`, with its aggregate cache on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from sqlalchemy import make_url


class Ledger(Aggregate):
    """A ledger, to which lines are added."""

    def __init__(self) -> None:
        self.entries = 0

    @event("EntryRecorded")
    def record(self, text: str) -> None:  # noqa: ARG002 - becomes the event
        """Add a line."""
        self.entries += 1


def application(database_url: str, *, cached: int | None, pool: int) -> Application[UUID]:
    """The application on that database; `cached` aggregates are kept and fast-forwarded."""
    environment = _database(database_url, pool)
    if cached is not None:
        environment["AGGREGATE_CACHE_MAXSIZE"] = str(cached)
        environment["AGGREGATE_CACHE_FASTFORWARD"] = "y"
    return Application(env=environment)


def new_ledger(app: Application[UUID], text: str, history: int) -> UUID:
    """A stored ledger with some history, written in one transaction."""
    ledger = Ledger()
    for _ in range(history):
        ledger.record(text)
    app.save(ledger)
    return ledger.id


def _database(database_url: str, pool: int) -> dict[str, Any]:
    url = make_url(database_url)
    if url.get_backend_name() == "sqlite":
        # It switches to WAL by itself and leaves `synchronous` at SQLite's default, FULL.
        return {
            "PERSISTENCE_MODULE": "eventsourcing.sqlite",
            "SQLITE_DBNAME": url.database,
            "SQLITE_LOCK_TIMEOUT": "60",
        }
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": url.database or "",
        "POSTGRES_HOST": url.host or url.query.get("host") or "127.0.0.1",
        "POSTGRES_PORT": str(url.port or 5432),
        "POSTGRES_USER": url.username or "postgres",
        "POSTGRES_PASSWORD": url.password or "unused",
        "POSTGRES_POOL_SIZE": str(pool),
    }
