"""What commands and steps of a workflow ask for, as plain data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, ParamSpec, Self, TypeVar

from greenroom.components.deferred import DeferredCall
from greenroom.components.effects import Effect, EntityEffects, plain_function
from greenroom.components.metadata import Metadata
from greenroom.components.step import (
    Compensate,
    Fail,
    MethodCall,
    check_duration,
    check_kind,
    check_reason,
)

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
In = TypeVar("In")
T = TypeVar("T")


class StepEffect:
    """What a step returns: what the workflow does next. A step fails by raising."""

    __slots__ = ()


class BranchEffect(Generic[R_co]):
    """What a step returns that runs beside others and gives them a result."""

    __slots__ = ()


StepMethod = Callable[P, StepEffect | Awaitable[StepEffect]]
"""A step that says what comes next."""


@dataclass(frozen=True, slots=True)
class ToStep:
    """Go on with a step."""

    call: MethodCall


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for a command that goes on, or for the time to pass."""

    reason: str | None = None
    timeout: timedelta | None = None
    on_timeout: MethodCall | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The workflow has done what it was for; its state stays."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """The workflow ends and its state goes."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class FanOut:
    """Run branches beside each other, then a step with their results."""

    branches: tuple[MethodCall | DeferredCall, ...]
    """`MethodCall` of a step, or a deferred call that starts a child workflow."""
    then: Callable[..., Any]
    max_concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Stay:
    """Change the state, and nothing else (commands only)."""


@dataclass(frozen=True, slots=True)
class Done:
    """A compensation is done; go on with the one before it."""


Next = ToStep | Pause | End | Fail | Delete | FanOut | Compensate | Stay | Done

UNCHANGED: Any = object()
"""Stands for the state that is there."""


@dataclass(slots=True)
class Transition:
    """One change of a workflow: a new state, what comes next, and how to take it back."""

    next: Next
    state: Any = UNCHANGED
    compensations: tuple[MethodCall, ...] = ()
    """Added to those recorded before."""


@dataclass(slots=True)
class StepTransition(StepEffect):
    """The step is over."""

    transition: Transition


@dataclass(slots=True)
class StepResult(BranchEffect[R]):
    """The branch is over, with a result."""

    value: R


@dataclass(slots=True)
class TransitionEffect(Effect[R]):
    """Store a transition, then answer."""

    transition: Transition
    reply: R
    metadata: Metadata | None
    then_run: tuple[Callable[[Any], object], ...]


