"""The contract of both dispatchers: each slice runs once, and nothing it raises ends them."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from greenroom.runtime._dispatch import Dispatcher, LoopDispatcher, OwnLoop, PoolDispatcher


@pytest.fixture(params=["loop", "pool"])
def dispatcher(request: pytest.FixtureRequest) -> Iterator[Dispatcher]:
    if request.param == "pool":
        pool = PoolDispatcher(2)
        yield pool
        pool.stop()
        return
    own = OwnLoop()
    loop = LoopDispatcher(own.loop)
    own.loop.call_soon_threadsafe(loop.attach)
    yield loop
    own.stop()


def test_a_scheduled_slice_runs_once(dispatcher: Dispatcher) -> None:
    """A thousand slices from four threads: each runs, none twice."""
    ran: list[int] = []
    done = threading.Event()
    lock = threading.Lock()

    def slice_(number: int) -> None:
        with lock:
            ran.append(number)
            if len(ran) == 1000:
                done.set()

    def schedule(start: int) -> None:
        for number in range(start, start + 250):
            dispatcher.schedule(lambda number=number: slice_(number))  # type: ignore[misc]

    threads = [threading.Thread(target=schedule, args=(n * 250,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert done.wait(10)
    assert sorted(ran) == list(range(1000))


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_a_slice_that_raises_does_not_end_it(
    dispatcher: Dispatcher, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """What a slice raises is logged, and the next slice runs."""
    done = threading.Event()

    def broken() -> None:
        raise error

    dispatcher.schedule(broken)
    dispatcher.schedule(done.set)

    assert done.wait(10)


def test_a_slice_may_schedule_another(dispatcher: Dispatcher) -> None:
    """An actor with more to do goes to the back of the queue."""
    done = threading.Event()
    dispatcher.schedule(lambda: dispatcher.schedule(done.set))

    assert done.wait(10)


def test_only_the_loop_forbids_waiting_for_the_disk(dispatcher: Dispatcher) -> None:
    """Workers may block; an event loop may not; a thread that lends itself may."""
    seen: list[bool] = []
    done = threading.Event()

    def look() -> None:
        seen.append(dispatcher.blocking_allowed())
        done.set()

    dispatcher.schedule(look)
    assert done.wait(10)
    assert seen == [isinstance(dispatcher, PoolDispatcher)]
    assert dispatcher.blocking_allowed()


def test_a_task_that_exits_does_not_end_the_loop_for_the_others() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def gather() -> list[BaseException | None]:
        return await asyncio.gather(leave(), return_exceptions=True)

    async def work() -> str:
        return "done"

    own = OwnLoop()
    left = asyncio.run_coroutine_threadsafe(gather(), own.loop)

    assert asyncio.run_coroutine_threadsafe(work(), own.loop).result(10) == "done"
    [error] = left.result(10)
    assert isinstance(error, SystemExit)
    own.stop()
