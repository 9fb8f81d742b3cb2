"""What is removed in time: deleted instances, old keys, replaced states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, and_, delete, exists, false, or_, select, true, update

from greenroom.ids import EntityRef
from greenroom.persistence.records import RecordKind
from greenroom.persistence.sql._translate import translated
from greenroom.persistence.tables import LOW_BITS, SLICE_BITS, blob, instance, journal, snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_KEY: dict[str, Any] = {
    "idempotency_key": None,
    "handler": None,
    "principal": None,
    "fingerprint": None,
    "reply": None,
    "receipt_expires_at": None,
}


class Purges:
    """The part of the journal that forgets. Nothing here runs while a batch is written."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def purge_deleted(
        self, before: int, *, slices: Sequence[int], limit: int = 100
    ) -> list[EntityRef]:
        """Remove records and snapshots of instances deleted before a time; returns them."""
        query = (
            select(instance.c.instance_id, instance.c.component, instance.c.instance)
            .where(
                instance.c.deleted_at < before,
                self._in_slices(instance.c.instance_id, slices),
            )
            .limit(limit)
        )
        with translated(), self._engine.begin() as connection:
            rows = connection.execute(query).all()
            for row in rows:
                self._purge_instance(connection, row[0])
        return [EntityRef(row[1], row[2]) for row in rows]

    def _purge_instance(self, connection: Any, instance_id: int) -> None:
        mine = journal.c.instance_id == instance_id
        ids = select(journal.c.record_id).where(mine)
        connection.execute(delete(blob).where(blob.c.record_id.in_(ids)))
        connection.execute(delete(snapshot).where(snapshot.c.instance_id == instance_id))
        # A key that is still remembered outlives what its command wrote.
        connection.execute(
            update(journal)
            .where(mine, journal.c.idempotency_key.is_not(None))
            .values(
                kind=RecordKind.RECEIPT.value,
                sequence_number=None,
                type_name=None,
                type_version=None,
                payload=None,
                metadata=None,
            )
        )
        connection.execute(delete(journal).where(mine, journal.c.idempotency_key.is_(None)))
        connection.execute(
            update(instance)
            .where(instance.c.instance_id == instance_id)
            .values(
                generation=instance.c.generation + 1,
                deleted_at=None,
                expires_at=None,
            )
        )

    def purge_receipts(self, before: int, *, slices: Sequence[int], limit: int = 1000) -> int:
        """Forget idempotency keys that expired before a time; returns how many."""
        old = (
            select(journal.c.record_id)
            .where(
                journal.c.idempotency_key.is_not(None),
                journal.c.receipt_expires_at < before,
                self._in_slices(journal.c.record_id, slices),
            )
            .limit(limit)
        )
        with translated(), self._engine.begin() as connection:
            ids = list(connection.execute(old).scalars())
            if ids:
                chosen = journal.c.record_id.in_(ids)
                alone = journal.c.kind == RecordKind.RECEIPT.value
                connection.execute(delete(journal).where(chosen, alone))
                connection.execute(update(journal).where(chosen).values(**_NO_KEY))
        return len(ids)

    def purge_states(self, before: int, *, slices: Sequence[int], limit: int = 1000) -> int:
        """Remove states written before a time and since replaced; returns how many."""
        newer = journal.alias("newer")
        old = (
            select(journal.c.record_id)
            .where(
                journal.c.kind == RecordKind.STATE.value,
                journal.c.written_at < before,
                journal.c.idempotency_key.is_(None),
                self._in_slices(journal.c.record_id, slices),
                exists().where(
                    newer.c.instance_id == journal.c.instance_id,
                    newer.c.sequence_number > journal.c.sequence_number,
                ),
            )
            .limit(limit)
        )
        with translated(), self._engine.begin() as connection:
            ids = list(connection.execute(old).scalars())
            if ids:
                connection.execute(delete(blob).where(blob.c.record_id.in_(ids)))
                connection.execute(delete(journal).where(journal.c.record_id.in_(ids)))
        return len(ids)

    def _in_slices(self, column: Any, slices: Sequence[int]) -> Any:
        """Whether a key is in one of the slices: neighbours are joined to one range."""
        ranges: list[list[int]] = []
        for slice_ in sorted(slices):
            if ranges and ranges[-1][1] == slice_:
                ranges[-1][1] = slice_ + 1
            else:
                ranges.append([slice_, slice_ + 1])
        conditions = [
            and_(column > low << SLICE_BITS, column <= ((high - 1) << SLICE_BITS) + LOW_BITS)
            for low, high in ranges
        ]
        return or_(*conditions) if conditions else and_(true(), false())
