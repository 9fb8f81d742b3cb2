"""One live instance of a workflow: a step machine that stores where it goes before it goes there.

A transition is stored in one record: the new state, the next step with its input. Only when it
is durable does the step run; when the step is over, its own transition is stored. After a crash
the instance is read, and the step it was in the middle of runs again. Late results, of steps
that timed out or whose workflow was suspended meanwhile, find that nobody knows them any more.
"""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.components import (
    OUTCOME,
    RESUME,
    RETRY_FOREVER,
    STATUS,
    SUSPEND,
    TERMINATE,
    UNCHANGED,
    ChildOutcome,
    Compensate,
    Delete,
    End,
    Fail,
    MethodCall,
    Retry,
    Stay,
    StepResult,
    StepTransition,
    ToStep,
    Transition,
    TransitionEffect,
    WorkflowSession,
    no_effect,
)
from greenroom.errors import (
    EntityDeletedError,
    EntityUnavailableError,
    GreenroomError,
    HandlerError,
    PayloadTooLargeError,
    StepTimeoutError,
    TransitionNotAllowedError,
    WorkflowSuspendedError,
)
from greenroom.persistence import NewRecord, RecordKind
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._causes import MAX_TEXT, cause_of_attempt, said
from greenroom.runtime._control import Control
from greenroom.runtime._entity_actor import NO_HANDLER, READY
from greenroom.runtime._metadata import origin_of
from greenroom.runtime._position import (
    Position,
    Progress,
    StoredCall,
    StoredValue,
    apply_progress,
    encode_progress,
    encode_transition,
    failure,
    result_of,
)
from greenroom.runtime._self_acting import SelfActingActor
from greenroom.runtime._step_runs import FAREWELL, StepRuns
from greenroom.runtime._transitions import OUTCOMES, Planner
from greenroom.runtime._workflow_status import due_time, status_of
from greenroom.runtime._writer import deliver, is_durable

if TYPE_CHECKING:
    from greenroom.ids import EntityRef
    from greenroom.runtime._step_run import StepRun
    from greenroom.runtime._workflow_host import WorkflowHost
    from greenroom.runtime._workflow_plans import StepPlan
    from greenroom.runtime._writer import Life, PendingWrite

_log = logging.getLogger("greenroom.workflows")

CHECKPOINT_EVERY = 100
"""After so many attempts the whole position is stored again, so that recovery reads no more."""


