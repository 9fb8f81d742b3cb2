"""The journal in SQL: batches in, records out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, and_, func, select

from greenroom.errors import (
    CommitUnknownError,
    ConcurrentWriteError,
    NotOwnerError,
    PersistenceError,
)
from greenroom.ids import EntityRef, slice_of
from greenroom.persistence.records import (
    Chain,
    CommandWrite,
    Encoded,
    Head,
    InstanceSummary,
    NewRecord,
    Outcome,
    Receipt,
    RecordKind,
    StoredInstance,
    StoredRecord,
)
from greenroom.persistence.sql._dialect import BatchRows, Row, writer_for
from greenroom.persistence.sql._purge import Purges
from greenroom.persistence.sql._translate import (
    is_disconnect,
    is_integrity_violation,
    translate,
    translated,
)
from greenroom.persistence.tables import LOW_BITS, SLICE_BITS, blob, instance, journal, snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greenroom.clock import Clock
    from greenroom.persistence.sql._ownership import SqlOwnership

_log = logging.getLogger("greenroom.persistence")

BLOB_BYTES = 64 * 1024
"""Payloads from this size on stand in a table of their own, out of the way of readers."""
ROUNDS = 3
"""How often the rest of a batch is tried again before its chains go one by one."""

_RECORD = (
    journal.c.record_id,
    journal.c.kind,
    journal.c.sequence_number,
    journal.c.written_at,
    journal.c.type_name,
    journal.c.type_version,
    func.coalesce(journal.c.payload, blob.c.payload),
    journal.c.metadata,
)
_KINDS = {str(kind): kind for kind in RecordKind}


@dataclass(slots=True)
class _Counters:
    """The last numbers given in one slice."""

    slice_seq: int
    instance_number: int


class _Conflict(Exception):  # noqa: N818 - never leaves this module
    """Some chain of the batch can't go in."""


