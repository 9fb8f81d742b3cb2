"""Buckets of tokens, against a model that is too slow to be used."""

from datetime import timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from greenroom.components import RateLimit
from greenroom.edge._rate_limit import RateLimiter
from greenroom.testkit import ManualClock

STEPS = st.lists(
    st.tuples(
        st.integers(0, 5_000),  # milliseconds that pass
        st.sampled_from(["ada", "bob"]),
        st.integers(1, 6),  # calls
    ),
    max_size=60,
)


class Bucket:
    """The textbook's bucket, in fractions."""

    def __init__(self, size: int, per_ms: Fraction) -> None:
        self.size = Fraction(size)
        self.per_ms = per_ms
        self.level = Fraction(size)
        self.at = 0

    def spend(self, now: int, calls: int) -> bool:
        self.level = min(self.size, self.level + (now - self.at) * self.per_ms)
        self.at = now
        if self.level < calls:
            return False
        self.level -= calls
        return True


@given(
    steps=STEPS,
    calls=st.integers(1, 7),
    per_ms=st.integers(1, 3_000),
    burst=st.none() | st.integers(1, 10),
)
def test_it_lets_through_what_the_textbook_does(
    steps: list[tuple[int, str, int]], calls: int, per_ms: int, burst: int | None
) -> None:
    """Exactly, however long it runs; and the wait that is told is the shortest that is enough."""
    clock = ManualClock()
    limit = RateLimit(calls, per=timedelta(milliseconds=per_ms), burst=burst)
    limiter = RateLimiter(limit, clock)
    start = clock.now_ms()
    model = {name: Bucket(burst or calls, Fraction(calls, per_ms)) for name in ("ada", "bob")}
    for pause, name, wanted in steps:
        clock.advance(timedelta(milliseconds=pause))
        now = clock.now_ms() - start
        waits = limiter.spend(name, wanted)

        assert (waits == 0) == model[name].spend(now, wanted)
        if waits and wanted <= model[name].size:
            bucket = model[name]
            assert bucket.level + waits * bucket.per_ms >= wanted
            assert bucket.level + (waits - 1) * bucket.per_ms < wanted


def test_a_clock_that_is_set_back_gives_nothing_back() -> None:
    clock = ManualClock()
    limiter = RateLimiter(RateLimit(1, per=timedelta(seconds=1)), clock)
    assert limiter.spend("ada") == 0

    clock.advance(timedelta(hours=-1))

    assert limiter.spend("ada") == 1000
    clock.advance(timedelta(hours=1, seconds=1))
    assert limiter.spend("ada") == 0


def test_callers_do_not_share_a_bucket() -> None:
    limiter = RateLimiter(RateLimit(1), ManualClock())

    assert [limiter.spend("ada"), limiter.spend("bob")] == [0, 0]
    assert limiter.spend("ada") == 60_000


def test_memory_is_bounded_whoever_calls() -> None:
    """Full buckets go first: a caller who is over the limit stays so."""
    clock = ManualClock()
    limiter = RateLimiter(RateLimit(1, per=timedelta(hours=1)), clock, max_buckets=10)
    for number in range(5):
        limiter.spend(f"early-{number}")
    clock.advance(timedelta(minutes=60))
    limiter.spend("ada")
    for number in range(6):
        limiter.spend(f"late-{number}")

    assert len(limiter) <= 10
    assert limiter.spend("ada") > 0
    for number in range(1000):
        limiter.spend(f"flood-{number}")
    assert len(limiter) <= 10


def test_more_than_the_bucket_holds_is_never_there() -> None:
    clock = ManualClock()
    limiter = RateLimiter(RateLimit(2, per=timedelta(seconds=1)), clock)

    assert limiter.spend("ada", 3) > 0
    clock.advance(timedelta(days=1))
    assert limiter.spend("ada", 3) > 0
    assert limiter.spend("ada", 2) == 0
