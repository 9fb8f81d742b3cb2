"""Event sourced entities: commands become events, events become state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.components import PersistEvents, WithMetadata, no_effect
from greenroom.components.session import PHASE_EVENT, PHASE_IDLE
from greenroom.errors import CommandError, PayloadTooLargeError
from greenroom.persistence import NewRecord, RecordKind
from greenroom.runtime._calls import Answer
from greenroom.runtime._entity_actor import EntityActor
from greenroom.runtime._metadata import encode_metadata

if TYPE_CHECKING:
    from greenroom.persistence import Encoded
    from greenroom.runtime._calls import CallRequest


class EventSourcedActor(EntityActor):
    """Carries out what the handlers of an event sourced entity ask for."""

    def _write(self, call: CallRequest, effect: Any) -> None:
        if type(effect) is not PersistEvents:
            self._crash(call, TypeError(no_effect(call.target, effect)))
            return
        if self.refuse_if_deleted(call):
            return
        sequence_number = self.sequence_number
        try:
            records, answer, snapshot = self._apply(call, effect)
        except CommandError as error:
            # Some events may have been applied in memory; nothing of them may stay.
            self.sequence_number = sequence_number
            self._decline(call, error)
            self.drop()
            return
        except PayloadTooLargeError as error:
            self.sequence_number = sequence_number
            self._answer(call, error)
            self.drop()
            return
        except BaseException as error:
            self.sequence_number = sequence_number
            self._crash(call, error)
            return
        self.session.phase = PHASE_IDLE
        self.session.deleted = effect.delete
        # A write without a time to live cancels the one before.
        self.expires_at = None if effect.delete else self.expiry(effect.expire_after)
        self._submit(
            call,
            records,
            answer,
            snapshot=snapshot,
            expires_at=self.expires_at,
            then_run=effect.then_run,
        )

    def _apply(
        self, call: CallRequest, effect: PersistEvents[Any]
    ) -> tuple[list[NewRecord], Answer, Encoded | None]:
        session = self.session
        session.phase = PHASE_EVENT
        records = [self._apply_one(call, event) for event in effect.events]
        session.phase = PHASE_IDLE
        session.event = None
        if effect.delete:
            self.sequence_number += 1
            records.append(NewRecord(RecordKind.DELETION, None, encode_metadata(call, None)))
        value = effect.then_reply(session.state)
        answer = Answer(call.handler, value, self.sequence_number, json_due=call.json_due)
        return records, answer, self._snapshot_if_due(len(records))

    def _apply_one(self, call: CallRequest, event: Any) -> NewRecord:
        metadata = None
        if type(event) is WithMetadata:
            event, metadata = event.event, event.metadata
        encoded = self.host.codec.encode(event)
        size = len(encoded.payload)
        if size > self.host.settings.max_event_bytes:
            raise PayloadTooLargeError(
                f"Event {encoded.type_name!r} of {self.ref}",
                size=size,
                limit=self.host.settings.max_event_bytes,
                setting="GREENROOM_MAX_EVENT_BYTES",
            )
        self.sequence_number += 1
        session = self.session
        session.event = (self.sequence_number, metadata)
        state = self.entity.apply_event(event)
        if state is None and not self.host.state_may_be_none:
            raise TypeError(
                f"{type(self.entity).__name__}.apply_event returned None for "
                f"{type(event).__name__}; return the new state"
            )
        session.state = state
        return NewRecord(RecordKind.EVENT, encoded, encode_metadata(call, metadata))

    def _snapshot_if_due(self, new_records: int) -> Encoded | None:
        self.since_snapshot += new_records
        if self.since_snapshot < self.host.settings.snapshot_every:
            return None
        self.since_snapshot = 0
        return self.host.encode_state(self.ref, self.session.state)
