"""Looking back: what an instance has been through, and how it stood at any version."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

from greenroom.clock import to_datetime
from greenroom.components import HistoryEntry, Metadata
from greenroom.errors import InvalidCallError, UnreadableRecordError
from greenroom.ids import MAX_INSTANCE_ID, is_plain_text
from greenroom.persistence import Head, RecordKind, StoredInstance
from greenroom.runtime._metadata import decode_metadata
from greenroom.runtime._recovery import recover

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from greenroom.ids import EntityRef
    from greenroom.persistence import InstanceSummary, Journal, StoredRecord
    from greenroom.runtime._host import EntityHost

E = TypeVar("E")

_PAGE = 1000
MAX_LIMIT = 100_000
"""Instances or records in one answer; more come page by page."""
MAX_SEQUENCE_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StoredEvent(Generic[E]):
    """An event (or, of a key value entity, a state) with its place in the instance's life."""

    sequence_number: int
    type_name: str
    value: E | None
    """None for a deletion."""
    timestamp: datetime
    metadata: Metadata


def instances(
    journal: Journal, component: str, after: str | None, limit: int
) -> list[InstanceSummary]:
    """Instances of a component in the order of their ids. Blocks on the database.

    Raises:
        InvalidCallError: What is to be read can't be asked for.
    """
    if after and not is_plain_text(after, MAX_INSTANCE_ID):
        raise InvalidCallError(
            f"after must be an instance id, which has 1 to {MAX_INSTANCE_ID} characters and no "
            f"control characters, or None for the first page, not {after!r:.80}."
        )
    _check_number("limit", limit, 1, MAX_LIMIT)
    return journal.instances(component, after=after, limit=limit)


def _check_number(name: str, number: object, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        raise InvalidCallError(
            f"{name} must be a whole number from {least} to {most:,}, not {number!r:.80}."
        )


def _check_page(after: object, limit: object) -> None:
    _check_number("after", after, 0, MAX_SEQUENCE_NUMBER)
    _check_number("limit", limit, 1, MAX_LIMIT)


def events(host: EntityHost, ref: EntityRef, after: int, limit: int) -> list[StoredEvent[Any]]:
    """Records of an instance after a sequence number, decoded. Blocks on the database.

    Raises:
        InvalidCallError: What is to be read can't be asked for.
    """
    _check_page(after, limit)
    return [
        _decoded(host, record) for record in host.journal.records(ref, after=after, limit=limit)
    ]


def _decoded(host: EntityHost, record: StoredRecord) -> StoredEvent[Any]:
    value = None
    if record.value is not None:
        try:
            value = host.codec.decode(record.value)
        except UnreadableRecordError as error:
            raise UnreadableRecordError(
                f"{record.ref}: record {record.sequence_number} can't be read: {error}"
            ) from error
    return StoredEvent(
        record.sequence_number,
        record.kind.value if record.value is None else record.value.type_name,
        value,
        to_datetime(record.timestamp),
        decode_metadata(record.metadata),
    )


def history(host: EntityHost, ref: EntityRef, after: int, limit: int) -> list[HistoryEntry]:
    """What a workflow has been through. Blocks on the database.

    Raises:
        InvalidCallError: What is to be read can't be asked for.
    """
    _check_page(after, limit)
    return [_entry(one) for one in host.journal.records(ref, after=after, limit=limit)]


def _entry(record: StoredRecord) -> HistoryEntry:
    cause: dict[str, Any] = {}
    if record.metadata is not None:
        cause = orjson.loads(record.metadata).get("cause", {})
    started, took = cause.get("started"), cause.get("took")
    return HistoryEntry(
        sequence_number=record.sequence_number,
        timestamp=to_datetime(record.timestamp),
        cause=cause.get("by", record.kind.value),
        name=cause.get("name", ""),
        status=cause.get("status", ""),
        steps=tuple(cause.get("steps", ())),
        attempt=cause.get("attempt"),
        started_at=None if started is None else to_datetime(started),
        duration=None if took is None else timedelta(milliseconds=took),
        error=cause.get("error"),
        reason=cause.get("suspended") or cause.get("reason"),
    )


def state_at(host: EntityHost, ref: EntityRef, sequence_number: int | None) -> Any:
    """The durable state of an instance after a record. Blocks on the database.

    Raises:
        InvalidCallError: The number can't be one, or the instance has not come so far.
    """
    if sequence_number is None:
        return host.recover(ref).session.state
    _check_number("sequence_number", sequence_number, 0, MAX_SEQUENCE_NUMBER)
    records = list(_up_to(host, ref, sequence_number))
    if sequence_number and (not records or records[-1].sequence_number < sequence_number):
        last = records[-1].sequence_number if records else 0
        raise InvalidCallError(f"{ref} is at {last}; it has no record {sequence_number}.")
    stored = StoredInstance(Head(0, sequence_number=sequence_number), records=records)
    recovered = recover(host.definition, host.codec, host.dependencies, ref, stored)
    deleted = bool(records) and records[-1].kind is RecordKind.DELETION
    if deleted and not host.event_sourced:
        return host.definition.empty_state_of(recovered.entity)
    return recovered.session.state


def _up_to(host: EntityHost, ref: EntityRef, last: int) -> Iterator[StoredRecord]:
    after = 0
    while page := host.journal.records(ref, after=after, limit=_PAGE):
        for record in page:
            if record.sequence_number > last:
                return
            yield record
        after = page[-1].sequence_number