class SqlJournal(Purges):
    """`Journal` on SQLAlchemy; see the port for its promises."""

    def __init__(self, engine: Engine, ownership: SqlOwnership, clock: Clock) -> None:
        super().__init__(engine)
        self._ownership = ownership
        self._clock = clock
        self._writer = writer_for(engine)
        self._counters: dict[int, _Counters] = {}
        self._counted_for: tuple[int, int] | None = None
        self._batch = 0

    def close(self) -> None:
        """Close the writing connection."""
        self._writer.close()

    # -- writing ---------------------------------------------------------------------------

    def commit(self, batch: Sequence[Chain]) -> list[Outcome]:
        """Write the chains in one transaction, each whole or not at all."""
        outcomes: list[Outcome | None] = [None] * len(batch)
        waiting = self._leave_out_foreign(batch, outcomes)
        freed: list[Row] = []
        for _ in range(ROUNDS):
            if not waiting:
                break
            try:
                self._write([batch[index] for index in waiting], waiting, freed, outcomes)
                waiting = []
            except _Conflict:
                waiting = self._leave_out_losers(batch, waiting, freed, outcomes)
        for index in waiting:
            self._write_alone(batch[index], index, freed, outcomes)
        return [outcome or Outcome() for outcome in outcomes]

    def _leave_out_foreign(
        self, batch: Sequence[Chain], outcomes: list[Outcome | None]
    ) -> list[int]:
        owned = self._ownership.owned()
        slices = self._ownership.slices
        mine = []
        for index, chain in enumerate(batch):
            if slices == 1 or slice_of(chain.ref, slices) in owned:
                mine.append(index)
            else:
                error = NotOwnerError(f"{chain.ref} is not owned by this process.")
                outcomes[index] = Outcome(error=error)
        return mine

    def _write(
        self,
        chains: list[Chain],
        indexes: list[int],
        freed: list[Row],
        outcomes: list[Outcome | None],
    ) -> None:
        fence = self._ownership.fence()
        self._count(fence)
        plan = _Plan(self, self._clock.now_ms(), freed)
        heads = [plan.add(chain) for chain in chains]
        self._batch += 1
        try:
            epoch_held, heads_held = self._writer.write((self._batch, *fence), plan.rows)
            if not epoch_held:
                raise NotOwnerError("Another owner took over from this process.")
            if not heads_held:
                raise _Conflict
        except Exception as error:
            self._roll_back()
            if isinstance(error, _Conflict | NotOwnerError):
                raise
            if is_integrity_violation(error):
                raise _Conflict from error
            if is_disconnect(error):
                self._reconnect()
            raise translate(error) from error
        self._commit_transaction(fence)
        self._counters.update(plan.counters)
        for index, head in zip(indexes, heads, strict=True):
            outcomes[index] = Outcome(head=head)

    def _commit_transaction(self, fence: tuple[int, int]) -> None:
        try:
            self._writer.commit()
        except Exception as error:
            if not is_disconnect(error):
                self._roll_back()
                raise translate(error) from error
            # Nobody said whether it was written. Bumping the own epoch waits for the old
            # transaction to end; then the number of the last batch tells.
            self._reconnect()
            try:
                last = self._ownership.bump_own_epoch()
            except PersistenceError as problem:
                raise CommitUnknownError(
                    "The connection broke during a commit and the database can't be asked "
                    f"whether it was written: {problem}"
                ) from error
            self._counted_for = (fence[0], self._ownership.fence()[1])
            if last is None:
                raise NotOwnerError("Another owner took over from this process.") from error
            if last != self._batch:
                raise translate(error) from error

    def _roll_back(self) -> None:
        try:
            self._writer.rollback()
        except Exception:
            self._reconnect()

    def _reconnect(self) -> None:
        reconnect = getattr(self._writer, "reconnect", None)
        if reconnect is not None:
            reconnect()

    def _write_alone(
        self, chain: Chain, index: int, freed: list[Row], outcomes: list[Outcome | None]
    ) -> None:
        try:
            self._write([chain], [index], freed, outcomes)
        except _Conflict:
            error = ConcurrentWriteError(chain.ref, expected=chain.head.sequence_number)
            outcomes[index] = Outcome(error=error)

    def _leave_out_losers(
        self,
        batch: Sequence[Chain],
        waiting: list[int],
        freed: list[Row],
        outcomes: list[Outcome | None],
    ) -> list[int]:
        """Find out who conflicts, in a new transaction; returns who may go on."""
        self._counted_for = None
        survivors = []
        now = self._clock.now_ms()
        with translated(), self._engine.connect() as connection:
            for index in waiting:
                chain = batch[index]
                head = _read_head(connection, chain.ref)
                duplicate = _find_duplicate(connection, head, chain, now, freed)
                if duplicate is None and _stands_at(head, chain.head) and _keys_differ(chain):
                    survivors.append(index)
                    continue
                error = ConcurrentWriteError(chain.ref, expected=chain.head.sequence_number)
                outcomes[index] = Outcome(error=error, duplicate=duplicate)
        return survivors

    def _count(self, fence: tuple[int, int]) -> None:
        """Learn where the owned slices stand, after each change of what is owned."""
        state = (fence[1], self._ownership.changes())
        if self._counted_for == state:
            return
        self._counters.clear()
        self._counted_for = state

    def counters_of(self, slice_: int) -> tuple[int, int]:
        """The last numbers given in a slice; read from the database when first needed."""
        known = self._counters.get(slice_)
        if known is None:
            with translated(), self._engine.connect() as connection:
                known = self._counters[slice_] = _Counters(
                    _last_in(connection, journal.c.record_id, slice_),
                    _last_in(connection, instance.c.instance_id, slice_),
                )
        return known.slice_seq, known.instance_number

    def slice_of(self, ref: EntityRef) -> int:
        """The slice an instance is in."""
        return slice_of(ref, self._ownership.slices)

    # -- reading ---------------------------------------------------------------------------

    def load(self, ref: EntityRef, *, latest_only: bool = False) -> StoredInstance:
        """Everything needed to recover an instance."""
        with translated(), self._engine.connect() as connection:
            head = _read_head(connection, ref)
            if head is None:
                return StoredInstance(Head(0))
            stored = StoredInstance(head)
            query = _records_of(head.instance_id)
            if latest_only:
                query = query.order_by(journal.c.sequence_number.desc()).limit(1)
            else:
                _load_snapshot(connection, stored)
                query = query.where(
                    journal.c.sequence_number > stored.snapshot_sequence_number
                ).order_by(journal.c.sequence_number)
            stored.records = [_record(ref, row) for row in connection.execute(query)]
            return stored

    def find_receipt(self, ref: EntityRef, key: str) -> Receipt | None:
        """The first use of an idempotency key that has not expired."""
        with translated(), self._engine.connect() as connection:
            head = _read_head(connection, ref)
            if head is None:
                return None
            found = _read_receipt(connection, head.instance_id, key)
            if found is None or found[1].expires_at <= self._clock.now_ms():
                return None
            return found[1]

    def records(self, ref: EntityRef, *, after: int = 0, limit: int = 1000) -> list[StoredRecord]:
        """Records of one instance, in order."""
        with translated(), self._engine.connect() as connection:
            head = _read_head(connection, ref)
            if head is None:
                return []
            query = (
                _records_of(head.instance_id)
                .where(journal.c.sequence_number > after)
                .order_by(journal.c.sequence_number)
                .limit(limit)
            )
            return [_record(ref, row) for row in connection.execute(query)]

    def feed(self, slice_: int, *, after: int = 0, limit: int = 1000) -> list[StoredRecord]:
        """Records of one slice, in order."""
        low = slice_ << SLICE_BITS
        query = (
            select(*_RECORD, instance.c.component, instance.c.instance)
            .join(instance, instance.c.instance_id == journal.c.instance_id)
            .outerjoin(blob, blob.c.record_id == journal.c.record_id)
            .where(journal.c.record_id > low + after, journal.c.record_id <= low + LOW_BITS)
            .order_by(journal.c.record_id)
            .limit(limit)
        )
        with translated(), self._engine.connect() as connection:
            return [_record(EntityRef(row[8], row[9]), row) for row in connection.execute(query)]

    def instances(
        self, component: str, *, after: str | None = None, limit: int = 100
    ) -> list[InstanceSummary]:
        """Instances of a component in the order of their ids."""
        query = select(instance).where(instance.c.component == component)
        if after is not None:
            query = query.where(instance.c.instance > after)
        with translated(), self._engine.connect() as connection:
            rows = connection.execute(query.order_by(instance.c.instance).limit(limit))
            return [
                InstanceSummary(
                    EntityRef(row.component, row.instance),
                    row.kind,
                    row.sequence_number,
                    row.created_at,
                    row.updated_at,
                    row.deleted_at,
                    row.expires_at,
                )
                for row in rows
            ]

    def type_names(self, component: str) -> list[tuple[str, int]]:
        """Every type name and version that is stored for a component."""
        query = (
            select(journal.c.type_name, journal.c.type_version)
            .join(instance, instance.c.instance_id == journal.c.instance_id)
            .where(instance.c.component == component, journal.c.type_name.is_not(None))
            .distinct()
        )
        with translated(), self._engine.connect() as connection:
            return sorted((row[0], row[1]) for row in connection.execute(query))

    def due(self, now: int, *, slices: Sequence[int], limit: int = 1000) -> list[EntityRef]:
        """Instances whose expiry has passed and that are not deleted."""
        query = (
            select(instance.c.component, instance.c.instance)
            .where(
                instance.c.expires_at <= now,
                instance.c.deleted_at.is_(None),
                self._in_slices(instance.c.instance_id, slices),
            )
            .order_by(instance.c.expires_at)
            .limit(limit)
        )
        with translated(), self._engine.connect() as connection:
            return [EntityRef(row[0], row[1]) for row in connection.execute(query)]


