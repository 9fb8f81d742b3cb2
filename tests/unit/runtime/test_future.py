"""`ReplyFuture`: threads block on it, coroutines await it, neither stops the other."""

import asyncio
import threading
from _thread import get_ident

import pykka
import pytest

from greenroom.errors import BlockingCallError
from greenroom.runtime._future import ReplyFuture, Wakeups, blocked_threads


def answer_from_thread(future: ReplyFuture[str], value: str, go: threading.Event) -> None:
    def work() -> None:
        go.wait(5)
        future.set(value)

    threading.Thread(target=work, daemon=True).start()


def test_get_blocks_until_another_thread_answers() -> None:
    """A thread that waits is woken by the answer."""
    future: ReplyFuture[str] = ReplyFuture()
    go = threading.Event()
    answer_from_thread(future, "done", go)
    go.set()

    assert future.get(timeout=5) == "done"


def test_get_gives_up_after_its_timeout() -> None:
    """pykka's own exception tells that nobody answered."""
    with pytest.raises(pykka.Timeout):
        ReplyFuture[str]().get(timeout=0.01)


def test_an_error_is_raised_in_the_getter() -> None:
    """An answer may be an error."""
    future: ReplyFuture[str] = ReplyFuture()
    future.fail(KeyError("no"))

    with pytest.raises(KeyError):
        future.get(timeout=1)


def test_the_first_answer_stays() -> None:
    """An asker may have given up; a late answer must not raise in the actor."""
    future: ReplyFuture[str] = ReplyFuture()
    future.set("first")
    future.set("second")
    future.fail(KeyError())

    assert future.get() == "first"


async def test_awaiting_does_not_block_the_event_loop() -> None:
    """pykka's own `await` stops the loop for as long as the answer takes."""
    future: ReplyFuture[str] = ReplyFuture()
    go = threading.Event()
    answer_from_thread(future, "done", go)
    waiting = asyncio.ensure_future(asyncio.wait_for(future, 5))
    turns = 0
    for _ in range(10):
        await asyncio.sleep(0)
        turns += 1
    assert not waiting.done()

    go.set()

    assert await waiting == "done"
    assert turns == 10


async def test_several_coroutines_may_await_the_same_answer() -> None:
    """Every one of them is woken."""
    future: ReplyFuture[str] = ReplyFuture()
    waiting = [asyncio.ensure_future(asyncio.wait_for(future, 5)) for _ in range(3)]
    await asyncio.sleep(0)

    future.set("done")

    assert await asyncio.gather(*waiting) == ["done"] * 3


async def test_get_on_a_running_loop_is_refused() -> None:
    """It would stop everything else on the loop."""
    with pytest.raises(BlockingCallError, match="event loop"):
        ReplyFuture[str]().get(timeout=1)


def test_get_inside_a_handler_is_refused() -> None:
    """It could wait for the very thread it runs on."""
    blocked_threads[get_ident()] = "inside a handler"
    try:
        with pytest.raises(BlockingCallError, match="inside a handler"):
            ReplyFuture[str]().get(timeout=1)
    finally:
        del blocked_threads[get_ident()]


async def test_a_batch_wakes_all_its_coroutines() -> None:
    """Collected wake-ups are sent once, and reach everybody."""
    futures = [ReplyFuture[int]() for _ in range(5)]
    waiting = [asyncio.ensure_future(asyncio.wait_for(one, 5)) for one in futures]
    await asyncio.sleep(0)
    wakeups = Wakeups()
    for number, future in enumerate(futures):
        future.set_later(number, wakeups)
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)

    threading.Thread(target=wakeups.send).start()

    assert await asyncio.gather(*waiting) == [0, 1, 2, 3, 4]


async def test_derived_futures_of_pykka_can_be_awaited() -> None:
    """`map` and `join` run their function in the getter, which must not be the loop."""
    future: ReplyFuture[int] = ReplyFuture()
    doubled = future.map(lambda number: number * 2)
    future.set(21)

    assert await doubled == 42


def test_a_closed_loop_does_not_break_the_answer() -> None:
    """The asker's loop may be gone by the time of the answer."""
    future: ReplyFuture[str] = ReplyFuture()

    async def ask_and_leave() -> None:
        waiting = asyncio.ensure_future(asyncio.wait_for(future, 5))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(ask_and_leave())
    future.set("late")

    assert future.get() == "late"
