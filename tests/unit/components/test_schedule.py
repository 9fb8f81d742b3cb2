"""When something that is done again and again is next due."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.components import Schedule

TIMES = st.integers(min_value=0, max_value=4 * 10**12)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@given(due=TIMES, every=st.integers(min_value=1, max_value=10**11), late=TIMES)
def test_every_so_often_stays_on_its_grid(due: int, every: int, late: int) -> None:
    """The next time is later than now, by no more than the interval, whatever was missed."""
    now = due + late
    following = Schedule(every_ms=every).after(due=due, now=now)

    assert following is not None
    assert now < following <= now + every
    assert (following - due) % every == 0


def test_what_was_done_early_by_a_clock_that_went_back_is_not_done_twice() -> None:
    assert Schedule(every_ms=10).after(due=100, now=95) == 110
    assert Schedule(cron="* * * * *").after(due=60_000, now=59_000) == 120_000


def test_once_is_once() -> None:
    assert Schedule().after(due=1, now=1) is None
    with pytest.raises(ValueError, match="needs every"):
        Schedule().first(1)


@pytest.mark.parametrize(
    ("now", "following"),
    [
        # The hour that is left out in spring: the job runs when the clock has gone on.
        ("2030-03-31T00:00", "2030-03-31T01:00"),
        # The hour that comes twice in autumn: once.
        ("2030-10-27T00:00", "2030-10-27T00:30"),
        ("2030-10-27T00:30", "2030-10-28T01:30"),
    ],
)
def test_cron_knows_summer_time(now: str, following: str) -> None:
    """Half past two at night in Paris."""
    schedule = Schedule(cron="30 2 * * *", timezone="Europe/Paris")
    assert schedule.after(due=at(now), now=at(now)) == at(following)


def test_a_schedule_says_what_it_is() -> None:
    assert str(Schedule()) == "once"
    assert str(Schedule(every_ms=1500)) == "every 1.5 s"
    assert str(Schedule(cron="0 0 * * *")) == "0 0 * * * (UTC)"
