"""Back-offs, policies and named calls."""

from datetime import timedelta
from functools import wraps

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom import Backoff, Fail, Retry, StepSettings, WorkflowSettings, call, step
from greenroom.components import is_async
from greenroom.components.workflow_effects import STEP

moments = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=2))


@given(moments, moments, st.floats(1, 5), st.floats(0, 1), st.integers(1, 10_000), st.floats(0, 1))
def test_pauses_grow_up_to_the_longest(
    first: timedelta, more: timedelta, factor: float, jitter: float, attempt: int, share: float
) -> None:
    backoff = Backoff(min=first, max=first + more, factor=factor, jitter=jitter)

    pause = backoff.pause(attempt, share)

    longest = (first + more).total_seconds()
    assert first.total_seconds() <= pause <= longest * (1 + jitter) + 1e-6
    assert backoff.pause(attempt + 1, share) >= pause


@pytest.mark.parametrize(
    "wrong",
    [
        {"min": timedelta(seconds=-1)},
        {"min": timedelta(seconds=2), "max": timedelta(seconds=1)},
        {"factor": 0.5},
        {"jitter": 2.0},
        {"factor": float("inf")},
        {"factor": float("nan")},
        {"max": timedelta.max},
    ],
)
def test_back_offs_that_can_t_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Backoff needs"):
        Backoff(**wrong)  # type: ignore[arg-type]


def test_a_factor_beyond_every_float_leads_to_the_longest_pause() -> None:
    assert Backoff(factor=1e300, jitter=0.0).pause(65) == 30.0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"max_retries": 1.5}, "max_retries must be 0 or more"),
        ({"max_retries": -1}, "max_retries must be 0 or more"),
        ({"backoff": timedelta(seconds=1)}, "backoff must be a Backoff"),
        ({"give_up_on": ValueError}, "give_up_on must be a tuple of errors"),
        ({"give_up_on": ("ValueError",)}, "give_up_on must be a tuple of errors"),
        ({"on": {OSError: 3}}, "on must have errors and what to do"),
        ({"on": {"OSError": Retry()}}, "on must have errors and what to do"),
    ],
)
def test_policies_that_can_t_be_are_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        Retry(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", ["", " ", "x" * 1001, "\ud800", 5])
def test_reasons_that_can_t_be_stored_are_refused(reason: str) -> None:
    with pytest.raises(ValueError, match="a reason is text of 1 to 1000 characters"):
        Fail(reason)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"recovery": 3}, "recovery must be a Retry"),
        ({"steps": {"a": Retry()}}, "steps\\['a'\\] must be a StepSettings"),
        ({"timeout": timedelta.max}, "timeout may be 365000 days at most"),
        ({"step_timeout": 5}, "step_timeout must be a timedelta"),
        ({"timeout": timedelta(1), "on_timeout": print}, "on_timeout must be a MethodCall"),
    ],
)
def test_settings_that_can_t_be_are_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        WorkflowSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, 1.5, True, "3"])
def test_so_many_at_once_is_a_whole_number(limit: int) -> None:
    with pytest.raises(ValueError, match="max_concurrency must be a whole number"):
        STEP.parallel(then=print, max_concurrency=limit)  # type: ignore[arg-type]


def test_a_step_and_its_settings_take_a_policy() -> None:
    with pytest.raises(TypeError, match="recovery must be a Retry"):
        StepSettings(recovery=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="recovery must be a Retry"):
        step(recovery=3)(print)  # type: ignore[call-overload]


def test_the_first_policy_that_fits_an_error_counts() -> None:
    patient = Retry(5)
    policy = Retry(1, on={OSError: patient, ConnectionError: Retry(9)})

    assert policy.for_error(ConnectionResetError()) is patient
    assert policy.for_error(ValueError()) is policy


def test_retries_are_counted_after_the_first_time() -> None:
    assert [Retry(2).gives_up(ValueError(), failures) for failures in (1, 2, 3)] == [
        False,
        False,
        True,
    ]
    assert not Retry().gives_up(ValueError(), 10_000)
    assert Retry(give_up_on=(ValueError,)).gives_up(ValueError(), 1)


def test_a_call_shows_what_it_calls() -> None:
    def book(room: int, *, night: str) -> None: ...

    assert repr(call(book, 3, night="friday")) == "call(book, 3, night='friday')"


def test_decorated_steps_are_awaited_where_either_part_is() -> None:
    async def waits() -> None: ...

    def blocks() -> None: ...

    @wraps(blocks)
    async def now_waits() -> None: ...

    @wraps(waits)
    def passes_on() -> object:
        return waits()

    assert [is_async(one) for one in (waits, now_waits, passes_on, blocks)] == [
        True,
        True,
        True,
        False,
    ]
