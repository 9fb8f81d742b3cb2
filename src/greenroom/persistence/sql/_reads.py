"""The part of the journal that is read: recovery, listings, the feed of a slice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, and_, bindparam, func, select, tuple_

from greenroom.clock import to_datetime
from greenroom.ids import EntityRef
from greenroom.persistence.records import (
    DueInstance,
    Encoded,
    Head,
    InstanceSummary,
    Receipt,
    RecordKind,
    StepCount,
    StoredInstance,
    StoredRecord,
)
from greenroom.persistence.sql._engine import for_reading
from greenroom.persistence.sql._slices import in_slices
from greenroom.persistence.sql._translate import translated
from greenroom.persistence.tables import LOW_BITS, SLICE_BITS, blob, instance, journal, snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from greenroom.clock import Clock

_KINDS = {str(kind): kind for kind in RecordKind}

# Statements are made once: SQLAlchemy then knows their compiled form by the object.
_this_instance = (
    instance.c.component == bindparam("component"),
    instance.c.instance == bindparam("instance"),
)
_record_columns = (
    journal.c.record_id,
    journal.c.kind,
    journal.c.sequence_number,
    journal.c.written_at,
    journal.c.type_name,
    journal.c.type_version,
    func.coalesce(journal.c.payload, blob.c.payload),
    journal.c.metadata,
)
_HEAD = select(
    instance.c.instance_id,
    instance.c.generation,
    instance.c.sequence_number,
    instance.c.deleted_at,
    instance.c.expires_at,
    instance.c.step,
).where(*_this_instance)
_HEAD_AND_SNAPSHOT = _HEAD.add_columns(
    snapshot.c.sequence_number, snapshot.c.type_name, snapshot.c.type_version, snapshot.c.payload
).outerjoin_from(instance, snapshot, snapshot.c.instance_id == instance.c.instance_id)
_RECORDS = (
    select(*_record_columns)
    .outerjoin_from(journal, blob, blob.c.record_id == journal.c.record_id)
    .where(
        journal.c.instance_id == bindparam("instance_id"),
        journal.c.sequence_number > bindparam("after"),
        # What is left of a purged life: its keys.
        journal.c.kind != RecordKind.RECEIPT.value,
    )
)
_RECORDS_IN_ORDER = _RECORDS.order_by(journal.c.sequence_number)
_PAGE_OF_RECORDS = _RECORDS_IN_ORDER.limit(bindparam("limit"))
_LATEST_RECORD = _RECORDS.order_by(journal.c.sequence_number.desc()).limit(1)
_LATEST_TRANSITION = (
    select(journal.c.sequence_number)
    .where(
        journal.c.instance_id == bindparam("instance_id"),
        journal.c.kind == RecordKind.TRANSITION.value,
    )
    .order_by(journal.c.sequence_number.desc())
    .limit(1)
)
_FEED = (
    select(*_record_columns, instance.c.component, instance.c.instance)
    .join_from(journal, instance, instance.c.instance_id == journal.c.instance_id)
    .outerjoin(blob, blob.c.record_id == journal.c.record_id)
    .where(journal.c.record_id > bindparam("after"), journal.c.record_id <= bindparam("last"))
    .order_by(journal.c.record_id)
    .limit(bindparam("limit"))
)
_RECEIPT = (
    select(
        journal.c.record_id,
        journal.c.instance_id,
        journal.c.idempotency_key,
        journal.c.handler,
        journal.c.principal,
        journal.c.fingerprint,
        journal.c.reply,
        journal.c.receipt_expires_at,
        journal.c.sequence_number,
    )
    .join(instance, instance.c.instance_id == journal.c.instance_id)
    .where(*_this_instance, journal.c.idempotency_key == bindparam("key"))
)


class Reads:
    """Reads from any thread, each in a transaction that sees the database at one moment."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._reading = for_reading(engine)
        self._clock = clock

    def load(self, ref: EntityRef, *, latest_only: bool = False) -> StoredInstance:
        """Everything needed to recover an instance."""
        with translated(self._engine), self._reading.connect() as connection:
            row = connection.execute(_HEAD_AND_SNAPSHOT, _named(ref)).first()
            if row is None:
                return StoredInstance(Head(0))
            stored = StoredInstance(Head(*row[:6]))
            if row[6] is not None and not latest_only:
                stored.snapshot_sequence_number = row[6]
                stored.snapshot = Encoded(row[7], row[8], row[9].encode())
            asked = {"instance_id": row[0], "after": stored.snapshot_sequence_number}
            found = connection.execute(_LATEST_RECORD if latest_only else _RECORDS_IN_ORDER, asked)
            rows = found.all()
            if latest_only and rows and rows[0].kind == RecordKind.PROGRESS.value:
                # It rests on the transition before it, and on what came in between.
                base = connection.execute(_LATEST_TRANSITION, asked).scalar() or 1
                rows = connection.execute(_RECORDS_IN_ORDER, {**asked, "after": base - 1}).all()
            stored.records = [_record(ref, row) for row in rows]
            return stored

    def find_receipt(self, ref: EntityRef, key: str) -> Receipt | None:
        """The first use of an idempotency key that has not expired."""
        with translated(self._engine), self._reading.connect() as connection:
            row = connection.execute(_RECEIPT, {**_named(ref), "key": key}).first()
            if row is None or row.receipt_expires_at <= self._clock.now_ms():
                return None
            return receipt_of(connection, row)

    def records(self, ref: EntityRef, *, after: int = 0, limit: int = 1000) -> list[StoredRecord]:
        """Records of one instance, in order."""
        with translated(self._engine), self._reading.connect() as connection:
            head = connection.execute(_HEAD, _named(ref)).first()
            if head is None:
                return []
            asked = {"instance_id": head[0], "after": after, "limit": limit}
            return [_record(ref, row) for row in connection.execute(_PAGE_OF_RECORDS, asked)]

    def feed(self, slice_: int, *, after: int = 0, limit: int = 1000) -> list[StoredRecord]:
        """Records of one slice, in order."""
        low = slice_ << SLICE_BITS
        asked = {"after": low + after, "last": low + LOW_BITS, "limit": limit}
        with translated(self._engine), self._reading.connect() as connection:
            rows = connection.execute(_FEED, asked)
            return [_record(EntityRef(row[8], row[9]), row) for row in rows]

    def instances(
        self, component: str, *, after: str | None = None, limit: int = 100
    ) -> list[InstanceSummary]:
        """Instances of a component in the order of their ids."""
        query = select(instance).where(instance.c.component == component)
        if after is not None:
            query = query.where(instance.c.instance > after)
        with translated(self._engine), self._reading.connect() as connection:
            rows = connection.execute(query.order_by(instance.c.instance).limit(limit))
            return [
                InstanceSummary(
                    EntityRef(row.component, row.instance),
                    row.kind,
                    row.sequence_number,
                    to_datetime(row.created_at),
                    to_datetime(row.updated_at),
                    _time(row.deleted_at),
                    _time(row.expires_at),
                    row.step,
                )
                for row in rows
            ]

    def latest(
        self,
        component: str,
        *,
        after: str | None = None,
        containing: str | None = None,
        due_before: int | None = None,
        steps: Sequence[str] = (),
        limit: int = 100,
    ) -> list[StoredRecord]:
        """The last record of each instance that is not deleted, in the order of their ids."""
        query = (
            select(*_record_columns, instance.c.instance)
            .join_from(
                instance,
                journal,
                and_(
                    journal.c.instance_id == instance.c.instance_id,
                    journal.c.sequence_number == instance.c.sequence_number,
                ),
            )
            .outerjoin(blob, blob.c.record_id == journal.c.record_id)
            .where(instance.c.component == component, instance.c.deleted_at.is_(None))
            .where(journal.c.kind != RecordKind.RECEIPT.value)
        )
        if after is not None:
            query = query.where(instance.c.instance > after)
        if containing is not None:
            # Both databases know only the case of ASCII here, so the text is treated alike.
            text = "".join(one.lower() if one.isascii() else one for one in containing)
            name = func.lower(instance.c.instance)
            query = query.where(name.contains(text, autoescape=True))
        if due_before is not None:
            query = query.where(instance.c.expires_at <= due_before)
        if steps:
            query = query.where(instance.c.step.in_(steps))
        with translated(self._engine), self._reading.connect() as connection:
            rows = connection.execute(query.order_by(instance.c.instance).limit(limit))
            return [_record(EntityRef(component, row[8]), row) for row in rows]

    def type_names(self, component: str) -> list[tuple[str, int]]:
        """Every type name and version that is stored for a component."""
        of_component = instance.c.component == component
        queries = [
            select(table.c.type_name, table.c.type_version)
            .join(instance, instance.c.instance_id == table.c.instance_id)
            .where(of_component, table.c.type_name.is_not(None))
            .distinct()
            for table in (journal, snapshot)
        ]
        with translated(self._engine), self._reading.connect() as connection:
            found = {(row[0], row[1]) for query in queries for row in connection.execute(query)}
        return sorted(found)

    def due(
        self,
        before: int,
        *,
        slices: Sequence[int],
        after: DueInstance | None = None,
        limit: int = 1000,
    ) -> list[DueInstance]:
        """Instances that are due before a time, or at it, the earliest first."""
        order = (instance.c.expires_at, instance.c.component, instance.c.instance)
        query = (
            select(instance.c.component, instance.c.instance, instance.c.expires_at)
            .where(
                instance.c.expires_at <= before,
                instance.c.deleted_at.is_(None),
                in_slices(instance.c.instance_id, slices),
            )
            .order_by(*order)
            .limit(limit)
        )
        if after is not None:
            place = (after.at, after.ref.component, after.ref.instance)
            query = query.where(tuple_(*order) > place)
        with translated(self._engine), self._reading.connect() as connection:
            rows = connection.execute(query)
            return [DueInstance(EntityRef(row[0], row[1]), row[2]) for row in rows]

    def unfinished(
        self, *, slices: Sequence[int], after: int = 0, limit: int = 1000
    ) -> list[tuple[int, EntityRef]]:
        """Workflows in the middle of a step, in the order of their numbers."""
        query = (
            select(instance.c.instance_id, instance.c.component, instance.c.instance)
            .where(
                instance.c.step.is_not(None),
                # Timers have a `step` to be listed by, and are woken when they are due.
                instance.c.kind == "workflow",
                instance.c.deleted_at.is_(None),
                instance.c.instance_id > after,
                in_slices(instance.c.instance_id, slices),
            )
            .order_by(instance.c.instance_id)
            .limit(limit)
        )
        with translated(self._engine), self._reading.connect() as connection:
            rows = connection.execute(query)
            return [(row[0], EntityRef(row[1], row[2])) for row in rows]

    def steps(self, component: str) -> list[StepCount]:
        """The steps that instances of a workflow are in the middle of."""
        query = (
            select(instance.c.step, func.count(), func.min(instance.c.instance))
            .where(
                instance.c.step.is_not(None),
                instance.c.deleted_at.is_(None),
                instance.c.component == component,
            )
            .group_by(instance.c.step)
            .order_by(instance.c.step)
        )
        with translated(self._engine), self._reading.connect() as connection:
            return [StepCount(*row) for row in connection.execute(query)]


