"""Alarms: punctual, in order, on the service's clock."""

import asyncio
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from greenroom.clock import SystemClock
from greenroom.runtime._alarms import Alarms
from greenroom.testkit import ManualClock


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=30), st.integers(0, 60))
def test_what_is_due_rings_in_order_unless_it_was_called_off(
    wanted: list[tuple[int, bool]], now: int
) -> None:
    loop = asyncio.new_event_loop()
    clock = ManualClock()
    begin = clock.now_ms()
    alarms = Alarms(clock, loop)
    rung: list[int] = []
    for at, called_off in wanted:
        alarm = alarms.set(begin + at, lambda at=at: rung.append(at))  # type: ignore[misc]
        if called_off:
            alarm.call_off()
    clock.advance(timedelta(milliseconds=now))

    alarms.ring()

    loop.close()
    assert rung == sorted(at for at, called_off in wanted if at <= now and not called_off)


async def test_alarms_ring_by_themselves_on_the_system_s_clock() -> None:
    clock = SystemClock()
    alarms = Alarms(clock, asyncio.get_running_loop())
    rung: list[str] = []
    done = asyncio.Event()
    now = clock.now_ms()
    alarms.set(now + 40, lambda: (rung.append("second"), done.set()))
    alarms.set(now + 20, lambda: rung.append("first"))
    alarms.set(now + 30, lambda: 1 / 0)

    await asyncio.wait_for(done.wait(), 10)

    assert rung == ["first", "second"]
    assert clock.now_ms() >= now + 40


async def test_alarms_may_be_set_by_any_thread() -> None:
    alarms = Alarms(SystemClock(), asyncio.get_running_loop())
    done = asyncio.Event()

    await asyncio.to_thread(alarms.set, 0, done.set)

    await asyncio.wait_for(done.wait(), 10)


async def test_a_stopped_alarm_clock_is_silent() -> None:
    clock = SystemClock()
    alarms = Alarms(clock, asyncio.get_running_loop())
    alarms.set(clock.now_ms() + 10_000, lambda: None)
    await asyncio.sleep(0)
    alarms.stop()

    assert alarms._timer is None
