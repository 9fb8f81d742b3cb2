"""What crosses the boundary between the runtime and a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from greenroom.errors import PersistenceError
    from greenroom.ids import EntityRef


class RecordKind(StrEnum):
    """What a row of the journal is."""

    EVENT = "event"
    """Something that happened to an event sourced entity; takes a sequence number."""
    STATE = "state"
    """The whole state of a key value entity; takes a sequence number."""
    DELETION = "deletion"
    """The instance was deleted; takes a sequence number and has no payload."""
    TRANSITION = "transition"
    """The whole state of a workflow, with where it goes; takes a sequence number."""
    PROGRESS = "progress"
    """Something on the way to a workflow's next transition: an attempt that failed, the result
    of a branch; takes a sequence number."""
    TIMER = "timer"
    """A timer, whole; takes a sequence number. It brings a deleted one back: a name that has
    fired, or was cancelled, may be used again at once."""
    RECEIPT = "receipt"
    """Keeps the reply of a command that wrote nothing else; takes no sequence number."""


@dataclass(slots=True)
class Encoded:
    """A value as it is stored: JSON under a permanent type name and a version."""

    type_name: str
    version: int
    payload: bytes


@dataclass(slots=True)
class NewRecord:
    """One row to append for an instance. Its numbers are given by the journal."""

    kind: RecordKind
    value: Encoded | None
    metadata: bytes | None = None
    """JSON object of the metadata given by the application and by the call, or None."""


@dataclass(slots=True)
class Receipt:
    """That a command with this key was carried out, and what it answered."""

    key: str
    handler: str
    principal: str | None
    fingerprint: str
    reply: bytes
    """The encoded reply."""
    expires_at: int
    """Milliseconds since 1970; after that the key may be used again."""
    sequence_number: int = 0
    """The instance's sequence number after the command; set by the journal when read back."""


@dataclass(slots=True)
class CommandWrite:
    """All that one command writes; it is written whole or not at all."""

    records: Sequence[NewRecord]
    receipt: Receipt | None = None
    snapshot: Encoded | None = None
    """The state after the last record of this command."""
    expires_at: int | None = None
    """When the instance is due for something: an entity deletes itself, a workflow goes on. In
    milliseconds since 1970; None is never."""
    step: str | None = None
    """What a workflow is in the middle of, its steps joined by commas; None when nothing has to
    be taken up again after a crash."""


@dataclass(slots=True)
class Head:
    """Where an instance stands: one row per instance."""

    instance_id: int
    """The number an instance is stored under; 0 before its first write."""
    generation: int = 1
    """Counts the lives of an id: a purged id starts empty in the next generation."""
    sequence_number: int = 0
    """The number of the last record; goes on counting in the next generation."""
    deleted_at: int | None = None
    expires_at: int | None = None
    step: str | None = None


@dataclass(slots=True)
class Chain:
    """What one instance writes in one batch: its commands in order, all or none."""

    ref: EntityRef
    kind: str
    """The kind of component: `event-sourced-entity`, `key-value-entity`, …"""
    head: Head
    """Where the writer believes the instance stands; the journal checks it."""
    writes: Sequence[CommandWrite]


@dataclass(slots=True)
class Outcome:
    """What became of one chain."""

    head: Head | None = None
    """Where the instance stands now, when the chain was written."""
    error: PersistenceError | None = None
    """Why this chain alone was left out while the others went in."""
    duplicates: tuple[Receipt, ...] = ()
    """Beside the error: the first uses of those keys of the chain that had been used before."""


@dataclass(slots=True)
class StoredRecord:
    """A row of the journal, as it is read."""

    ref: EntityRef
    kind: RecordKind
    slice: int
    slice_seq: int
    sequence_number: int
    timestamp: int
    """When it was written, in milliseconds since 1970."""
    value: Encoded | None
    metadata: bytes | None = None


@dataclass(slots=True)
class StoredInstance:
    """All that is needed to recover one instance."""

    head: Head
    snapshot: Encoded | None = None
    snapshot_sequence_number: int = 0
    records: list[StoredRecord] = field(default_factory=list)
    """After the snapshot, in order; for a key value entity only the latest; for a workflow the
    latest transition and what came after it."""


@dataclass(slots=True)
class InstanceSummary:
    """One line of a listing of instances. Times are in UTC."""

    ref: EntityRef
    kind: str
    sequence_number: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    expires_at: datetime | None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class DueInstance:
    """An instance that has something to do by itself, and when."""

    ref: EntityRef
    at: int


@dataclass(frozen=True, slots=True)
class StepCount:
    """How many instances are in the middle of a step, with one of them as an example."""

    step: str
    count: int
    example: str
