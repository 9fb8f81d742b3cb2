"""Deadlines: whoever waits is told in time, and nothing of those in time stays behind."""

import asyncio
from time import monotonic
from typing import Any

import pytest

from greenroom.components import define_all
from greenroom.errors import CallTimeoutError
from greenroom.ids import EntityRef
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._deadlines import Deadlines
from greenroom.runtime._dispatch import OwnLoop
from greenroom.runtime._future import ReplyFuture
from tests.support.components import Counter
from tests.support.eventually import eventually

[COUNTER] = define_all([Counter])
INCREASE = COUNTER.handler_named("increase")


def a_call(seconds: float) -> CallRequest:
    call = CallRequest(EntityRef("counter", "a"), INCREASE, (1,), timeout=seconds)
    call.reply_to = ReplyFuture()
    call.deadline = monotonic() + seconds
    return call


def future_of(call: CallRequest) -> ReplyFuture[Answer]:
    assert call.reply_to is not None
    return call.reply_to


async def test_a_call_whose_deadline_passes_is_told() -> None:
    """With how long it waited."""
    deadlines = Deadlines(asyncio.get_running_loop())
    call = a_call(0.05)
    deadlines.watch(call)

    with pytest.raises(CallTimeoutError, match=r"within 0.05 s") as caught:
        await asyncio.wait_for(_answer(call), 5)
    assert caught.value.ref == call.ref
    assert monotonic() >= call.deadline


async def _answer(call: CallRequest) -> Answer:
    return await future_of(call)


async def test_a_short_deadline_does_not_wait_behind_a_long_one() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    long, short = a_call(60), a_call(0.05)
    deadlines.watch(long)
    deadlines.watch(short)

    with pytest.raises(CallTimeoutError):
        await asyncio.wait_for(_answer(short), 5)
    assert not future_of(long).done()


async def test_an_answer_in_time_stays() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    call, later = a_call(0.05), a_call(0.1)
    deadlines.watch(call)
    deadlines.watch(later)
    answer = Answer(INCREASE, 7, 1)
    future_of(call).set(answer)

    with pytest.raises(CallTimeoutError):
        await asyncio.wait_for(_answer(later), 5)
    assert future_of(call).result() is answer


async def test_what_was_answered_leaves_as_newer_calls_come() -> None:
    """A busy service never waits for a tick to let go of a call."""
    deadlines = Deadlines(asyncio.get_running_loop())
    for _ in range(1000):
        call = a_call(60)
        deadlines.watch(call)
        future_of(call).set(Answer(INCREASE, 1, 1))

    [queue] = deadlines._waiting.values()
    assert len(queue) <= 2


def test_nothing_ticks_when_nobody_waits() -> None:
    """And it ticks again for the next one."""
    own = OwnLoop()
    deadlines = Deadlines(own.loop)
    try:
        for _ in range(3):
            call = a_call(0.01)
            deadlines.watch(call)
            with pytest.raises(CallTimeoutError):
                future_of(call).get(timeout=5)
            assert eventually(lambda: not deadlines._ticking and not deadlines._waiting)
    finally:
        own.stop()


def test_calls_may_be_watched_from_many_threads() -> None:
    """Each is told, whichever thread brought it."""
    import threading

    own = OwnLoop()
    deadlines = Deadlines(own.loop)
    calls = [a_call(0.02 * (1 + number % 5)) for number in range(400)]
    line = threading.Barrier(8)

    def work(mine: list[CallRequest]) -> None:
        line.wait()
        for call in mine:
            deadlines.watch(call)

    threads = [threading.Thread(target=work, args=(calls[place::8],)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        for call in calls:
            with pytest.raises(CallTimeoutError):
                future_of(call).get(timeout=5)
    finally:
        own.stop()


def test_a_call_without_a_deadline_never_expires() -> None:
    call: Any = CallRequest(EntityRef("counter", "a"), INCREASE, (1,))
    assert not call.expired()
    call.deadline = monotonic() - 1
    assert call.expired()