class _Plan:
    """Turns chains into rows, giving out the numbers."""

    def __init__(self, owner: SqlJournal, now: int, freed: list[Row]) -> None:
        self._journal = owner
        self._now = now
        self.rows = BatchRows(freed_keys=freed)
        self.counters: dict[int, _Counters] = {}

    def add(self, chain: Chain) -> Head:
        """Add a chain's rows; returns where its instance will stand."""
        slice_ = self._journal.slice_of(chain.ref)
        counters = self.counters.get(slice_)
        if counters is None:
            counters = self.counters[slice_] = _Counters(*self._journal.counters_of(slice_))
        old = chain.head
        is_new = old.instance_id == 0
        if is_new:
            counters.instance_number += 1
        instance_id = old.instance_id or (slice_ << SLICE_BITS) | counters.instance_number
        head = Head(
            instance_id, old.generation, old.sequence_number, old.deleted_at, old.expires_at
        )
        for write in chain.writes:
            self._add_write(write, head, counters, slice_ << SLICE_BITS)
        if is_new:
            self.rows.new_heads.append(
                (
                    instance_id,
                    chain.ref.component,
                    chain.ref.instance,
                    chain.kind,
                    head.generation,
                    head.sequence_number,
                    self._now,
                    self._now,
                    head.deleted_at,
                    head.expires_at,
                )
            )
        else:
            self.rows.moved_heads.append(
                (
                    head.sequence_number,
                    self._now,
                    head.deleted_at,
                    head.expires_at,
                    instance_id,
                    old.sequence_number,
                    head.generation,
                )
            )
        return head

    def _add_write(self, write: CommandWrite, head: Head, counters: _Counters, base: int) -> None:
        receipt = _NO_RECEIPT if write.receipt is None else _receipt_row(write.receipt)
        last = len(write.records) - 1
        for place, record in enumerate(write.records):
            head.sequence_number += 1
            kept = receipt if place == last else _NO_RECEIPT
            self._add_record(record, head, head.sequence_number, kept, counters, base)
            if record.kind is RecordKind.DELETION:
                head.deleted_at = self._now
        if write.receipt is not None and last < 0:
            self._add_record(
                NewRecord(RecordKind.RECEIPT, None), head, None, receipt, counters, base
            )
        head.expires_at = write.expires_at
        if write.snapshot is not None:
            value = write.snapshot
            self.rows.snapshots.append(
                (
                    head.instance_id,
                    head.sequence_number,
                    value.type_name,
                    value.version,
                    value.payload.decode(),
                )
            )

    def _add_record(
        self,
        record: NewRecord,
        head: Head,
        number: int | None,
        receipt: Row,
        counters: _Counters,
        base: int,
    ) -> None:
        counters.slice_seq += 1
        record_id = base | counters.slice_seq
        value = record.value
        name = version = payload = None
        if value is not None:
            name, version, payload = value.type_name, value.version, value.payload.decode()
            if len(value.payload) >= BLOB_BYTES:
                self.rows.blobs.append((record_id, payload))
                payload = None
        metadata = None if record.metadata is None else record.metadata.decode()
        self.rows.records.append(
            (
                record_id,
                head.instance_id,
                number,
                record.kind.value,
                name,
                version,
                payload,
                metadata,
                self._now,
                *receipt,
            )
        )


