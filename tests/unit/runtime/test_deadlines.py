"""Deadlines: whoever waits is told in time, and nothing of those in time stays behind."""

import asyncio
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import pytest

from greenroom import Effect, KeyValueEntity, ReadOnlyEffect, component
from greenroom.components import define_all
from greenroom.errors import CallTimeoutError, CommandError
from greenroom.ids import EntityRef
from greenroom.runtime import Runtime
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._deadlines import Deadlines, refuse_late
from greenroom.runtime._dispatch import OwnLoop
from greenroom.runtime._future import ReplyFuture
from greenroom.settings import Settings
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


# -- handlers that hold their caller's thread ----------------------------------------------


def answered(late: bool, answer: Answer | BaseException) -> ReplyFuture[Answer]:
    call = a_call(-1.0 if late else 60.0)
    future = future_of(call)
    if isinstance(answer, BaseException):
        future.fail(answer)
    else:
        future.set(answer)
    return refuse_late(call, future)


def test_an_answer_after_the_deadline_is_a_timeout_that_says_what_happened() -> None:
    answer = Answer(INCREASE, 1, 1)

    assert answered(False, answer).result() is answer
    with pytest.raises(CallTimeoutError, match="it was carried out later") as caught:
        answered(True, answer).result()
    assert caught.value.carried_out


def test_an_error_after_the_deadline_stays_what_it_is() -> None:
    """It says better what became of the command."""
    with pytest.raises(CommandError, match="no"):
        answered(True, CommandError("no")).result()


@component("slow")
class Slow(KeyValueEntity[int]):
    """Its handlers hold the thread they are run on until after a moment."""

    def empty_state(self) -> int:
        return 0

    def put(self, number: int, until: float) -> Effect[int]:
        _hold(until)
        return self.effects.update_state(number).then_reply(number)

    def decline(self, until: float) -> Effect[int]:
        _hold(until)
        return self.effects.error("no")

    def get(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.state)


def _hold(until: float) -> None:
    while monotonic() < until:
        pass


LIMIT = timedelta(milliseconds=200)


def after_the_deadline() -> float:
    return monotonic() + 2 * LIMIT.total_seconds()


@pytest.mark.parametrize("dispatcher", ["loop", "pool"])
async def test_a_timeout_comes_when_the_handler_returns_at_the_latest(
    tmp_path: Path, dispatcher: Literal["loop", "pool"]
) -> None:
    """On whatever thread it ran; with a key the call may be repeated."""
    file = f"sqlite:///{tmp_path}/slow.db"
    runtime = Runtime([Slow], settings=Settings(database_url=file, dispatcher=dispatcher))
    await runtime.start_async()
    try:
        hasty = runtime.async_client.for_key_value_entity(Slow, "a").with_options(
            timeout=LIMIT, idempotency_key="k"
        )
        with pytest.raises(CallTimeoutError):
            await hasty.ask(Slow.put, 1, after_the_deadline())

        def on_a_thread() -> None:
            slow = runtime.client.for_key_value_entity(Slow, "b").with_options(timeout=LIMIT)
            with pytest.raises(CallTimeoutError) as caught:
                slow.ask(Slow.put, 2, after_the_deadline())
            assert caught.value.carried_out
            assert slow.with_options(timeout=timedelta(seconds=5)).ask(Slow.get) == 2
            with pytest.raises(CommandError, match="no"):
                slow.ask(Slow.decline, after_the_deadline())

        await asyncio.to_thread(on_a_thread)
    finally:
        await runtime.stop_async()
