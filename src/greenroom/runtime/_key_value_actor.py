"""Key value entities: a command replaces the whole state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.components import UpdateState, no_effect
from greenroom.errors import PayloadTooLargeError
from greenroom.persistence import NewRecord, RecordKind
from greenroom.runtime._calls import Answer
from greenroom.runtime._entity_actor import EntityActor
from greenroom.runtime._metadata import encode_metadata

if TYPE_CHECKING:
    from greenroom.runtime._calls import CallRequest


class KeyValueActor(EntityActor):
    """Carries out what the handlers of a key value entity ask for."""

    def _write(self, call: CallRequest, effect: Any) -> None:
        if type(effect) is not UpdateState:
            self._crash(call, TypeError(no_effect(call.target, effect)))
            return
        if self.refuse_if_deleted(call):
            self._drop_if_changeable()
            return
        try:
            record = self._record(call, effect)
            answer = Answer(
                call.handler, effect.reply, self.sequence_number + 1, json_due=call.json_due
            )
        except PayloadTooLargeError as error:
            self._answer(call, error)
            self._drop_if_changeable()
            return
        except Exception as error:
            self._crash(call, error)
            return
        self.sequence_number += 1
        if effect.delete:
            self.session.deleted = True
            self._forget_state()
        else:
            self.session.state = effect.state
        self.expires_at = None if effect.delete else self.expiry(effect.expire_after)
        self._submit(
            call,
            [record],
            answer,
            snapshot=None,
            expires_at=self.expires_at,
            then_run=effect.then_run,
        )

    def _drop_if_changeable(self) -> None:
        """Nothing was stored, and the refused state may be the one before, changed in place."""
        if not self.host.state_shareable:
            self.drop()

    def _record(self, call: CallRequest, effect: UpdateState[Any]) -> NewRecord:
        metadata = encode_metadata(call, effect.metadata)
        if effect.delete:
            return NewRecord(RecordKind.DELETION, None, metadata)
        self.host.definition.refuse_no_state(call.target, effect.state)
        return NewRecord(RecordKind.STATE, self.host.encode_state(self.ref, effect.state), metadata)

    def _forget_state(self) -> None:
        self.session.state = self.host.definition.empty_state_of(self.entity)