def receipt_of(connection: Any, row: Any) -> Receipt:
    """A receipt from its columns, with the number its instance stood at after the command."""
    number = row.sequence_number
    if number is None:
        number = _number_beside(connection, row)
    return Receipt(
        row.idempotency_key,
        row.handler,
        row.principal,
        row.fingerprint,
        row.reply.encode(),
        row.receipt_expires_at,
        number,
    )


def _number_beside(connection: Any, row: Any) -> int:
    """Where an instance stood when a receipt that has no record was written.

    Where the record before it left it; that one may be gone, and then one before the record
    after it. With nothing after it the instance still stands there.
    """
    theirs = journal.c.instance_id == row.instance_id
    number = journal.c.sequence_number
    before = select(func.max(number)).where(theirs, journal.c.record_id < row.record_id)
    after = select(func.min(number) - 1).where(theirs, journal.c.record_id > row.record_id)
    now = select(instance.c.sequence_number).where(instance.c.instance_id == row.instance_id)
    found = select(
        func.coalesce(before.scalar_subquery(), after.scalar_subquery(), now.scalar_subquery())
    )
    return int(connection.execute(found).scalar_one())


def _named(ref: EntityRef) -> dict[str, Any]:
    return {"component": ref.component, "instance": ref.instance}


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


def _time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else to_datetime(milliseconds)
