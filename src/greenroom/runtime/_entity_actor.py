"""One live instance of an entity: cold, recovering, ready; and what happens when it fails.

The actor handles a command against its state in memory, hands what is to be stored to the
journal writer, and goes on with the next command while the first is on its way to the disk.
Whatever rests on a state that is not durable yet is held back until it is. When a write fails,
the instance is recovered from storage and the commands that are still waited for run again.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from greenroom.clock import to_datetime
from greenroom.components import (
    CommandContext,
    Effect,
    EntitySession,
    EventContext,
    Failure,
    Metadata,
    Reply,
    UpdateState,
    read_only_writes,
)
from greenroom.components.session import PHASE_COMMAND, PHASE_IDLE
from greenroom.errors import (
    CommandError,
    EntityDeletedError,
    GreenroomError,
    HandlerError,
    IdempotencyKeyReusedError,
    InternalError,
    OverloadedError,
    PersistenceError,
    RecoveryError,
    VersionMismatchError,
)
from greenroom.persistence import CommandWrite, Head, NewRecord, Receipt, RecordKind
from greenroom.runtime._actor import LATER, SlicedActor
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._control import Control, WhenWritten
from greenroom.runtime._deadlines import timed_out
from greenroom.runtime._failures import Failures
from greenroom.runtime._settling import NOTHING, from_receipt, is_same_call, sort_out
from greenroom.runtime._writer import Life, PendingWrite, deliver, is_durable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from greenroom.ids import EntityRef
    from greenroom.persistence import Encoded
    from greenroom.runtime._actor import Envelope
    from greenroom.runtime._host import EntityHost

_log = logging.getLogger("greenroom.runtime")

COLD, LOADING, READY = "cold", "loading", "ready"


class EntityActor(SlicedActor):
    """What event sourced and key value entities have in common."""

    head: Head
    entity: Any
    session: EntitySession[Any]
    since_snapshot: int

    def __init__(self, host: EntityHost, ref: EntityRef) -> None:
        super().__init__(host.dispatcher)
        self.actor_inbox.limit = host.settings.mailbox_limit
        self.host = host
        self.ref = ref
        self.kind = host.definition.kind
        self.phase = COLD
        # Every attribute is set here, in this order: an instance that gets one later leaves the
        # layout that it shares with the others, and weighs 800 bytes more.
        self.head = Head(0)
        self.entity = None
        self.session = None  # type: ignore[assignment]
        self.since_snapshot = 0
        self.sequence_number = 0
        self.expires_at: int | None = None
        self._load_number = 0
        self._life = Life()
        self._last: PendingWrite | None = None
        self._failures: Failures | None = None
        self._wrote = False

    @property
    def name(self) -> str:
        """The instance's address."""
        return str(self.ref)

    # -- receiving -------------------------------------------------------------------------

    def on_receive(self, message: Any) -> Any:
        """Handle one command, or one message of the runtime's own."""
        if type(message) is Control:
            message.run()
        elif type(message) is CallRequest and message.expired():
            deliver(message, timed_out(message))
        elif self.phase is not READY:
            self._recover_for(message)
        else:
            self._handle_ready(message)
        return LATER

    def _handle_ready(self, message: Any) -> None:
        if self.expires_at is not None and self.host.clock.now_ms() >= self.expires_at:
            self._delete_expired()
        if type(message) is CallRequest:
            self._run(message)

    def _run(self, call: CallRequest) -> None:
        key = call.idempotency_key
        if key is not None and self._is_in_flight(call, key):
            return
        expected = call.expected_version
        if expected is not None and expected != self.sequence_number:
            self._decline(
                call,
                VersionMismatchError(self.ref, expected=expected, actual=self.sequence_number),
            )
            return
        session = self.session
        session.command = call
        session.phase = PHASE_COMMAND
        host = self.host
        before = host.fingerprint_of(session.state) if host.watches_state else None
        try:
            effect = call.handler.function(self.entity, *call.values)
        except CommandError as error:
            session.phase = PHASE_IDLE
            session.command = None
            self._decline(call, error)
            if self._was_changed(before):
                self.drop()
            return
        # Anything else a handler raises, even a SystemExit, is a failure of this instance.
        except BaseException as error:
            self._crash(call, error)
            return
        session.phase = PHASE_IDLE
        # An idle instance must not keep its last call, with all that was sent and answered.
        session.command = None
        if type(effect) is not UpdateState and self._was_changed(before):
            # Nobody may read what was not stored.
            self._refuse_change(call, effect)
            return
        self._failures = None
        if type(effect) is Reply:
            self._reply(call, effect)
        elif type(effect) is Failure:
            self._decline(call, effect.error)
        elif call.handler.read_only and isinstance(effect, Effect):
            # What promises to change nothing runs without approval, and beside others.
            self._crash(call, TypeError(read_only_writes(call.target)))
        else:
            self._write(call, effect)

    def _was_changed(self, before: bytes | None) -> bool:
        """Whether a handler has changed the state in place."""
        return before is not None and self.host.fingerprint_of(self.session.state) != before

    def _refuse_change(self, call: CallRequest, effect: Any) -> None:
        if type(effect) is Failure:
            self._decline(call, effect.error)
            self.drop()
        else:
            message = (
                f"{call.target} changed the state in place, and nothing stores that; make a "
                "changed copy and return it with an effect (frozen models can't be changed)"
            )
            self._crash(call, TypeError(message))

    def _write(self, call: CallRequest, effect: Any) -> None:
        """Carry out an effect that stores something; each kind of entity has its own."""
        raise NotImplementedError

    def command_context(self, call: CallRequest) -> CommandContext:
        """What a handler may ask about the command it handles."""
        return CommandContext(
            entity_id=self.ref.instance,
            command_name=call.handler.name,
            sequence_number=self.sequence_number,
            is_deleted=self.session.deleted,
            now=to_datetime(self.host.clock.now_ms()),
            metadata=call.metadata or Metadata.EMPTY,
            principal=call.principal,
            idempotency_key=call.idempotency_key,
            correlation_id=call.correlation(),
            causation=call.causation,
            traceparent=call.traceparent,
        )

    def event_context(self, source: tuple[int, Metadata | None]) -> EventContext:
        """What `apply_event` may ask about the event it applies, while its command is handled."""
        number, metadata = source
        return EventContext(
            self.ref.instance,
            number,
            metadata or Metadata.EMPTY,
            to_datetime(self.host.clock.now_ms()),
        )

    # -- answering -------------------------------------------------------------------------

    def _reply(self, call: CallRequest, effect: Reply[Any]) -> None:
        try:
            answer = Answer(
                call.handler,
                effect.value,
                self.sequence_number,
                metadata=effect.metadata,
                json_due=call.json_due,
            )
            if call.idempotency_key is None or call.handler.read_only:
                self._answer(call, answer)
            else:
                self._submit(call, [], answer, snapshot=None, expires_at=self.expires_at)
        except Exception as error:
            self._crash(call, error)

    def _answer(self, call: CallRequest, answer: Answer | BaseException) -> None:
        """Answer now, or once the writes that the answer rests on are durable."""
        last = self._last
        if last is None:
            deliver(call, answer)
        elif last.done and last.error is None:
            self._last = None
            deliver(call, answer)
        else:
            last.hold(call, answer)

    def _decline(self, call: CallRequest, error: GreenroomError) -> None:
        """Answer with an error, unless the key shows that the command was carried out before."""
        if call.idempotency_key is None:
            self._answer(call, error)
            return
        ref, key = self.ref, call.idempotency_key

        def look_up() -> None:
            try:
                receipt = self.host.journal.find_receipt(ref, key)
            except PersistenceError as problem:
                deliver(call, problem)
                return
            if receipt is None:
                self._answer_from_elsewhere(call, error)
            else:
                deliver(call, from_receipt(call, receipt))

        self.host.read_later(look_up)

    def _answer_from_elsewhere(self, call: CallRequest, error: GreenroomError) -> None:
        self.actor_inbox.put_control(Control(lambda: self._answer(call, error)))

    def _is_in_flight(self, call: CallRequest, key: str) -> bool:
        """Whether the same key is on its way to the disk; then this call waits for it."""
        first = self._last
        while first is not None and not first.done:
            if first.call is not None and first.call.idempotency_key == key:
                break
            first = first.previous
        if first is None or first.done:
            return False
        # The writer empties a write when it is done; then the database knows the key.
        original, answer = first.call, first.answer
        if original is None or answer is None:
            return False
        same = is_same_call(original, call)
        first.hold(call, answer if same else IdempotencyKeyReusedError(self.ref, key))
        return True

    # -- writing ---------------------------------------------------------------------------

    def _submit(
        self,
        call: CallRequest,
        records: list[NewRecord],
        answer: Answer,
        *,
        snapshot: Encoded | None,
        expires_at: int | None,
        then_run: tuple[Callable[[Any], object], ...] = (),
    ) -> None:
        receipt = None
        key = call.idempotency_key
        if key is not None:
            receipt = Receipt(
                key=key,
                handler=call.handler.name,
                principal=call.principal,
                fingerprint=call.handler.fingerprint(call.values),
                reply=answer.json,
                expires_at=call.receipt_expires_at or self.host.receipt_expiry(),
            )
        write = PendingWrite(
            self,
            self._life,
            call,
            CommandWrite(records, receipt, snapshot, expires_at, self.marker()),
            answer,
            _run_all(then_run, self.session.state, self.ref) if then_run else None,
            self._last,
        )
        self._last = write
        self._wrote = True
        self.host.writer.submit(write)

    def marker(self) -> str | None:
        """What has to be taken up again after a crash; an entity is never in the middle."""
        return None

    def end_of_slice(self) -> None:
        """Let the writer know, once for all commands of the slice."""
        if self._wrote:
            self._wrote = False
            self.host.written_in_slice()
        last = self._last
        if last is not None and last.done and last.error is None:
            self._last = None

    def _delete_expired(self) -> None:
        """The time to live has passed: the instance deletes itself."""
        self.expires_at = None
        if self.session.deleted:
            return
        self.sequence_number += 1
        self._forget_state()
        self.session.deleted = True
        call = CallRequest(self.ref, NO_HANDLER, ())
        answer = Answer(NO_HANDLER, None, self.sequence_number)
        self._submit(
            call, [NewRecord(RecordKind.DELETION, None)], answer, snapshot=None, expires_at=None
        )

    def _forget_state(self) -> None:
        """What a deletion does to the state in memory; key value entities become empty."""

    def expiry(self, after: timedelta | None) -> int | None:
        """When an instance that was written now deletes itself."""
        if after is None:
            return None
        return self.host.clock.now_ms() + int(after.total_seconds() * 1000)

    def refuse_if_deleted(self, call: CallRequest) -> bool:
        """Whether the instance is deleted and so takes no write; the call is answered then."""
        if self.session.deleted:
            self._decline(call, EntityDeletedError(self.ref))
            return True
        return False

    # -- failing ---------------------------------------------------------------------------

    def on_write_failed(self) -> None:
        """A write did not go in; told by the writer, handled in a slice of this actor."""
        self.actor_inbox.put_control(Control(self._settle_failed_writes))

    def _settle_failed_writes(self) -> None:
        failed: list[PendingWrite] = []
        write = self._last
        while write is not None and not is_durable(write):
            failed.append(write)
            write = write.previous
        if not failed:
            return
        self.drop()
        if not all(one.done for one in failed):
            # The writer will come across the others and tell us again.
            self.actor_inbox.paused = True
            return
        self._last = None
        self.actor_inbox.paused = False
        again: list[CallRequest] = []
        sort_out(failed[::-1], again)
        self.actor_inbox.put_first(again)

    def _crash(self, call: CallRequest, error: BaseException) -> None:
        """The handler failed in a way it did not mean to: drop the state, tell the caller."""
        reference = call.correlation()
        _log.error("%s failed on %s [%s]", call.target, self.ref, reference, exc_info=error)
        self._failures = (self._failures or Failures()).one_more()
        self._answer(call, HandlerError(call.target, reference))
        self.drop()

    def drop(self) -> None:
        """Forget the state; the next command recovers it from storage."""
        self.phase = COLD
        self.entity = self.session = None  # type: ignore[assignment]
        self.expires_at = None
        self._life = Life()

    def abandon(self) -> None:
        """This process no longer owns the instance: stop, and send on what still waits."""
        self.drop()
        self.actor_stopped.set()

    # -- recovering ------------------------------------------------------------------------

    def _recover_for(self, message: Any) -> None:
        if self._failures is not None and self._failures.must_wait():
            if type(message) is CallRequest:
                deliver(message, self._failures.refusal(self.ref))
            return
        last = self._last
        if last is not None and last.error is not None:
            # The writer is about to tell; settling that comes first, and ends the pause.
            self.actor_inbox.paused = True
            self.actor_inbox.put_first([message])
        elif last is not None and not last.done:
            # Writes of the life before are still under way; what they leave is what to load.
            self._wait_for(last, message)
        elif self.host.dispatcher.blocking_allowed():
            self._finish_recovery(message, *self._load())
        else:
            self.phase = LOADING
            self._load_number += 1
            self.actor_inbox.paused = True
            number = self._load_number
            self.host.read_later(lambda: self._load_elsewhere(message, number))

    def _wait_for(self, last: PendingWrite, message: Any) -> None:
        self.actor_inbox.paused = True

        def go_on() -> None:
            self.actor_inbox.paused = False
            if self.actor_stopped.is_set():
                self.host.redeliver(message)
            else:
                self.on_receive(message)

        self._once_settled(last, go_on)

    def _once_settled(self, write: PendingWrite, run: Callable[[], None]) -> None:
        """Do something in a slice of this actor, once a write has gone in or has failed.

        It may be done more than once.
        """
        control = Control(run)
        told = WhenWritten(lambda: self.actor_inbox.put_control(control))
        write.hold(told, NOTHING)  # type: ignore[arg-type]

    def _load_elsewhere(self, message: Any, number: int) -> None:
        loaded, error = self._load()

        def finish() -> None:
            self.actor_inbox.paused = False
            if self.actor_stopped.is_set():
                self.host.redeliver(message)
            elif self.phase is LOADING and number == self._load_number:
                self._finish_recovery(message, loaded, error)
            else:
                # The state was dropped while this was read; it may be out of date.
                self.on_receive(message)

        self.actor_inbox.put_control(Control(finish))

    def _load(self) -> tuple[Any, BaseException | None]:
        try:
            return self.host.recover(self.ref), None
        except Exception as error:
            return None, error

    def _finish_recovery(self, message: Any, loaded: Any, error: BaseException | None) -> None:
        if error is not None:
            self.phase = COLD
            if not getattr(error, "retryable", False):
                self._failures = (self._failures or Failures()).one_more()
            if type(message) is CallRequest:
                deliver(message, self._recovery_problem(message, error))
            else:
                _log.error("%s can't be recovered; it is tried again", self.ref, exc_info=error)
            return
        self.entity = loaded.entity
        self.session = loaded.session
        self.session.contexts = self
        self.head = loaded.head
        self.sequence_number = loaded.head.sequence_number
        self.expires_at = loaded.head.expires_at
        self.since_snapshot = loaded.since_snapshot
        self.phase = READY
        self.on_recovered(loaded)
        self._handle_ready(message)

    def on_recovered(self, loaded: Any) -> None:
        """Hook: the instance has been read, and is about to handle its first message."""

    def _recovery_problem(self, call: CallRequest, error: BaseException) -> BaseException:
        if isinstance(error, PersistenceError) and error.retryable:
            return error
        reference = call.correlation()
        _log.error("%s can't be recovered [%s]", self.ref, reference, exc_info=error)
        if isinstance(error, GreenroomError):
            return error
        return RecoveryError(f"{self.ref} can't be recovered; see the log for {reference}.")

    # -- leaving memory --------------------------------------------------------------------

    def stop_if_idle(self) -> bool:
        """Leave memory, unless something is queued or not yet durable."""
        inbox = self.actor_inbox
        if not inbox.claim():
            return False
        try:
            busy = (
                not inbox.empty()
                or self.phase is LOADING
                or not is_durable(self._last)
                or (self._failures is not None and self._failures.must_wait())
            )
            if busy:
                return False
            self.actor_stopped.set()
        finally:
            inbox.unclaim()
        return True

    def is_ready(self) -> bool:
        """Whether the instance has been read, or is being read."""
        return self.phase is not COLD

    def is_quiet(self) -> bool:
        """Whether nothing is queued, running, or on its way to the disk."""
        last = self._last
        return self.actor_inbox.empty() and (last is None or last.done)

    def is_at_rest(self) -> bool:
        """Whether also no slice runs, and nothing is being read."""
        last = self._last
        return (
            not self.actor_inbox.is_busy()
            and self.phase is not LOADING
            and (last is None or last.done)
        )

    def tell_when_written(self, tell: Callable[[], None]) -> None:
        """Call something once what is on its way to the disk has arrived; in a slice of this actor.

        It may be called more than once.
        """
        if self._last is None or self._last.done:
            tell()
        else:
            self._last.hold(WhenWritten(tell), NOTHING)  # type: ignore[arg-type]

    def on_error(self, envelope: Envelope, error: BaseException) -> Any:
        """Something in this file went wrong: the state can't be trusted any more."""
        _log.critical("A bug in greenroom, at %s", self.ref, exc_info=error)
        if type(envelope) is CallRequest:
            deliver(envelope, InternalError(f"greenroom failed at {self.ref}; see the log."))
        self.drop()
        return LATER

    def on_overload(self, _envelope: Envelope) -> None:
        """Refuse a command, in the sender."""
        raise OverloadedError(self.ref, limit=self.host.settings.mailbox_limit)

    def on_dead_letter(self, envelope: Envelope) -> None:
        """What came just after the instance left memory: a command goes to its successor."""
        if isinstance(envelope, Control):
            envelope.run()
        else:
            self.host.redeliver(envelope)


NO_HANDLER: Any = SimpleNamespace(name="", reply_shareable=True, check_reply=lambda _value: None)
"""Stands for the runtime itself, which deletes what has expired, or ends a step."""


def _run_all(
    functions: tuple[Callable[[Any], object], ...], state: Any, ref: EntityRef
) -> Callable[[], None]:
    """The side effects of a command, to be run once it is durable."""

    def run() -> None:
        for function in functions:
            try:
                function(state)
            except Exception:
                _log.exception("A then_run of %s failed; the command itself is durable", ref)

    return run
