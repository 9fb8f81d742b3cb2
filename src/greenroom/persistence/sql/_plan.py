"""Turns the chains of a batch into rows, giving out their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.persistence.records import Head, NewRecord, RecordKind
from greenroom.persistence.sql._dialect import BatchRows, Row
from greenroom.persistence.tables import SLICE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.persistence.records import Chain, CommandWrite, Encoded, Receipt

BLOB_BYTES = 64 * 1024
"""Payloads from this size on stand in a table of their own, out of the way of readers."""

Counters = list[int]
"""The last slice_seq and the last instance number given in a slice."""
_SEQ, _INSTANCE = 0, 1

_NO_RECEIPT: Row = (None,) * 6
_NOTHING = NewRecord(RecordKind.RECEIPT, None)


class Plan:
    """The rows of one batch. Its numbers count only once they were committed."""

    def __init__(
        self, counters_of: Callable[[int], Counters], now: int, expired: list[Row]
    ) -> None:
        self._counters_of = counters_of
        self._now = now
        self.rows = BatchRows(expired=expired)
        self.counters: dict[int, Counters] = {}

    def add(self, chain: Chain, slice_: int) -> Head:
        """Add a chain's rows; returns where its instance will stand."""
        counters = self.counters.get(slice_)
        if counters is None:
            counters = self.counters[slice_] = self._counters_of(slice_).copy()
        old, now = chain.head, self._now
        instance_id = old.instance_id
        if not instance_id:
            counters[_INSTANCE] += 1
            instance_id = slice_ << SLICE_BITS | counters[_INSTANCE]
        head = Head(
            instance_id, old.generation, old.sequence_number, old.deleted_at, old.expires_at
        )
        for write in chain.writes:
            self._add_write(write, head, counters, slice_ << SLICE_BITS)
        number, generation, deleted = head.sequence_number, head.generation, head.deleted_at
        if old.instance_id:
            moved = (number, now, deleted, head.expires_at, head.step)
            self.rows.moved_heads.append((*moved, instance_id, old.sequence_number, generation))
        else:
            ref = chain.ref
            new = (instance_id, ref.component, ref.instance, chain.kind, generation, number)
            self.rows.new_heads.append((*new, now, now, deleted, head.expires_at, head.step))
        return head

    def _add_write(self, write: CommandWrite, head: Head, counters: Counters, base: int) -> None:
        receipt = _NO_RECEIPT if write.receipt is None else _receipt_row(write.receipt)
        # The receipt stands in the command's last record, or in a row of its own without one.
        records = write.records
        last = len(records) - 1
        for place, record in enumerate(records):
            head.sequence_number += 1
            if record.kind is RecordKind.DELETION:
                head.deleted_at = self._now
            elif record.kind is RecordKind.TIMER:
                head.deleted_at = None
            counters[_SEQ] += 1
            self._add_record(
                record,
                base | counters[_SEQ],
                head.instance_id,
                head.sequence_number,
                receipt if place == last else _NO_RECEIPT,
            )
        if last < 0 and write.receipt is not None:
            counters[_SEQ] += 1
            self._add_record(_NOTHING, base | counters[_SEQ], head.instance_id, None, receipt)
        head.expires_at = write.expires_at
        head.step = write.step
        if write.snapshot is not None:
            self._add_snapshot(write.snapshot, head)

    def _add_record(
        self, record: NewRecord, record_id: int, instance_id: int, number: int | None, receipt: Row
    ) -> None:
        value, metadata = record.value, record.metadata
        name = version = payload = None
        if value is not None:
            name, version, payload = value.type_name, value.version, value.payload.decode()
            if len(value.payload) >= BLOB_BYTES:
                self.rows.blobs.append((record_id, payload))
                payload = None
        if metadata is not None:
            metadata = metadata.decode()  # type: ignore[assignment]
        self.rows.records.append(
            (
                record_id,
                instance_id,
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

    def _add_snapshot(self, value: Encoded, head: Head) -> None:
        where = (head.instance_id, head.sequence_number)
        row = (*where, value.type_name, value.version, value.payload.decode())
        snapshots = self.rows.snapshots
        if snapshots and snapshots[-1][0] == head.instance_id:
            # Only the newest of one chain counts.
            snapshots.pop()
        snapshots.append(row)


def _receipt_row(receipt: Receipt) -> Row:
    return (
        receipt.key,
        receipt.handler,
        receipt.principal,
        receipt.fingerprint,
        receipt.reply.decode(),
        receipt.expires_at,
    )
