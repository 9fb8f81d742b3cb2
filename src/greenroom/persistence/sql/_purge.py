"""What is removed in time: deleted instances, old keys, replaced states.

Each purge is a transaction under the owner's epoch, like a batch: an owner that was frozen in
the middle must not remove what the next one has written since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, delete, func, null, select, update

from greenroom.errors import NotOwnerError
from greenroom.ids import EntityRef
from greenroom.persistence.records import RecordKind
from greenroom.persistence.sql._dialect import RECEIPT_COLUMNS
from greenroom.persistence.sql._engine import immediately
from greenroom.persistence.sql._slices import in_slices, parts, remember_numbers
from greenroom.persistence.sql._translate import translated
from greenroom.persistence.tables import (
    LOW_BITS,
    SLICE_BITS,
    blob,
    instance,
    journal,
    owner,
    snapshot,
)

if TYPE_CHECKING:
    from greenroom.persistence.sql._ownership import SqlOwnership

PAGES_LOOKED_AT = 10
"""Pages of records that one call looks through for something to remove."""

_RECEIPT = RecordKind.RECEIPT.value
_WHOLE = (RecordKind.STATE.value, RecordKind.TRANSITION.value, RecordKind.TIMER.value)
"""Records that hold all there is to know, so that those before them can go."""
_REPLACEABLE = (*_WHOLE, RecordKind.PROGRESS.value)


class Purges:
    """The part of the journal that forgets."""

    def __init__(self, engine: Engine, ownership: SqlOwnership) -> None:
        self._engine = engine
        self._ownership = ownership
        self._looked_at: dict[tuple[str | None, int], int] = {}

    def purge_deleted(
        self, before: int, *, slices: Sequence[int], limit: int = 100
    ) -> list[EntityRef]:
        """Remove records and snapshots of instances deleted before a time; returns them."""
        with self._fenced(slices) as (connection, owned):
            chosen = (
                select(instance.c.instance_id, instance.c.component, instance.c.instance)
                .where(instance.c.deleted_at < before, in_slices(instance.c.instance_id, owned))
                .order_by(instance.c.deleted_at)
                .limit(limit)
                .with_for_update()
            )
            rows = connection.execute(chosen).all()
            if rows:
                _purge_instances(connection, [row[0] for row in rows])
        return [EntityRef(row[1], row[2]) for row in rows]

    def purge_receipts(self, before: int, *, slices: Sequence[int], limit: int = 1000) -> int:
        """Forget idempotency keys that expired before a time; returns how many."""
        with self._fenced(slices) as (connection, owned):
            old = (
                select(journal.c.record_id, journal.c.kind)
                .where(
                    journal.c.idempotency_key.is_not(None),
                    journal.c.receipt_expires_at < before,
                    in_slices(journal.c.record_id, owned),
                )
                .order_by(journal.c.receipt_expires_at)
                .limit(limit)
            )
            rows = connection.execute(old).all()
            alone = [row[0] for row in rows if row[1] == _RECEIPT]
            others = [row[0] for row in rows if row[1] != _RECEIPT]
            if alone:
                remember_numbers(connection, alone)
                connection.execute(delete(journal).where(journal.c.record_id.in_(alone)))
            if others:
                connection.execute(
                    update(journal)
                    .where(journal.c.record_id.in_(others))
                    .values(dict.fromkeys(RECEIPT_COLUMNS, null()))
                )
        return len(rows)

    def purge_states(
        self,
        before: int,
        *,
        slices: Sequence[int],
        component: str | None = None,
        others_than: Sequence[str] = (),
        limit: int = 1000,
    ) -> int:
        """Remove states and transitions that were replaced before a time; returns how many.

        Goes through the records once, in the order they were written, and removes what came
        before each state. Looking for replaced states instead would look at every instance's
        only state again and again.
        """
        removed = 0
        looked_at: dict[tuple[str | None, int], int] = {}
        chosen: Any = instance.c.component.not_in(others_than)
        if component is not None:
            chosen = instance.c.component == component
        with self._fenced(slices) as (connection, owned):
            for slice_ in owned:
                after = self._looked_at.get((component, slice_), 0)
                for _ in range(PAGES_LOOKED_AT):
                    page = _next_page(connection, slice_, after, before, limit)
                    if page is None or removed >= limit:
                        break
                    removed += _remove_replaced(connection, *page, before, chosen)
                    after = looked_at[component, slice_] = page[1]
        self._looked_at.update(looked_at)
        return removed

    @contextmanager
    def _fenced(self, slices: Sequence[int]) -> Iterator[tuple[Connection, list[int]]]:
        """A transaction during which nobody takes over, and the slices that are owned in it."""
        me, epoch = self._ownership.fence()
        owned = sorted(self._ownership.owned().intersection(slices))
        held = (
            select(owner.c.owner_id)
            .where(owner.c.owner_id == me, owner.c.epoch == epoch)
            .with_for_update(read=True)
        )
        with translated(self._engine), immediately(self._engine) as connection:
            if connection.execute(held).first() is None:
                raise NotOwnerError("Another owner took over from this process.")
            yield connection, owned


def _purge_instances(connection: Connection, instance_ids: list[int]) -> None:
    theirs = journal.c.instance_id.in_(instance_ids)
    last = select(func.max(journal.c.record_id)).where(theirs).group_by(journal.c.instance_id)
    remember_numbers(connection, connection.execute(last).scalars())
    ids = select(journal.c.record_id).where(theirs)
    connection.execute(delete(blob).where(blob.c.record_id.in_(ids)))
    connection.execute(delete(snapshot).where(snapshot.c.instance_id.in_(instance_ids)))
    connection.execute(delete(journal).where(theirs, journal.c.idempotency_key.is_(None)))
    # A key that is still remembered outlives what its command wrote, and knows its number.
    connection.execute(
        update(journal)
        .where(theirs)
        .values(
            kind=_RECEIPT,
            type_name=None,
            type_version=None,
            payload=None,
            metadata=None,
        )
    )
    connection.execute(
        update(instance)
        .where(instance.c.instance_id.in_(instance_ids))
        .values(generation=instance.c.generation + 1, deleted_at=None, expires_at=None, step=None)
    )


def _next_page(
    connection: Connection, slice_: int, after: int, before: int, limit: int
) -> tuple[int, int] | None:
    """The next records of a slice that are old enough, as a range of their ids."""
    low = slice_ << SLICE_BITS
    start = max(low, after)
    page = (
        select(journal.c.record_id, journal.c.written_at)
        .where(journal.c.record_id > start, journal.c.record_id <= low + LOW_BITS)
        .order_by(journal.c.record_id)
        .limit(limit)
    )
    end = start
    for record_id, written_at in connection.execute(page):
        if written_at >= before:
            break
        end = record_id
    return None if end == start else (start, end)


def _remove_replaced(connection: Connection, start: int, end: int, before: int, chosen: Any) -> int:
    """Remove what came before the states of a range, of the components that are chosen."""
    newest = (
        select(journal.c.instance_id, func.max(journal.c.sequence_number).label("number"))
        .join(instance, instance.c.instance_id == journal.c.instance_id)
        .where(
            journal.c.record_id > start,
            journal.c.record_id <= end,
            journal.c.kind.in_(_WHOLE),
            chosen,
        )
        .group_by(journal.c.instance_id)
        .subquery()
    )
    replaced = (
        select(journal.c.record_id)
        .join(newest, newest.c.instance_id == journal.c.instance_id)
        .where(
            journal.c.sequence_number < newest.c.number,
            journal.c.kind.in_(_REPLACEABLE),
            journal.c.written_at < before,
            journal.c.idempotency_key.is_(None),
        )
    )
    ids = list(connection.execute(replaced).scalars())
    # There may be any number of them: those whose keys have expired since they were replaced.
    for part in parts(ids):
        connection.execute(delete(blob).where(blob.c.record_id.in_(part)))
        connection.execute(delete(journal).where(journal.c.record_id.in_(part)))
    return len(ids)