class Transitions(Generic[T]):
    """Everything that may come next; `T` is what it becomes, in a command or in a step."""

    __slots__ = ("_compensations", "_state")

    def __init__(self, state: Any = UNCHANGED) -> None:
        self._state = state
        self._compensations: tuple[MethodCall, ...] = ()

    def _make(self, transition: Transition) -> T:
        raise NotImplementedError

    def _then(self, what: Next) -> T:
        return self._make(Transition(what, self._state, self._compensations))

    def transition_to(self, step: StepMethod[P], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Go on with a step and its input."""
        return self._then(ToStep(MethodCall(step, args, kwargs)))

    def pause(
        self,
        reason: str | None = None,
        *,
        timeout: timedelta | None = None,
        on_timeout: MethodCall | None = None,
    ) -> T:
        """Wait for a command that goes on.

        Args:
            reason: What is waited for. It is stored, logged and shown: put no secrets in it.
            timeout: How long to wait at most.
            on_timeout: The command handler that is called then, as `call(self.too_late)`. It
                may come late, so it must look at the state; if it only replies, the workflow
                stays paused.

        Raises:
            ValueError: Only one of `timeout` and `on_timeout` is given, or the reason is blank.
        """
        check_reason(reason)
        check_duration("timeout", timeout)
        check_kind("on_timeout", on_timeout, MethodCall | None)
        if (timeout is None) != (on_timeout is None):
            message = "pause needs both timeout and on_timeout, or neither"
            raise ValueError(message)
        return self._then(Pause(reason, timeout, on_timeout))

    def end(self, reason: str | None = None) -> T:
        """The workflow has done what it was for. Its state stays and can be read."""
        check_reason(reason)
        return self._then(End(reason))

    def fail(self, reason: str) -> T:
        """End the workflow as failed. Its state stays and can be read."""
        return self._then(Fail(reason))

    def delete(self, reason: str | None = None) -> T:
        """End the workflow and delete its state; it is purged after `keep_deleted`."""
        check_reason(reason)
        return self._then(Delete(reason))

    def parallel(
        self,
        *branches: MethodCall | DeferredCall,
        then: Callable[[list[Any]], StepEffect | Awaitable[StepEffect]],
        max_concurrency: int | None = None,
    ) -> T:
        """Run steps, or child workflows, beside each other; then a step with their results.

        Args:
            branches: `call(self.quote, "acme")` of steps that return a `BranchEffect`, or
                deferred calls that start child workflows; the result of a child is a
                `ChildOutcome`.
            then: A step that takes the list of the results, in the order of the branches.
            max_concurrency: How many run at the same time; all of them by default.
        """
        return self._then(FanOut(tuple(branches), then, _positive(max_concurrency)))

    def for_each(
        self,
        step: Callable[[In], BranchEffect[R] | Awaitable[BranchEffect[R]]],
        inputs: Iterable[In],
        *,
        then: Callable[[list[R]], StepEffect | Awaitable[StepEffect]],
        max_concurrency: int = 10,
    ) -> T:
        """Run one step for each input, some at a time; then a step with the results in order."""
        branches = tuple(MethodCall(step, (one,)) for one in inputs)
        return self._then(FanOut(branches, then, _positive(max_concurrency)))

    def compensate(self, reason: str | None = None, *, then: MethodCall | None = None) -> T:
        """Run the recorded compensations in reverse, then a step; without one, fail.

        Args:
            reason: Why; becomes the reason of the failure.
            then: The step afterwards, as `call(self.apologise)`.
        """
        return self._then(Compensate(reason, then))


class Transitioned:
    """A transition of a command; `then_reply` makes it an effect."""

    __slots__ = ("_then_run", "_transition")

    def __init__(self, transition: Transition) -> None:
        self._transition = transition
        self._then_run: tuple[Callable[[Any], object], ...] = ()

    def then_run(self, function: Callable[[Any], object]) -> Self:
        """Run a side effect with the new state once it is durable, at most once."""
        self._then_run = (*self._then_run, plain_function(function))
        return self

    def then_reply(self, reply: R, metadata: Metadata | None = None) -> Effect[R]:
        """Answer with a value, once the transition is stored."""
        return TransitionEffect(self._transition, reply, metadata, self._then_run)


class _CommandTransitions(Transitions[Transitioned]):
    __slots__ = ()

    def _make(self, transition: Transition) -> Transitioned:
        return Transitioned(transition)


class CommandUpdate(_CommandTransitions, Generic[S]):
    """A change of a workflow; alone, or with what comes next."""

    __slots__ = ()

    def compensate_with(
        self, step: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs
    ) -> Self:
        """Record one more compensation."""
        self._compensations = (*self._compensations, MethodCall(step, args, kwargs))
        return self

    def then_reply(self, reply: R, metadata: Metadata | None = None) -> Effect[R]:
        """Store the state and answer; the workflow goes on with what it was doing."""
        return self._then(Stay()).then_reply(reply, metadata)


class WorkflowEffects(EntityEffects, _CommandTransitions, Generic[S]):
    """What a command handler of a workflow may ask for."""

    __slots__ = ()

    def update_state(self, state: S) -> CommandUpdate[S]:
        """Store a new state, alone or with a transition."""
        return CommandUpdate(_not_none(state))

    def compensate_with(
        self, step: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs
    ) -> CommandUpdate[S]:
        """Record how what was just done is taken back, should it come to that.

        Recorded compensations are steps that return `self.step_effects.done()`. They run in
        reverse order once a step returns `compensate()`, or a `Retry` says `Compensate()`.
        """
        return CommandUpdate[S]().compensate_with(step, *args, **kwargs)


class _StepTransitions(Transitions[StepEffect]):
    __slots__ = ()

    def _make(self, transition: Transition) -> StepEffect:
        return StepTransition(transition)

    def done(self) -> StepEffect:
        """In a compensation: it is done, go on with the one before it."""
        return self._then(Done())


class StepUpdate(_StepTransitions, Generic[S]):
    """A change of a workflow, before it is said what comes next."""

    __slots__ = ()

    def compensate_with(
        self, step: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs
    ) -> Self:
        """Record one more compensation."""
        self._compensations = (*self._compensations, MethodCall(step, args, kwargs))
        return self


class StepEffects(_StepTransitions, Generic[S]):
    """What a step of a workflow may ask for."""

    __slots__ = ()

    def update_state(self, state: S) -> StepUpdate[S]:
        """Store a new state together with the transition."""
        return StepUpdate(_not_none(state))

    def compensate_with(
        self, step: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs
    ) -> StepUpdate[S]:
        """Record how what was just done is taken back, should it come to that.

        Recorded compensations are steps that return `self.step_effects.done()`. They run in
        reverse order once a step returns `compensate()`, or a `Retry` says `Compensate()`.
        """
        return StepUpdate[S]().compensate_with(step, *args, **kwargs)

    def result(self, value: R) -> BranchEffect[R]:
        """In a branch: its result."""
        return StepResult(value)


def _not_none(state: Any) -> Any:
    if state is None:
        message = "update_state(None) is not a state; leave update_state out to keep the old one."
        raise ValueError(message)
    return state


def _positive(limit: int | None) -> int | None:
    if limit is not None and (type(limit) is not int or limit < 1):
        message = f"max_concurrency must be a whole number, 1 or more, not {limit!r}"
        raise ValueError(message)
    return limit


WORKFLOW: WorkflowEffects[Any] = WorkflowEffects()
STEP: StepEffects[Any] = StepEffects()
