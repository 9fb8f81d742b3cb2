"""One live timer: it waits, calls what it was told to call, and stores what came of it.

The call carries a key made of the timer's name, its life and its due time. So a crash between
the call and the record of it makes the same call once more, and components carry it out once.
The timer itself takes commands while its call runs: a call that nobody waits for any more, since
the timer was cancelled or replaced, changes nothing of it.
"""

from __future__ import annotations

import logging
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from greenroom.components import DEAD, RETRYING, StoredTimer, UpdateState, is_async, no_effect
from greenroom.errors import GreenroomError, PayloadTooLargeError
from greenroom.persistence import NewRecord, RecordKind
from greenroom.runtime._calls import Answer, CallOrigin, CallRequest
from greenroom.runtime._causes import cause_of_attempt, said
from greenroom.runtime._entity_actor import NO_HANDLER, READY
from greenroom.runtime._metadata import origin_of
from greenroom.runtime._run_clients import clients_of_run
from greenroom.runtime._self_acting import SelfActingActor
from greenroom.runtime._step_run import StepRun
from greenroom.runtime._timer_targets import (
    Target,
    TargetGoneError,
    action_context,
    call_command,
    problem_of,
)
from greenroom.runtime._writer import is_durable

if TYPE_CHECKING:
    from greenroom.ids import EntityRef
    from greenroom.runtime._timer_host import TimerHost
    from greenroom.runtime._writer import Life

_log = logging.getLogger("greenroom.timers")


class TimerRun(StepRun):
    """An attempt of a timer. What it calls may be the timer itself, which waits for nobody."""

    __slots__ = ()

    @property
    def chain(self) -> tuple[EntityRef, ...]:
        """A timer does not wait for what it calls, and may be called by that."""
        return ()


