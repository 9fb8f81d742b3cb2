"""Back-offs, policies and named calls."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom import Backoff, Retry, call

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
    ],
)
def test_back_offs_that_can_t_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Backoff needs"):
        Backoff(**wrong)  # type: ignore[arg-type]


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
