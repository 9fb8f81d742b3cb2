"""Every difference between SQLite and PostgreSQL on the writing path, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import (
    Engine,
    Table,
    bindparam,
    delete,
    insert,
    literal_column,
    null,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from greenroom.persistence.records import RecordKind
from greenroom.persistence.tables import blob, instance, journal, owner, snapshot

Row = tuple[Any, ...]

RECEIPT_COLUMNS = (
    "idempotency_key",
    "handler",
    "principal",
    "fingerprint",
    "reply",
    "receipt_expires_at",
)
"""The columns of a record that remember the idempotency key of its command."""
SNAPSHOT_COLUMNS = tuple(column.name for column in snapshot.columns)


@dataclass(slots=True)
class BatchRows:
    """The rows of one batch, in the order of the columns."""

    records: list[Row] = field(default_factory=list)
    new_heads: list[Row] = field(default_factory=list)
    moved_heads: list[Row] = field(default_factory=list)
    """sequence_number, updated_at, deleted_at, expires_at, step; instance_id, expected sequence
    number, generation."""
    snapshots: list[Row] = field(default_factory=list)
    blobs: list[Row] = field(default_factory=list)
    expired: list[Row] = field(default_factory=list)
    """record_id of receipts that have expired and whose key comes again."""


class Writer(Protocol):
    """One connection that writes batches; one thread at a time."""

    def write(self, fence: Row, rows: BatchRows) -> tuple[bool, bool]:
        """Begin and write, without the commit: whether the epoch held, and the heads did."""
        ...

    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def reconnect(self) -> None: ...
    def close(self) -> None: ...


class _Statements:
    """SQL that Core compiled once, run with tuples by the driver.

    Core's own executemany costs 2 to 3 µs more per row, a third of what a row costs.
    """

    def __init__(self, dialect: Any) -> None:
        def compiled(statement: Any, order: Sequence[str]) -> str:
            done = statement.compile(dialect=dialect)
            assert tuple(done.positiontup) == tuple(order), (done.positiontup, order)
            return str(done)

        def inserting(table: Table) -> str:
            names = [column.name for column in table.columns]
            values: dict[str, Any] = {name: bindparam(name) for name in names}
            return compiled(insert(table).values(values), names)

        self.record = inserting(journal)
        self.head = inserting(instance)
        self.blob = inserting(blob)
        upsert = inserting(snapshot)
        changed = ", ".join(f"{name} = excluded.{name}" for name in SNAPSHOT_COLUMNS[1:])
        self.snapshot = f"{upsert} ON CONFLICT (instance_id) DO UPDATE SET {changed}"
        self.move = compiled(
            update(instance)
            .values(
                sequence_number=bindparam("new"),
                updated_at=bindparam("at"),
                deleted_at=bindparam("deleted"),
                expires_at=bindparam("expires"),
                step=bindparam("step"),
            )
            .where(
                instance.c.instance_id == bindparam("id"),
                instance.c.sequence_number == bindparam("expected"),
                instance.c.generation == bindparam("gen"),
            ),
            ("new", "at", "deleted", "expires", "step", "id", "expected", "gen"),
        )
        self.fence = compiled(
            update(owner)
            .values(last_batch=bindparam("batch"))
            .where(owner.c.owner_id == bindparam("me"), owner.c.epoch == bindparam("held")),
            ("batch", "me", "held"),
        )
        expired = journal.c.record_id == bindparam("id")
        alone = journal.c.kind == literal_column(f"'{RecordKind.RECEIPT.value}'")
        self.drop_receipt = compiled(delete(journal).where(expired, alone), ("id",))
        nothing = {name: null() for name in RECEIPT_COLUMNS}
        self.clear_receipt = compiled(update(journal).values(nothing).where(expired), ("id",))


class SqliteWriter:
    """Writes through the one connection that writes."""

    def __init__(self, engine: Engine) -> None:
        self._sql = _Statements(sqlite.dialect(paramstyle="qmark"))
        self._checked_out = engine.connect()
        self._raw: Any = self._checked_out.connection.driver_connection

    def write(self, fence: Row, rows: BatchRows) -> tuple[bool, bool]:
        raw, sql = self._raw, self._sql
        # Left open by a KeyboardInterrupt or the like.
        self.rollback()
        # IMMEDIATE takes the write lock now; a deferred one could fail in the middle.
        raw.execute("BEGIN IMMEDIATE")
        if raw.execute(sql.fence, fence).rowcount != 1:
            return False, True
        if rows.expired:
            raw.executemany(sql.drop_receipt, rows.expired)
            raw.executemany(sql.clear_receipt, rows.expired)
        if rows.new_heads:
            raw.executemany(sql.head, rows.new_heads)
        moved = len(rows.moved_heads)
        if moved == 1:
            heads_held = raw.execute(sql.move, rows.moved_heads[0]).rowcount == 1
        else:
            heads_held = not moved or raw.executemany(sql.move, rows.moved_heads).rowcount == moved
        if not heads_held:
            return True, False
        if len(rows.records) == 1:
            raw.execute(sql.record, rows.records[0])
        elif rows.records:
            raw.executemany(sql.record, rows.records)
        if rows.snapshots:
            raw.executemany(sql.snapshot, rows.snapshots)
        if rows.blobs:
            raw.executemany(sql.blob, rows.blobs)
        return True, True

    def commit(self) -> None:
        self._raw.execute("COMMIT")

    def rollback(self) -> None:
        if self._raw.in_transaction:
            self._raw.execute("ROLLBACK")

    def reconnect(self) -> None:
        """A file has no connection that breaks."""

    def close(self) -> None:
        self._checked_out.close()


class PostgresWriter:
    """Writes a whole batch in one pipeline, so that it costs two round trips."""

    def __init__(self, engine: Engine) -> None:
        dialect: Any = postgresql.dialect
        self._sql = _Statements(dialect(paramstyle="format"))
        self._engine = engine
        self._checked_out: Any = None
        self._raw: Any = None

    def write(self, fence: Row, rows: BatchRows) -> tuple[bool, bool]:
        if self._raw is None:
            self._checked_out = self._engine.connect()
            self._raw = self._checked_out.connection.driver_connection
        sql, raw = self._sql, self._raw
        with raw.cursor() as fenced, raw.cursor() as heads, raw.cursor() as cursor:
            with raw.pipeline():
                fenced.execute(sql.fence, fence)
                if rows.expired:
                    cursor.executemany(sql.drop_receipt, rows.expired)
                    cursor.executemany(sql.clear_receipt, rows.expired)
                if rows.new_heads:
                    cursor.executemany(sql.head, rows.new_heads)
                if rows.moved_heads:
                    heads.executemany(sql.move, rows.moved_heads)
                if rows.records:
                    cursor.executemany(sql.record, rows.records)
                if rows.snapshots:
                    cursor.executemany(sql.snapshot, rows.snapshots)
                if rows.blobs:
                    cursor.executemany(sql.blob, rows.blobs)
            # Counts are known when the pipeline has been worked off.
            moved = len(rows.moved_heads)
            return fenced.rowcount == 1, not moved or heads.rowcount == moved

    def commit(self) -> None:
        self._raw.commit()

    def rollback(self) -> None:
        if self._raw is not None and not self._raw.closed:
            self._raw.rollback()

    def reconnect(self) -> None:
        """Forget a broken connection; the next batch opens another."""
        if self._checked_out is not None:
            self._checked_out.invalidate()
            self._checked_out.close()
        self._checked_out = self._raw = None

    def close(self) -> None:
        if self._checked_out is not None:
            self._checked_out.close()
            self._checked_out = self._raw = None


def writer_for(engine: Engine) -> Writer:
    """The writer for the database of an engine."""
    return SqliteWriter(engine) if engine.dialect.name == "sqlite" else PostgresWriter(engine)


def postgres_now_ms(connection: Any) -> int:
    """The database's own clock, by which leases are judged (one machine's clock is nobody's)."""
    sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    return int(connection.exec_driver_sql(sql).scalar_one())
