"""Snapshot and events become state again: a pure function over what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from greenroom.clock import to_datetime
from greenroom.components import EntitySession, EventContext, new_instance
from greenroom.components.session import PHASE_EVENT, PHASE_IDLE
from greenroom.errors import RecoveryError, UnreadableRecordError
from greenroom.persistence import RecordKind
from greenroom.runtime._metadata import decode_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from greenroom.components import ComponentDefinition
    from greenroom.ids import EntityRef
    from greenroom.persistence import Codec, Head, StoredInstance, StoredRecord


@dataclass(slots=True)
class Recovered:
    """An instance, ready for its next command."""

    entity: Any
    session: EntitySession[Any]
    head: Head
    since_snapshot: int


def recover(
    definition: ComponentDefinition,
    codec: Codec,
    dependencies: Mapping[str, Any],
    ref: EntityRef,
    stored: StoredInstance,
) -> Recovered:
    """Rebuild an instance from what is stored.

    Raises:
        RecoveryError: A record can't be read, or applying it failed; names the record.
        UnreadableRecordError: The snapshot can't be read; the records alone may still do.
    """
    session: EntitySession[Any] = EntitySession(ref.instance)
    entity = new_instance(definition, session, dependencies)
    session.state = definition.empty_state_of(entity)
    if stored.snapshot is not None:
        session.state = codec.decode(stored.snapshot)
    event_sourced = definition.kind == "event-sourced-entity"
    applied = (
        _replay(codec, ref, session, entity.apply_event, stored.records)
        if event_sourced
        else recover_latest(codec, ref, session, stored.records)
    )
    session.deleted = stored.head.deleted_at is not None
    return Recovered(entity, session, stored.head, applied)


class _RecordedContexts:
    """What `apply_event` may ask about an event that was stored before."""

    def __init__(self, ref: EntityRef) -> None:
        self._ref = ref

    def command_context(self, _command: object, /) -> NoReturn:
        """There is no command while an instance is recovered."""
        raise RuntimeError("There is no command while an instance is recovered.")

    def event_context(self, record: StoredRecord, /) -> EventContext:
        """The stored event's place in the instance's life."""
        return EventContext(
            self._ref.instance,
            record.sequence_number,
            decode_metadata(record.metadata),
            to_datetime(record.timestamp),
        )


def _replay(
    codec: Codec,
    ref: EntityRef,
    session: EntitySession[Any],
    apply_event: Callable[[Any], Any],
    records: Iterable[StoredRecord],
) -> int:
    applied = 0
    decode = codec.decode
    session.phase = PHASE_EVENT
    session.contexts = _RecordedContexts(ref)
    for record in records:
        if record.value is None or record.kind is not RecordKind.EVENT:
            continue
        session.event = record
        try:
            session.state = apply_event(decode(record.value))
        except UnreadableRecordError as error:
            raise _at(ref, record, error) from error
        except Exception as error:
            raise RecoveryError(
                f"{ref}: apply_event failed on event {record.sequence_number} "
                f"({record.value.type_name}): {type(error).__name__}: {error}. Fix apply_event; "
                "what is stored is unchanged."
            ) from error
        applied += 1
    session.phase = PHASE_IDLE
    return applied


def recover_latest(
    codec: Codec, ref: EntityRef, session: EntitySession[Any], records: Iterable[StoredRecord]
) -> int:
    """Take the state from the last record that has one.

    Raises:
        RecoveryError: It can't be read; names the record.
    """
    for record in records:
        if record.value is not None:
            try:
                session.state = codec.decode(record.value)
            except UnreadableRecordError as error:
                raise _at(ref, record, error) from error
    return 0


def _at(ref: EntityRef, record: StoredRecord, error: UnreadableRecordError) -> RecoveryError:
    return RecoveryError(f"{ref}: record {record.sequence_number} can't be read: {error}")
