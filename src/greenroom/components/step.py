"""Steps of a workflow: what a method says about itself, and how a step is named with its input."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import NoneType
from typing import Any, ParamSpec, TypeVar, get_args, overload

from greenroom.ids import without_surrogates

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__greenroom_step__"

MAX_DURATION = timedelta(days=365_000)
"""Of anything that is waited for. What leads past the year 9999 has no date."""


@dataclass(frozen=True, slots=True)
class MethodCall:
    """A method of a workflow with its arguments: what is to be run, later. Made by `call`."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The method's name."""
        return getattr(self.function, "__name__", repr(self.function))

    @property
    def plain(self) -> Any:
        """The function itself, of a bound method too."""
        return getattr(self.function, "__func__", self.function)

    def __repr__(self) -> str:
        given = [repr(one) for one in self.args]
        given += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"call({', '.join([self.name, *given])})"


def call(method: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> MethodCall:
    """Name a step, or a command handler, with its input, wherever one is configured.

    Example:
        >>> Retry(max_retries=2, failover_to=call(self.refund, Refund(...)))  # doctest: +SKIP
    """
    return MethodCall(method, args, kwargs)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between the attempts of a step or a timer.

    The pause before retry n (1 is the first) is `min * factor**(n-1)`, at most `max`, plus up
    to `jitter` of itself, so that what failed together does not come back together.

    Example:
        >>> Backoff(min=timedelta(seconds=1), jitter=0.0).pause(3)
        4.0
    """

    min: timedelta = timedelta(milliseconds=200)
    max: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.min <= self.max <= MAX_DURATION:
            message = (
                f"Backoff needs 0 <= min <= max, and {MAX_DURATION.days} days at most, not "
                f"min={self.min} and max={self.max}."
            )
            raise ValueError(message)
        if not 1 <= self.factor < math.inf or not 0 <= self.jitter <= 1:
            message = (
                f"Backoff needs a factor of 1 or more and a jitter of 0 to 1, not {self.factor} "
                f"and {self.jitter}."
            )
            raise ValueError(message)

    def pause(self, attempt: int, share: float = 0.0) -> float:
        """Seconds before the given retry.

        Args:
            attempt: Counted from 1.
            share: How much of the jitter is added, from 0 to 1; the runtime draws it.
        """
        # Above 64 doublings every pause is the longest one; the power would not fit a float.
        longest = self.max.total_seconds()
        try:
            grown = self.min.total_seconds() * self.factor ** min(attempt - 1, 64)
        except OverflowError:
            grown = longest
        return min(grown, longest) * (1 + self.jitter * share)


@dataclass(frozen=True, slots=True)
class Fail:
    """As a failover: end the workflow as failed."""

    reason: str

    def __post_init__(self) -> None:
        check_reason(self.reason)


@dataclass(frozen=True, slots=True)
class Compensate:
    """As a failover: run the recorded compensations in reverse, then a step, or fail."""

    reason: str | None = None
    then: MethodCall | None = None

    def __post_init__(self) -> None:
        check_reason(self.reason)


@dataclass(frozen=True, slots=True)
class Retry:
    """What happens when a step raises or runs past its timeout.

    Args:
        max_retries: How often it is run again, after the first time; None until it succeeds.
        backoff: How long to wait in between.
        failover_to: Where the workflow goes when the retries are used up: a step, as
            `call(self.refund, ...)`, or `Fail("...")`, or `Compensate()`. Without one the
            workflow is suspended with the error as its reason, for somebody to resume or
            terminate it.
        give_up_on: Errors that are not worth a retry.
        on: What to do instead for some errors; the first class that fits counts.

    Example:
        >>> Retry(max_retries=2, on={ConnectionError: Retry()}).for_error(ConnectionResetError())
        Retry(max_retries=None, backoff=..., failover_to=None, give_up_on=(), on={})
    """

    max_retries: int | None = None
    backoff: Backoff = Backoff()
    failover_to: MethodCall | Fail | Compensate | None = None
    give_up_on: tuple[type[Exception], ...] = ()
    on: Mapping[type[Exception], Retry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_retries(self.max_retries)
        check_kind("backoff", self.backoff, Backoff)
        given_up = self.give_up_on
        if not isinstance(given_up, tuple) or not all(map(_is_error, given_up)):
            message = f"give_up_on must be a tuple of errors, as (ValueError,), not {given_up!r}"
            raise TypeError(message)
        for kind, policy in self.on.items():
            if not _is_error(kind) or not isinstance(policy, Retry):
                message = f"on must have errors and what to do, as {{OSError: Retry(2)}}: {self.on}"
                raise TypeError(message)

    def for_error(self, error: BaseException) -> Retry:
        """The policy that counts for an error."""
        for kind, policy in self.on.items():
            if isinstance(error, kind):
                return policy
        return self

    def gives_up(self, error: BaseException, failures: int) -> bool:
        """Whether a step that has failed so many times in a row is not run again."""
        if isinstance(error, self.give_up_on):
            return True
        return self.max_retries is not None and failures > self.max_retries


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What `WorkflowSettings(steps=...)` says about one step; None leaves it as it is."""

    timeout: timedelta | None = None
    recovery: Retry | None = None

    def __post_init__(self) -> None:
        check_duration("timeout", self.timeout)
        check_kind("recovery", self.recovery, Retry | None)


@dataclass(frozen=True, slots=True)
class StepMark:
    """What `@step` has said about a method."""

    name: str | None
    timeout: timedelta | None
    recovery: Retry | None


@overload
def step(function: F, /) -> F: ...
@overload
def step(
    *,
    name: str | None = None,
    timeout: timedelta | None = None,
    recovery: Retry | None = None,
) -> Callable[[F], F]: ...
def step(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    timeout: timedelta | None = None,
    recovery: Retry | None = None,
) -> F | Callable[[F], F]:
    """Make a method a step of a workflow: it does something, and says what comes next.

    A step may be a `def`, which runs on a thread of its own and may block, or an `async def`,
    which runs on the event loop. It runs after the transition that leads to it is stored, and
    again from its first line after a crash, so what it does must bear repeating; calls to
    components do by themselves.

    Args:
        function: The method, where nothing else is said: `@step`.
        name: The permanent name that is stored; the method's name by default. It must stay
            while instances are in flight (else see `WorkflowSettings.renamed_steps`).
        timeout: How long an attempt may take; then it counts as failed.
        recovery: What happens when it fails.

    Example:
        >>> class Transfer(Workflow[State]):                              # doctest: +SKIP
        ...     @step(timeout=timedelta(seconds=20))
        ...     def withdraw(self, cmd: Withdraw) -> StepEffect:
        ...         self.client.for_event_sourced_entity(Wallet, cmd.source).ask(
        ...             Wallet.withdraw, cmd.amount)
        ...         return self.step_effects.transition_to(self.deposit, Deposit(...))
    """

    def mark(made: F) -> F:
        check_duration("timeout", timeout)
        check_kind("recovery", recovery, Retry | None)
        setattr(made, _MARK, StepMark(name, timeout, recovery))
        return made

    return mark if function is None else mark(function)


def step_mark(function: Any) -> StepMark | None:
    """What `@step` has said about a function."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, StepMark) else None


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a step is a coroutine function."""
    # What is awaited may be a decorator, or what a decorator passes through.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        inspect.unwrap(function)
    )