class TimerActor(SelfActingActor):
    """Carries out the commands of a timer, and fires it."""

    host: TimerHost

    def __init__(self, host: TimerHost, ref: EntityRef) -> None:
        super().__init__(host, ref)
        self._attempt: StepRun | None = None
        self._target: Target | None = None

    @property
    def _timer(self) -> StoredTimer | None:
        timer: StoredTimer | None = None if self.session is None else self.session.state
        return timer

    # -- commands --------------------------------------------------------------------------

    def on_recovered(self, _loaded: Any) -> None:
        """Go on waiting where the timer was left."""
        self._set_alarm()

    def _handle_ready(self, message: Any) -> None:
        # A command that arrives together with the due time comes first: it may be to cancel.
        if type(message) is CallRequest:
            self._run(message)
        if self.phase is READY:
            self._do_what_is_due()

    def _write(self, call: CallRequest, effect: Any) -> None:
        if type(effect) is not UpdateState:
            self._crash(call, TypeError(no_effect(call.target, effect)))
            return
        try:
            answer = Answer(call.handler, effect.reply, self.sequence_number + 1)
            cause = {"by": call.handler.name}
            self._store(call, None if effect.delete else effect.state, cause, answer)
        except PayloadTooLargeError as error:
            self._answer(call, error)
            return
        except Exception as error:
            self._crash(call, error)
            return
        self._stop_attempt()
        self._set_alarm()

    # -- firing ----------------------------------------------------------------------------

    def _do_what_is_due(self) -> None:
        timer, now = self._timer, self.host.clock.now_ms()
        if timer is None or self.host.engine.stopping:
            return
        attempt = self._attempt
        if attempt is not None:
            self._time_out_if_late(attempt, timer, now)
        elif timer.next_at is not None and timer.next_at <= now:
            if is_durable(self._last):
                self._fire(timer, now)
            else:
                self._look_again_when_durable()

    def _look_again_when_durable(self) -> None:
        assert self._last is not None
        self._once_settled(self._last, partial(self._look_again, self._life))

    def _look_again(self, life: Life) -> None:
        if self._life is life and self.phase is READY:
            self._failures = None
            self._do_what_is_due()

    def _fire(self, timer: StoredTimer, now: int) -> None:
        run = TimerRun(
            self,
            None,
            str(timer.plan.call),
            attempt=timer.failures + 1,
            started_at=now,
            origin=self._origin(timer, now),
        )
        run.times_out_at = now + timer.plan.timeout_ms
        try:
            self._begin(run, timer)
        except Exception as error:
            self._failed(run, timer, error)
            return
        self._attempt = run
        self._set_alarm()

    def _begin(self, run: StepRun, timer: StoredTimer) -> None:
        engine, name = self.host.engine, self.ref.instance
        target = self._target = self.host.targets.find(timer.plan.call)
        if not target.is_action:
            run.start_coroutine(engine, partial(call_command, engine, target, name, timer, run))
            return
        function = target.handler.function

        def act() -> Any:
            context = action_context(name, timer, run)
            given = partial(clients_of_run, origin=run.origin)
            action = self.host.targets.new_action(target.definition, context, given)
            return function(action, *target.values)

        run.start(engine, act, is_async=is_async(function))

    def _origin(self, timer: StoredTimer, now: int) -> CallOrigin:
        key = f"{self.ref}@{timer.run}"
        return CallOrigin(
            key,
            keep_until=now + self.host.keep_step_keys_ms,
            correlation_id=timer.correlation,
            causation=key[:255],
            traceparent=timer.traceparent,
            principal=timer.principal,
        )

    def step_over(self, run: StepRun, result: Any, error: BaseException | None) -> None:
        """An attempt has ended; told on a slice of this actor."""
        timer = self._timer
        if self._attempt is not run or timer is None:
            _log.debug("%s: a late result of %s is thrown away", self.ref, run.name)
            return
        if error is None:
            assert self._target is not None
            error = problem_of(self._target, result)
        elif self.host.engine.stopping:
            # It may only have failed because the service stops; it is made again after the start.
            self._attempt = None
            return
        self._attempt = None
        if error is None:
            self._succeeded(run, timer)
        else:
            self._failed(run, timer, error)

    def _time_out_if_late(self, run: StepRun, timer: StoredTimer, now: int) -> None:
        if run.times_out_at is None or now < run.times_out_at:
            return
        self._attempt = None
        run.cancel(self.host.engine)
        seconds = timer.plan.timeout_ms / 1000
        self._failed(run, timer, TimeoutError(f"no end within {seconds:g} s"))

    def _succeeded(self, run: StepRun, timer: StoredTimer) -> None:
        following = timer.succeeded(self.host.clock.now_ms())
        self._record(run, following, "fired")

    def _failed(self, run: StepRun, timer: StoredTimer, error: BaseException) -> None:
        plan, failures = timer.plan, timer.failures + 1
        gone = isinstance(error, TargetGoneError)
        given_up = gone or (plan.max_retries is not None and failures > plan.max_retries)
        retry_at = None
        if given_up:
            _log.error(
                "%s is given up after %d attempt(s) of %s: %s. Resume it when that is mended, or "
                "cancel it.",
                self.ref,
                failures,
                plan.call,
                said(error),
            )
        else:
            # Not a secret: it keeps what failed together from coming back together.
            pause = plan.backoff.pause(failures, random.random())  # noqa: S311
            retry_at = self.host.clock.now_ms() + int(pause * 1000)
            _log.warning(
                "%s: attempt %d of %s failed; again in %.1f s: %s",
                self.ref,
                failures,
                plan.call,
                pause,
                said(error),
                exc_info=None if isinstance(error, GreenroomError) else error,
            )
        self._record(run, timer.failed(said(error), retry_at=retry_at), "attempt", error)

    # -- storing ---------------------------------------------------------------------------

    def _record(
        self, run: StepRun, timer: StoredTimer | None, by: str, error: BaseException | None = None
    ) -> None:
        cause = cause_of_attempt(
            by,
            run.name,
            attempt=run.attempt,
            started_at=run.started_at,
            now=self.host.clock.now_ms(),
            error=error,
        )
        origin = run.origin
        call = CallRequest(
            self.ref,
            NO_HANDLER,
            (),
            correlation_id=origin.correlation_id,
            traceparent=origin.traceparent,
            principal=origin.principal,
        )
        answer = Answer(NO_HANDLER, None, self.sequence_number + 1)
        self._store(call, timer, cause, answer)
        self._set_alarm()

    def _store(
        self, call: CallRequest, timer: StoredTimer | None, cause: dict[str, Any], answer: Answer
    ) -> None:
        """Raises, with nothing changed, when the timer can't be encoded."""
        status = "gone"
        if timer is not None:
            status = DEAD if timer.dead else RETRYING if timer.failures else "waiting"
        metadata = orjson.dumps({**origin_of(call), "cause": {"status": status, **cause}})
        record = NewRecord(RecordKind.DELETION, None, metadata)
        if timer is not None:
            value = self.host.encode_state(self.ref, timer)
            record = NewRecord(RecordKind.TIMER, value, metadata)
        self.sequence_number += 1
        self.session.state = timer
        self.session.deleted = timer is None
        self.expires_at = None if timer is None else timer.next_at
        self._submit(call, [record], answer, snapshot=None, expires_at=self.expires_at)

    def marker(self) -> str | None:
        """By what such timers are listed."""
        timer = self._timer
        if timer is None or not (timer.dead or timer.failures):
            return None
        return DEAD if timer.dead else RETRYING

    def _set_alarm(self) -> None:
        timer, attempt = self._timer, self._attempt
        due = None if timer is None else timer.next_at
        if attempt is not None:
            due = attempt.times_out_at
        self._wake_at(due)

    # -- leaving ---------------------------------------------------------------------------

    def _stop_attempt(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel(self.host.engine)

    def _forget(self) -> None:
        self._stop_attempt()

    def stop_if_idle(self) -> bool:
        """Leave memory, unless it is calling, or soon will."""
        if self._attempt is not None:
            return False
        timer = self._timer
        return self._stop_unless_due(None if timer is None else timer.next_at)

    def is_quiet(self) -> bool:
        """Whether nothing is queued, no call runs, and nothing is on its way to the disk."""
        return self._attempt is None and super().is_quiet()
