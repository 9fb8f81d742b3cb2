"""What a transition comes to: the position after it, with everything encoded and checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from greenroom.components import (
    ChildOutcome,
    Compensate,
    DeferredCall,
    Delete,
    Done,
    End,
    Fail,
    FanOut,
    MethodCall,
    Pause,
    Stay,
    StepDefinition,
    ToStep,
    Transition,
)
from greenroom.persistence import Codec, StoredType
from greenroom.runtime._position import (
    Position,
    Progress,
    StoredBranch,
    StoredCall,
    StoredCommand,
    StoredFanOut,
    StoredPause,
    StoredStatus,
    StoredValue,
    encode_input,
)

if TYPE_CHECKING:
    from greenroom.ids import EntityRef
    from greenroom.runtime._calls import CallRequest
    from greenroom.runtime._workflow_host import WorkflowHost

Children = tuple[tuple[str, str], ...]

OUTCOMES = Codec([StoredType("greenroom.child-outcome", 1, ChildOutcome)])


class Planner:
    """Computes positions for one instance; changes nothing."""

    def __init__(
        self, host: WorkflowHost, ref: EntityRef, position: Position, progress: Progress
    ) -> None:
        self._host = host
        self._ref = ref
        self._position = position
        self._progress = progress

    def plan(
        self,
        transition: Transition,
        *,
        number: int,
        now: int,
        call: CallRequest,
        pending_children: Children,
    ) -> Position:
        """The position after a transition.

        Args:
            transition: What a command or step asked for.
            number: The sequence number under which it will be stored.
            now: Milliseconds since 1970.
            call: What caused it: where traces and principals of a new workflow come from.
            pending_children: Children that are under way, and are left behind.

        Raises:
            TypeError: It names no step of this workflow, or its input does not fit.
            ValueError: Its input could not be read again.
        """
        old = self._position
        base = old
        if old.status == "not-started":
            base = self._begun(old, number, now, call)
        if transition.compensations:
            recorded = tuple(self._stored(one) for one in transition.compensations)
            base = replace(base, compensations=(*base.compensations, *recorded))
        what = transition.next
        if type(what) is Stay:
            return replace(old, compensations=base.compensations)
        position = self._go(base, what, number, now, pending_children)
        if old.timed_out and not position.over and type(what) is not Delete:
            position = self.over(
                "failed", "it ran out of time, and its last step did not end it", now, ()
            )
        if pending_children and not position.over:
            left = dict.fromkeys((*old.children, *pending_children))
            position = replace(position, children=tuple(left))
        return position if position.number == number else replace(position, number=number)

    def _begun(self, old: Position, number: int, now: int, call: CallRequest) -> Position:
        timeout = self._host.plan.timeout_ms
        return replace(
            old,
            number=number,
            deadline=None if timeout is None else now + timeout,
            correlation=call.correlation_id,
            traceparent=call.traceparent,
            principal=call.principal,
        )

    def _go(  # noqa: PLR0911 - one line for each thing that may come next
        self, base: Position, what: Any, number: int, now: int, children: Children
    ) -> Position:
        if base.compensating and not isinstance(what, Done | Fail | End | Delete):
            raise TypeError(
                "a compensation must return self.step_effects.done(), so that the one before it "
                "runs; or fail() or end()"
            )
        match what:
            case ToStep():
                return _at(base, number, step=self._stored(what.call))
            case Pause():
                pause = self._pause(what, now)
                return _at(base, number, status="paused", pause=pause, reason=what.reason)
            case End():
                return self.over("ended", what.reason, now, children)
            case Fail():
                return self.over("failed", what.reason, now, children)
            case Delete():
                return self.over("ended", what.reason, now, children)
            case FanOut():
                return self._fan_out(base, what, number)
            case Compensate():
                after = None if what.then is None else self._stored(what.then)
                base = replace(base, reason=what.reason, after=after)
                return self._compensate(base, number, now, children)
            case Done():
                if not base.compensating:
                    raise TypeError("done() is for compensations; say what comes next instead")
                return self._compensate(base, number, now, children)
        raise TypeError(f"{what!r} is nothing that may come next")

    def _compensate(self, base: Position, number: int, now: int, children: Children) -> Position:
        """The next compensation, the latest first; or what comes after them all."""
        if base.compensations:
            *rest, latest = base.compensations
            base = replace(base, compensations=tuple(rest), compensating=True)
            return _at(base, number, step=latest, reason=base.reason)
        if base.after is not None:
            return _at(replace(base, after=None, compensating=False), number, step=base.after)
        return self.over("failed", base.reason or "it was compensated", now, children)

    def over(
        self, status: StoredStatus, reason: str | None, now: int, children: Children
    ) -> Position:
        """The position of a workflow that has come to an end."""
        old = self._position
        delete_after = self._host.plan.delete_after_ms
        return Position(
            status=status,
            reason=reason,
            children=tuple(dict.fromkeys((*old.children, *children))),
            delete_at=None if delete_after is None else now + delete_after,
            correlation=old.correlation,
            traceparent=old.traceparent,
            principal=old.principal,
        )

    def join(self, number: int) -> Position:
        """The position when every branch has its result."""
        fan_out = self._position.fan_out
        assert fan_out is not None
        results = [
            self._result(self._progress.branches[place].result)
            for place in range(len(fan_out.branches))
        ]
        plan = self._host.plan.step(fan_out.then)
        if plan is None:
            raise LookupError(f"the code has no step {fan_out.then!r} to give the results to")
        return replace(
            self._position,
            number=number,
            fan_out=None,
            step=self._with_results(plan.definition, results),
        )

    def _result(self, value: StoredValue | None) -> Any:
        assert value is not None
        encoded = value.encoded()
        if value.type == "greenroom.child-outcome":
            return OUTCOMES.decode(encoded)
        return self._host.step_codec.decode(encoded)

    def _with_results(self, step: StepDefinition, results: list[Any]) -> StoredCall:
        first = step.parameters[0].name
        return StoredCall(step.name, encode_input(self._host.step_codec, step, {first: results}))

    # -- parts -----------------------------------------------------------------------------

    def _stored(self, call: MethodCall) -> StoredCall:
        step = self._step(call)
        if step.result is not None:
            raise TypeError(
                f"{step.method} is a branch; only parallel(...) and for_each(...) run it"
            )
        return self._encoded(step, call)

    def _encoded(self, step: StepDefinition, call: MethodCall) -> StoredCall:
        try:
            return StoredCall(step.name, encode_input(self._host.step_codec, step, step.bind(call)))
        except Exception as error:
            raise TypeError(f"the input of step {step.method} can't be stored: {error}") from error

    def _step(self, call: MethodCall) -> StepDefinition:
        if not isinstance(call, MethodCall):
            raise TypeError(f"name a step with its input as call(self.step, ...), not {call!r}")
        try:
            return self._host.definition.step_for(call.function)
        except LookupError as error:
            raise TypeError(str(error)) from None

    def _pause(self, what: Pause, now: int) -> StoredPause:
        if what.timeout is None or what.on_timeout is None:
            return StoredPause()
        definition = self._host.definition
        handler = definition.handler_for(what.on_timeout.plain)
        values = handler.bind(what.on_timeout.args, what.on_timeout.kwargs)
        command = StoredCommand(
            definition.id,
            self._ref.instance,
            handler.name,
            handler.encode_arguments(values).decode(),
        )
        return StoredPause(now + int(what.timeout.total_seconds() * 1000), command)

    def _fan_out(self, base: Position, what: FanOut, number: int) -> Position:
        then = self._step(MethodCall(what.then))
        if not then.parameters or then.result is not None:
            raise TypeError(
                f"{then.method} takes the results, so it must be a step with a parameter for them"
            )
        if not what.branches:
            return _at(base, number, step=self._with_results(then, []))
        branches = tuple(self._branch(one) for one in what.branches)
        stored = StoredFanOut(branches, then.name, what.max_concurrency)
        return _at(base, number, fan_out=stored)

    def _branch(self, one: Any) -> StoredBranch:
        if isinstance(one, DeferredCall):
            definition = self._host.engine.definitions.get(one.component)
            if definition is None or definition.kind != "workflow":
                raise TypeError(f"{one} starts no workflow of this service")
            command = StoredCommand(one.component, one.instance, one.handler, one.arguments)
            return StoredBranch(child=command)
        step = self._step(one)
        if step.result is None:
            raise TypeError(
                f"{step.method} can't be a branch: it must return a BranchEffect[...], "
                "as self.step_effects.result(...)"
            )
        return StoredBranch(step=self._encoded(step, one))


def _at(
    base: Position,
    number: int,
    *,
    status: StoredStatus = "running",
    step: StoredCall | None = None,
    fan_out: StoredFanOut | None = None,
    pause: StoredPause | None = None,
    reason: str | None = None,
) -> Position:
    """A position at another place: whatever is not given here is left behind."""
    return replace(
        base, number=number, status=status, step=step, fan_out=fan_out, pause=pause, reason=reason
    )
