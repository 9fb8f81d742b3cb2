"""The attempts under way of one workflow instance: started, timed out, thrown away."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.clock import to_datetime
from greenroom.components import StepContext, WorkflowSession
from greenroom.components.session import PHASE_STEP
from greenroom.runtime._calls import CallOrigin
from greenroom.runtime._children import run_child, tell_children
from greenroom.runtime._position import decode_input
from greenroom.runtime._step_run import StepRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.runtime._position import Attempts, Position, StoredCall, StoredCommand
    from greenroom.runtime._step_run import StepOwner
    from greenroom.runtime._workflow_host import WorkflowHost
    from greenroom.runtime._workflow_plans import StepPlan

FAREWELL = -1
"""Stands for a branch while children are told that nobody waits for them any more."""


class StepRuns:
    """Under way by their branch; None is the only step of a workflow without branches."""

    def __init__(self, actor: StepOwner, host: WorkflowHost) -> None:
        self._actor = actor
        self._host = host
        self._ref = actor.ref
        self._runs: dict[int | None, StepRun] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, branch: object) -> bool:
        return branch in self._runs

    def __iter__(self) -> Iterator[int | None]:
        return iter(self._runs)

    def any_step(self) -> bool:
        """Whether code of the application runs, and not only waits for children."""
        return any(not one.waits for one in self._runs.values())

    def take(self, run: StepRun) -> bool:
        """Take out an attempt that is over; False when nobody knows it any more."""
        if self._runs.get(run.branch) is not run:
            return False
        del self._runs[run.branch]
        return True

    def take_timed_out(self, now: int) -> StepRun | None:
        """Take out an attempt that has run past its timeout, if there is one, and stop it."""
        for one in self._runs.values():
            if one.times_out_at is not None and now >= one.times_out_at:
                del self._runs[one.branch]
                one.cancel(self._host.engine)
                return one
        return None

    def next_timeout(self) -> int | None:
        """When the first attempt runs past its timeout."""
        times = [one.times_out_at for one in self._runs.values() if one.times_out_at is not None]
        return min(times, default=None)

    def stop(self) -> None:
        """Throw everything away that is under way."""
        runs, self._runs = self._runs, {}
        for run in runs.values():
            run.cancel(self._host.engine)

    def start_step(
        self,
        branch: int | None,
        stored: StoredCall,
        plan: StepPlan,
        *,
        position: Position,
        attempts: Attempts,
        state: Any,
    ) -> None:
        """Begin an attempt of a step.

        Raises whatever the constructor of the workflow, or reading the input, raises.
        """
        host, definition = self._host, plan.definition
        run = self._new_run(branch, definition.name, position, attempts.failures + 1)
        run.times_out_at = run.started_at + plan.timeout_ms
        session: WorkflowSession[Any] = WorkflowSession(self._ref.instance)
        session.state = state
        session.phase = PHASE_STEP
        session.step = StepContext(
            workflow_id=self._ref.instance,
            step=definition.name,
            attempt=run.attempt,
            idempotency_key=run.origin.run,
            cancellation=run.cancellation,
            started_at=to_datetime(run.started_at),
            deadline=to_datetime(run.times_out_at),
            last_error=attempts.error,
            reason=position.reason,
        )
        given = decode_input(host.step_codec, definition, stored)
        object_ = host.new_object(session, origin=run.origin)
        function = partial(definition.function, object_, **given)
        self._runs[branch] = run
        run.start(host.engine, function, is_async=definition.is_async)

    def start_child(
        self, branch: int, command: StoredCommand, *, position: Position, attempts: Attempts
    ) -> None:
        """Start a child workflow, or take up waiting for it."""
        name = f"{command.component}/{command.instance}"
        run = self._runs[branch] = self._new_run(branch, name, position, attempts.failures + 1)
        engine = self._host.engine
        run.start_coroutine(engine, partial(run_child, engine, command, run.origin, self._ref))

    def start_farewell(self, position: Position) -> None:
        """Tell children that nobody waits for them; again until they all know."""
        if FAREWELL in self._runs:
            return
        run = self._runs[FAREWELL] = self._new_run(FAREWELL, "", position, 1)
        engine = self._host.engine
        reason = f"its parent {self._ref} does not wait for it any more"
        run.start_coroutine(engine, partial(tell_children, engine, position.children, reason))

    def _new_run(self, branch: int | None, name: str, position: Position, attempt: int) -> StepRun:
        now = self._host.clock.now_ms()
        place = "" if branch is None else f".{branch}"
        key = f"{self._ref}@{position.number}{place}"
        origin = CallOrigin(
            key,
            keep_until=now + self._host.keep_step_keys_ms,
            correlation_id=position.correlation,
            causation=key[:255],
            traceparent=position.traceparent,
            principal=position.principal,
        )
        return StepRun(self._actor, branch, name, attempt=attempt, started_at=now, origin=origin)