class WorkflowActor(SelfActingActor):
    """Carries out what the commands and steps of a workflow ask for."""

    host: WorkflowHost

    def __init__(self, host: WorkflowHost, ref: EntityRef) -> None:
        super().__init__(host, ref)
        self.position = Position()
        self.progress = Progress()
        self.state: Any = None
        self._runs = StepRuns(self, host)
        self._waiting: list[CallRequest] = []
        self._watchers: list[CallRequest] = []
        self._due_at: int | None = None
        self._ends_pause = False

    # -- commands --------------------------------------------------------------------------

    def on_recovered(self, loaded: Any) -> None:
        """Go on where the instance stood."""
        self.position, self.progress = loaded.position, loaded.progress
        self.state = loaded.session.state
        self._set_alarm()
        self._go_on()

    def _handle_ready(self, message: Any) -> None:
        if self._due_at is not None and self.host.clock.now_ms() >= self._due_at:
            self._do_what_is_due()
        if type(message) is not CallRequest or self.phase is not READY:
            return
        call = message
        if call.handler.name.startswith("$"):
            self._operate(call)
        elif self._runs.any_step() and not call.handler.read_only:
            # Commands wait for the end of the step, however it ends; not for that of children.
            self._waiting.append(call)
        else:
            self._renew()
            self._run(call)

    def _renew(self) -> None:
        """Every command and every step sees an object of its own."""
        old = self.session
        session = self.session = self._new_session()
        session.state, session.deleted, session.contexts = self._own_state(), old.deleted, self
        self.entity = self.host.new_object(session)

    def _new_session(self) -> WorkflowSession[Any]:
        return WorkflowSession(self.ref.instance)

    def _write(self, call: CallRequest, effect: Any) -> None:
        if type(effect) is not TransitionEffect:
            self._crash(call, TypeError(no_effect(call.target, effect)))
            return
        refusal = self._refusal(effect.transition)
        if refusal is not None:
            self._decline(call, refusal)
            return
        try:
            answer = Answer(
                call.handler,
                effect.reply,
                self.sequence_number + 1,
                metadata=effect.metadata,
                json_due=call.json_due,
            )
            cause = {"by": "command", "name": call.handler.name}
            self._transit(call, effect.transition, cause, answer, then_run=effect.then_run)
        except PayloadTooLargeError as error:
            self._answer(call, error)
        except Exception as error:
            self._crash(call, error)

    def _crash(self, call: CallRequest, error: BaseException) -> None:
        """The handler failed: tell the caller, and let the workflow go on undisturbed.

        It had an object and a state of its own. The handler of a pause is tried again, as a step
        is: in sight.
        """
        if self._ends_pause:
            self._ends_pause = False
            until_done = Retry(backoff=self.host.plan.settings.recovery.backoff)
            now = self.host.clock.now_ms()
            self._failed(None, call.handler.name, error, now, until_done)
            return
        reference = call.correlation()
        _log.error("%s failed on %s [%s]", call.target, self.ref, reference, exc_info=error)
        self._answer(call, HandlerError(call.target, reference))

    def _refusal(self, transition: Transition) -> GreenroomError | None:
        position = self.position
        if self.session.deleted:
            return EntityDeletedError(self.ref)
        if position.over and type(transition.next) is not Delete:
            return TransitionNotAllowedError(
                self.ref, status=position.status, reason=position.reason
            )
        if position.suspended and not position.over:
            return WorkflowSuspendedError(self.ref, reason=position.suspended_because)
        ending = "compensating" if position.compensating else "out of time"
        if (position.compensating or position.timed_out) and not isinstance(
            transition.next, Stay | Fail | End | Delete
        ):
            return TransitionNotAllowedError(self.ref, status=ending, reason=position.reason)
        return None

    # -- transitions -----------------------------------------------------------------------

    def _transit(
        self,
        call: CallRequest,
        transition: Transition,
        cause: dict[str, Any],
        answer: Answer,
        *,
        is_last: bool = False,
        then_run: tuple[Any, ...] = (),
    ) -> None:
        """Store a transition, and go on when it is durable.

        Raises whatever shows that it can't be: nothing has changed then.
        """
        # The last step may come in the middle of compensations: they end there.
        before = replace(self.position, compensating=False) if is_last else self.position
        position = Planner(self.host, self.ref, before, self.progress).plan(
            transition,
            number=self.sequence_number + 1,
            now=self.host.clock.now_ms(),
            call=call,
            pending_children=self.position.pending_children(self.progress),
        )
        if is_last and not position.over:
            position = replace(position, timed_out=True)
        state = self.state if transition.state is UNCHANGED else transition.state
        self._store(
            call,
            position,
            state,
            cause,
            answer,
            delete=type(transition.next) is Delete,
            then_run=then_run,
        )

    def _store(
        self,
        call: CallRequest,
        position: Position,
        state: Any,
        cause: dict[str, Any],
        answer: Answer,
        *,
        delete: bool = False,
        then_run: tuple[Any, ...] = (),
    ) -> None:
        same_run = position.number == self.position.number
        progress = self.progress if same_run else None
        if position.reason is not None:
            cause["reason"] = position.reason
        cause["status"] = "deleted" if delete else position.status
        cause["steps"] = position.steps
        metadata = encode_transition(origin_of(call), position, cause, progress=progress)
        if delete:
            record = NewRecord(RecordKind.DELETION, None, metadata)
        else:
            value = None
            if state is not None or self.host.state_may_be_none:
                value = self.host.encode_state(self.ref, state)
            record = NewRecord(RecordKind.TRANSITION, value, metadata)
        # From here on nothing fails.
        if not same_run:
            self._runs.stop()
        self.sequence_number += 1
        self.position = position
        self.progress = progress or Progress()
        self.state = self.session.state = state
        if delete:
            self.session.deleted = True
            self.state = self.session.state = self.host.definition.empty_state_of(self.entity)
        self._set_alarm()
        self._submit(
            call,
            [record],
            answer,
            snapshot=None,
            expires_at=self.expires_at,
            then_run=then_run,
        )
        self._when_durable()
        if position.over or delete:
            self._tell_watchers()

    def _own_call(self) -> tuple[CallRequest, Answer]:
        """What stands for a call where nobody called."""
        position = self.position
        call = CallRequest(
            self.ref,
            NO_HANDLER,
            (),
            correlation_id=position.correlation,
            traceparent=position.traceparent,
            principal=position.principal,
        )
        return call, Answer(NO_HANDLER, None, self.sequence_number + 1)

    def _record_progress(self, change: dict[str, Any], cause: dict[str, Any]) -> None:
        """Store something on the way to the next transition."""
        self.position = apply_progress(self.position, self.progress, change)
        call, answer = self._own_call()
        is_retried = self.position.status == "running" and change.get("retry_at") is not None
        cause["status"] = "retrying" if is_retried else self.position.status
        cause["steps"] = self.position.steps
        self._set_alarm()
        metadata = encode_progress(origin_of(call), change, cause)
        self.sequence_number += 1
        self._submit(
            call,
            [NewRecord(RecordKind.PROGRESS, None, metadata)],
            answer,
            snapshot=None,
            expires_at=self.expires_at,
        )
        self._when_durable()

    def _when_durable(self) -> None:
        write = self._last
        assert write is not None
        self._once_settled(write, partial(self._durable, write, self._life))

    def _durable(self, write: PendingWrite, life: Life) -> None:
        """A write has gone in, or has not; then the failure is settled elsewhere."""
        if self._life is not life or write.error is not None or self.phase is not READY:
            return
        self._failures = None
        last = self._last
        if last is not None and last is not write and not last.done:
            # What came after has its own turn, and the last word.
            return
        if self._waiting and not self._runs.any_step():
            waiting, self._waiting = self._waiting, []
            # Between two steps the commands that have waited come first.
            self.actor_inbox.put_first([*waiting, Control(self._go_on)])
        else:
            self._go_on()

    # -- steps -----------------------------------------------------------------------------

    def marker(self) -> str | None:
        """The steps under way, as the head of the instance has them."""
        return None if self.session is not None and self.session.deleted else self.position.marker

    def _go_on(self) -> None:
        """Run what should run and does not run yet."""
        position = self.position
        if self.phase is not READY or not is_durable(self._last):
            return
        if self.host.engine.stopping:
            return
        if position.children:
            self._runs.start_farewell(position)
        if position.over or position.suspended:
            return
        if position.step is not None:
            self._start_if_due(None, position.step, self.progress.retry_at)
        elif position.fan_out is not None:
            self._start_branches()
            self._join_if_complete()

    def _start_branches(self) -> None:
        fan_out = self.position.fan_out
        assert fan_out is not None
        limit = fan_out.max_concurrency or len(fan_out.branches)
        for number, branch in enumerate(fan_out.branches):
            if len(self._runs) >= limit:
                return
            if self.progress.has_result(number):
                continue
            retry_at = self.progress.of(number).retry_at
            if branch.step is not None:
                self._start_if_due(number, branch.step, retry_at)
            elif branch.child is not None and number not in self._runs:
                self._runs.start_child(
                    number, branch.child, position=self.position, attempts=self.progress.of(number)
                )

    def _start_if_due(self, branch: int | None, stored: StoredCall, retry_at: int | None) -> None:
        now = self.host.clock.now_ms()
        if branch in self._runs or (retry_at is not None and retry_at > now):
            return
        plan = self.host.plan.step(stored.step)
        if plan is None:
            known = ", ".join(self.host.plan.steps)
            error = LookupError(
                f"the code has no step {stored.step!r} (it has: {known}); name its successor in "
                "WorkflowSettings(renamed_steps=...)"
            )
            # A mistake of whoever changed the code is not for the workflow to get over: no
            # retries that end, and no failover.
            self._failed(branch, stored.step, error, now, RETRY_FOREVER)
            return
        try:
            self._runs.start_step(
                branch,
                stored,
                plan,
                position=self.position,
                attempts=self.progress.of(branch),
                state=self._own_state(),
            )
        except Exception as error:
            self._failed(branch, stored.step, error, now, self._policy(plan))
        else:
            self._set_alarm()

    def _own_state(self) -> Any:
        """The state for one command or step: a copy, if it could be changed."""
        state = self.state
        if self.host.state_shareable or state is None:
            return state
        return self.host.codec.decode(self.host.encode_state(self.ref, state))

    def step_over(self, run: StepRun, result: Any, error: BaseException | None) -> None:
        """An attempt has ended; told on a slice of this actor."""
        if not self._runs.take(run):
            return
        if error is not None and self.host.engine.stopping:
            # It may only have failed because the service stops; it runs again after the start.
            self._release_waiting()
            return
        if error is None:
            try:
                self._take_result(run, result)
            except Exception as problem:
                error = problem
        if error is not None:
            self._attempt_failed(run, error)
        if not self._runs.any_step() and self._last is None and self._waiting:
            self._release_waiting()

    def _release_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.actor_inbox.put_first(waiting)

    def _take_result(self, run: StepRun, result: Any) -> None:
        if run.branch == FAREWELL:
            cause = {"by": "children", "name": ""}
            self._record_progress({"children_told": True}, cause)
            return
        if run.branch is not None:
            self._take_branch_result(run, result)
            return
        if type(result) is not StepTransition:
            raise TypeError(
                f"step {run.name} returned {result!r:.100}; return what comes next, as "
                "self.step_effects.transition_to(...) or .end()"
            )
        call, answer = self._own_call()
        self._transit(call, result.transition, self._cause("step", run), answer)

    def _take_branch_result(self, run: StepRun, result: Any) -> None:
        assert run.branch is not None
        if type(result) is ChildOutcome:
            value = StoredValue.of(OUTCOMES.encode(result))
        elif type(result) is StepResult:
            plan = self.host.plan.step(run.name)
            assert plan is not None
            info = plan.definition.result
            assert info is not None
            value = StoredValue.of(self.host.step_codec.encode(result.value, name=info.name))
        else:
            raise TypeError(
                f"branch {run.name} returned {result!r:.100}; return its result, as "
                "self.step_effects.result(...)"
            )
        self._record_progress(result_of(run.branch, value), self._cause("branch", run))

    def _join_if_complete(self) -> None:
        fan_out = self.position.fan_out
        if fan_out is None or not self.position.complete(self.progress):
            return
        planner = Planner(self.host, self.ref, self.position, self.progress)
        call, answer = self._own_call()
        cause: dict[str, Any] = {"by": "join", "name": fan_out.then}
        try:
            position = planner.join(self.sequence_number + 1)
        except Exception as error:
            _log.exception("%s: the results can't be given to step %s", self.ref, fan_out.then)
            reason = f"the results can't be given to step {fan_out.then}: {said(error)}"[:MAX_TEXT]
            self._suspend(call, answer, reason, cause)
            return
        self._store(call, position, self.state, cause, answer)

    def _cause(self, by: str, run: StepRun) -> dict[str, Any]:
        return cause_of_attempt(
            by,
            run.name,
            attempt=run.attempt,
            started_at=run.started_at,
            now=self.host.clock.now_ms(),
            branch=run.branch,
        )

    # -- failing ---------------------------------------------------------------------------

    def _attempt_failed(self, run: StepRun, error: BaseException) -> None:
        plan = self.host.plan.step(run.name)
        policy = self.host.plan.settings.recovery if plan is None else self._policy(plan)
        self._failed(run.branch, run.name, error, run.started_at, policy)

    def _policy(self, plan: StepPlan) -> Retry:
        return plan.as_compensation if self.position.compensating else plan.recovery

    def _failed(
        self, branch: int | None, step: str, error: BaseException, started_at: int, policy: Retry
    ) -> None:
        one = self.progress.of(branch)
        failures = one.failures + 1
        policy = policy.for_error(error)
        _log.error("%s: attempt %d of step %s failed", self.ref, failures, step, exc_info=error)
        now = self.host.clock.now_ms()
        cause = cause_of_attempt(
            "attempt",
            step,
            attempt=failures,
            started_at=started_at,
            now=now,
            branch=branch,
            error=error,
        )
        if policy.gives_up(error, failures):
            self._give_up(step, failures, policy, error, cause)
            return
        pause = policy.backoff.pause(failures, random.random())  # noqa: S311 - not a secret
        change = failure(branch, failures, said(error), now + int(pause * 1000))
        if failures % CHECKPOINT_EVERY == 0:
            apply_progress(self.position, self.progress, change)
            call, answer = self._own_call()
            self._store(call, self.position, self.state, cause, answer)
        else:
            self._record_progress(change, cause)

    def _give_up(
        self,
        step: str,
        failures: int,
        policy: Retry,
        error: BaseException,
        cause: dict[str, Any],
    ) -> None:
        target = policy.failover_to
        call, answer = self._own_call()
        if target is None:
            reason = f"step {step} failed {failures} time(s): {said(error)}"[:MAX_TEXT]
            self._suspend(call, answer, reason, cause)
            return
        go = ToStep(target) if isinstance(target, MethodCall) else target
        if isinstance(go, Compensate) and go.reason is None:
            go = Compensate(f"step {step} failed: {said(error)}"[:MAX_TEXT], go.then)
        try:
            self._transit(call, Transition(go), cause, answer)
        except Exception as problem:
            reason = f"step {step} failed, and so did its failover: {said(problem)}"[:MAX_TEXT]
            _log.exception("%s: the failover of step %s can't be gone to", self.ref, step)
            self._suspend(call, answer, reason, cause)

    # -- what is due -----------------------------------------------------------------------

    def _do_what_is_due(self) -> None:
        now = self.host.clock.now_ms()
        self._due_at = None
        # One at a time: where the first leads elsewhere, the others are thrown away.
        while (run := self._runs.take_timed_out(now)) is not None:
            seconds = ((run.times_out_at or 0) - run.started_at) / 1000
            self._attempt_failed(run, StepTimeoutError(run.name, seconds=seconds))
        position = self.position
        if position.delete_at is not None and now >= position.delete_at:
            call, answer = self._own_call()
            self._transit(call, Transition(Delete()), {"by": "expiry", "name": ""}, answer)
        elif not position.over and position.deadline is not None and now >= position.deadline:
            self._run_out_of_time()
        elif position.pause is not None and not position.suspended:
            self._end_pause_if_due(now)
        else:
            self._go_on()
        self._set_alarm()

    def _run_out_of_time(self) -> None:
        position = self.position
        settings = self.host.plan.settings
        if position.timed_out or (position.suspended and settings.on_timeout is not None):
            # The last step runs, or will when the workflow is resumed.
            return
        call, answer = self._own_call()
        cause = {"by": "timeout", "name": ""}
        reason = f"it took longer than {settings.timeout}"
        go: Any = Fail(reason)
        if settings.on_timeout is not None:
            go = ToStep(settings.on_timeout)
        try:
            self._transit(call, Transition(go), cause, answer, is_last=True)
        except Exception as error:
            _log.exception("%s: its last step can't be gone to", self.ref)
            go = Fail(f"{reason}, and its last step can't be gone to: {said(error)}"[:MAX_TEXT])
            self._transit(call, Transition(go), cause, answer)

    def _end_pause_if_due(self, now: int) -> None:
        pause = self.position.pause
        if pause is None or pause.until is None or now < pause.until:
            return
        if self.progress.pause_ran_out or pause.on_timeout is None:
            return
        if self.progress.retry_at is not None and now < self.progress.retry_at:
            return
        try:
            handler = self.host.definition.handler_named(pause.on_timeout.handler)
            values = handler.decode_arguments(pause.on_timeout.arguments.encode())
        except Exception as error:
            # The code has changed since the pause began; somebody has to mend it and resume.
            _log.error("%s: its pause has run out, but: %s", self.ref, error)
            own, answer = self._own_call()
            cause = {"by": "pause-timeout", "name": pause.on_timeout.handler, "error": said(error)}
            reason = f"its pause has run out, but: {said(error)}"[:MAX_TEXT]
            self._suspend(own, answer, reason, cause)
            return
        number = self.position.number
        call = CallRequest(
            self.ref,
            handler,
            values,
            correlation_id=self.position.correlation,
            traceparent=self.position.traceparent,
            principal=self.position.principal,
            causation=f"{self.ref}@{self.position.number}"[:255],
        )
        self._renew()
        self._ends_pause = True
        self._run(call)
        has_failed, self._ends_pause = not self._ends_pause, False
        if not has_failed and self.position.number == number:
            # It has looked, and the pause goes on.
            cause = {"by": "pause-timeout", "name": handler.name}
            self._record_progress({"pause_ran_out": True}, cause)

    def _set_alarm(self) -> None:
        """Note when there is something to do next, in memory and for the next write."""
        self.expires_at = self._stored_due_time()
        times = (self.expires_at, self._runs.next_timeout())
        self._due_at = min((one for one in times if one is not None), default=None)
        self._wake_at(self._due_at)

    def _stored_due_time(self) -> int | None:
        return due_time(
            self.position,
            self.progress,
            running=self._runs,
            has_last_step=self.host.plan.settings.on_timeout is not None,
        )

    # -- from outside ----------------------------------------------------------------------

    def _operate(self, call: CallRequest) -> None:
        name = call.handler.name
        if name == STATUS:
            status = status_of(
                self.position,
                self.progress,
                deleted=self.session.deleted,
                is_running=bool(self._runs),
                due=self._stored_due_time(),
            )
            self._answer(call, Answer(call.handler, status, self.sequence_number))
        elif name == OUTCOME:
            self._watchers = [one for one in self._watchers if not one.expired()]
            self._watchers.append(call)
            if self.position.over or self.session.deleted:
                self._tell_watchers()
        else:
            self._steer(call, name)

    def _steer(self, call: CallRequest, name: str) -> None:
        position = self.position
        answer = Answer(call.handler, None, self.sequence_number + 1)
        reason = call.values[0] if call.values else None
        if position.over or self.session.deleted:
            self._nothing_to_do(call, name)
        elif name == TERMINATE:
            self._terminate(call, answer, reason)
        elif name == SUSPEND and not position.suspended and position.status != "not-started":
            self._suspend(call, answer, reason, {"by": "suspend", "name": ""})
        elif name == RESUME and position.suspended:
            self._resume(call, answer)
        else:
            self._nothing_to_do(call, name)

    def _nothing_to_do(self, call: CallRequest, name: str) -> None:
        _log.debug("%s: nothing to do for %s", self.ref, name)
        self._answer(call, Answer(call.handler, None, self.sequence_number))

    def _terminate(self, call: CallRequest, answer: Answer, reason: str | None) -> None:
        _log.info("%s: workflow terminated, reason [%s]", self.ref, reason or "<none>")
        position = replace(
            Planner(self.host, self.ref, self.position, self.progress).over(
                "terminated",
                reason,
                self.host.clock.now_ms(),
                self.position.pending_children(self.progress),
            ),
            number=self.sequence_number + 1,
        )
        cause = {"by": "terminate", "name": ""}
        self._store(call, position, self.state, cause, answer)

    def _suspend(
        self, call: CallRequest, answer: Answer, reason: str | None, cause: dict[str, Any]
    ) -> None:
        _log.info("%s: workflow suspended, reason [%s]", self.ref, reason or "<none>")
        self._runs.stop()
        position = replace(self.position, suspended=True, suspended_because=reason)
        cause["suspended"] = reason or ""
        self._store(call, position, self.state, cause, answer)
        if self._waiting:
            self._release_waiting()

    def _resume(self, call: CallRequest, answer: Answer) -> None:
        # Whoever resumes has mended something: the attempts count anew.
        self.progress.start_over()
        position = replace(self.position, suspended=False, suspended_because=None)
        self._store(call, position, self.state, {"by": "resume", "name": ""}, answer)
        if self._due_at is not None and self._due_at <= self.host.clock.now_ms():
            self._do_what_is_due()

    def _tell_watchers(self) -> None:
        watchers, self._watchers = self._watchers, []
        status = "deleted" if self.session.deleted else self.position.status
        outcome = ChildOutcome(self.ref.instance, status, self.position.reason)
        for call in watchers:
            self._answer(call, Answer(call.handler, outcome, self.sequence_number))

    # -- leaving ---------------------------------------------------------------------------

    def _forget(self) -> None:
        self._runs.stop()
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.actor_inbox.put_first(waiting)
        watchers, self._watchers = self._watchers, []
        for call in watchers:
            deliver(call, EntityUnavailableError(f"{self.ref} is being recovered; ask again."))
        self._due_at = None
        self.position, self.progress, self.state = Position(), Progress(), None

    def stop_if_idle(self) -> bool:
        """Leave memory, unless a step runs, or something is to be done soon."""
        if self._runs or self._waiting or any(not one.expired() for one in self._watchers):
            return False
        return self._stop_unless_due(self._due_at)

    def questions(self) -> int:
        """How many wait to be told how this workflow ends."""
        return len(self._watchers)

    def is_quiet(self) -> bool:
        """Whether nothing is queued, no step runs, and nothing is on its way to the disk."""
        return not self._runs.any_step() and super().is_quiet()
