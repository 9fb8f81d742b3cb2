"""Group-committed inserts of the bare driver: the most that a journal on it could reach."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import psycopg
from sqlalchemy import make_url

from benchmarks.pace import TEXT, Pace, settle

_TABLE = """
CREATE TABLE journal (
    position {serial} PRIMARY KEY, instance {integer} NOT NULL, number {integer} NOT NULL,
    payload {text} NOT NULL, UNIQUE (instance, number)
)
"""

Row = tuple[int, int, str]


def run(database_url: str, batch: int, entities: int, seconds: float) -> dict[str, float]:
    """Rows per second, one per command, `batch` of them in a transaction, on one connection."""
    insert = _on_sqlite(database_url) if database_url.startswith("sqlite") else _on_pg(database_url)
    payload = f'{{"text":"{TEXT}"}}'
    settle()
    pace = Pace(seconds)
    pace.start()
    number = 0
    while True:
        places = range(number, number + batch)
        insert([(place % entities, place // entities, payload) for place in places])
        number += batch
        if pace.done(batch):
            return pace.figures()


def _on_sqlite(database_url: str) -> Callable[[list[Row]], object]:
    connection = sqlite3.connect(make_url(database_url).database or "", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(_TABLE.format(serial="INTEGER", integer="INTEGER", text="TEXT"))

    def insert(rows: list[Row]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO journal (instance, number, payload) VALUES (?, ?, ?)", rows
        )
        connection.execute("COMMIT")

    return insert


def _on_pg(database_url: str) -> Callable[[list[Row]], object]:
    connection = psycopg.connect(database_url.replace("postgresql+psycopg:", "postgresql:", 1))
    connection.execute(
        _TABLE.format(
            serial="bigint GENERATED ALWAYS AS IDENTITY", integer="bigint", text="text"
        ).encode()
    )
    connection.commit()
    # A row alone is quickest as a transaction of one statement: one round trip, not three.
    connection.autocommit = True
    cursor = connection.cursor()
    statement = "INSERT INTO journal (instance, number, payload) VALUES (%s, %s, %s)"

    def insert(rows: list[Row]) -> None:
        if len(rows) == 1:
            cursor.execute(statement, rows[0])
            return
        with connection.transaction():
            cursor.executemany(statement, rows)

    return insert
