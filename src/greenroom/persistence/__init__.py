"""What is remembered: ports, records, the codec, and the SQL store."""

from greenroom.persistence.codec import Codec, Migration, StoredType
from greenroom.persistence.ports import Journal, OwnerInfo, Ownership, Store
from greenroom.persistence.records import (
    Chain,
    CommandWrite,
    DueInstance,
    Encoded,
    Head,
    InstanceSummary,
    NewRecord,
    Outcome,
    Receipt,
    RecordKind,
    StepCount,
    StoredInstance,
    StoredRecord,
)
from greenroom.persistence.sql import open_store

__all__ = [
    "Chain",
    "Codec",
    "CommandWrite",
    "DueInstance",
    "Encoded",
    "Head",
    "InstanceSummary",
    "Journal",
    "Migration",
    "NewRecord",
    "Outcome",
    "OwnerInfo",
    "Ownership",
    "Receipt",
    "RecordKind",
    "StepCount",
    "Store",
    "StoredInstance",
    "StoredRecord",
    "StoredType",
    "open_store",
]