_NO_RECEIPT: Row = (None,) * 6


def _receipt_row(receipt: Receipt) -> Row:
    return (
        receipt.key,
        receipt.handler,
        receipt.principal,
        receipt.fingerprint,
        receipt.reply.decode(),
        receipt.expires_at,
    )


def _read_head(connection: Any, ref: EntityRef) -> Head | None:
    row = connection.execute(
        select(
            instance.c.instance_id,
            instance.c.generation,
            instance.c.sequence_number,
            instance.c.deleted_at,
            instance.c.expires_at,
        ).where(instance.c.component == ref.component, instance.c.instance == ref.instance)
    ).first()
    return None if row is None else Head(*row)


def _read_receipt(connection: Any, instance_id: int, key: str) -> tuple[int, Receipt] | None:
    row = connection.execute(
        select(
            journal.c.record_id,
            journal.c.handler,
            journal.c.principal,
            journal.c.fingerprint,
            journal.c.reply,
            journal.c.receipt_expires_at,
            journal.c.sequence_number,
        ).where(journal.c.instance_id == instance_id, journal.c.idempotency_key == key)
    ).first()
    if row is None:
        return None
    number = row[6]
    if number is None:
        # A receipt alone: the instance stood where the record before it left it.
        number = (
            connection.execute(
                select(func.max(journal.c.sequence_number)).where(
                    journal.c.instance_id == instance_id, journal.c.record_id < row[0]
                )
            ).scalar()
            or 0
        )
    return row[0], Receipt(key, row[1], row[2], row[3], row[4].encode(), row[5], number)


def _find_duplicate(
    connection: Any, head: Head | None, chain: Chain, now: int, freed: list[Row]
) -> Receipt | None:
    if head is None:
        return None
    for write in chain.writes:
        if write.receipt is None:
            continue
        found = _read_receipt(connection, head.instance_id, write.receipt.key)
        if found is None:
            continue
        if found[1].expires_at > now:
            return found[1]
        freed.append((None, found[0]))
    return None


def _stands_at(stored: Head | None, expected: Head) -> bool:
    if stored is None:
        return expected.instance_id == 0
    return (stored.instance_id, stored.generation, stored.sequence_number) == (
        expected.instance_id,
        expected.generation,
        expected.sequence_number,
    )


def _keys_differ(chain: Chain) -> bool:
    keys = [write.receipt.key for write in chain.writes if write.receipt is not None]
    return len(keys) == len(set(keys))


def _last_in(connection: Any, column: Any, slice_: int) -> int:
    low = slice_ << SLICE_BITS
    query = select(func.max(column)).where(and_(column > low, column <= low + LOW_BITS))
    last: int | None = connection.execute(query).scalar()
    return 0 if last is None else last & LOW_BITS


def _records_of(instance_id: int) -> Any:
    return (
        select(*_RECORD)
        .outerjoin(blob, blob.c.record_id == journal.c.record_id)
        .where(journal.c.instance_id == instance_id, journal.c.sequence_number.is_not(None))
    )


def _load_snapshot(connection: Any, stored: StoredInstance) -> None:
    row = connection.execute(
        select(
            snapshot.c.sequence_number,
            snapshot.c.type_name,
            snapshot.c.type_version,
            snapshot.c.payload,
        ).where(snapshot.c.instance_id == stored.head.instance_id)
    ).first()
    if row is not None:
        stored.snapshot_sequence_number = row[0]
        stored.snapshot = Encoded(row[1], row[2], row[3].encode())


def _record(ref: EntityRef, row: Any) -> StoredRecord:
    record_id, kind, number, written_at, name, version, payload, metadata = row[:8]
    return StoredRecord(
        ref,
        _KINDS[kind],
        record_id >> SLICE_BITS,
        record_id & LOW_BITS,
        number or 0,
        written_at,
        None if name is None else Encoded(name, version, payload.encode()),
        None if metadata is None else metadata.encode(),
    )