MAX_REASON = 1000
"""Characters in a reason: it is stored, logged and shown, and is no place for data."""


def check_reason(reason: str | None) -> None:
    """Raises `ValueError` for a reason that says nothing or too much."""
    if reason is None:
        return
    is_text = isinstance(reason, str) and without_surrogates(reason) == reason
    if not is_text or not reason.strip() or len(reason) > MAX_REASON:
        message = (
            f"a reason is text of 1 to {MAX_REASON} characters that is not only blank, and that "
            f"UTF-8 has, not {reason!r:.80}; leave it out if there is none"
        )
        raise ValueError(message)


def check_kind(what: str, value: object, kind: Any) -> None:
    """Raises `TypeError` for a value of another kind."""
    if not isinstance(value, kind):
        kinds = [one.__name__ for one in get_args(kind) if one is not NoneType] or [kind.__name__]
        name = " or ".join(kinds)
        message = f"{what} must be a {name}, not {value!r:.80}"
        raise TypeError(message)


def check_retries(retries: int | None) -> None:
    """Raises `ValueError` for what is no number of retries."""
    if retries is not None and (type(retries) is not int or retries < 0):
        message = f"max_retries must be 0 or more, or None for no limit, not {retries!r:.80}"
        raise ValueError(message)


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def check_duration(what: str, duration: timedelta | None) -> None:
    """Raises for what is no time above zero, or for ever."""
    if duration is None:
        return
    if not isinstance(duration, timedelta):
        message = f"{what} must be a timedelta, as timedelta(seconds=2), not {duration!r}"
        raise TypeError(message)
    if duration <= timedelta(0):
        message = f"{what} needs a time above zero, not {duration}"
        raise ValueError(message)
    if duration > MAX_DURATION:
        message = (
            f"{what} may be {MAX_DURATION.days} days at most, not {duration}; leave it out where "
            "there is no limit"
        )
        raise ValueError(message)
