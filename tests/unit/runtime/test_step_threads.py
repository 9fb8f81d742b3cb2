"""Threads for steps: as many as are needed, up to a limit, and never lost."""

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import pytest

from greenroom.runtime._step_threads import StepThreads
from tests.support.eventually import eventually


@pytest.fixture
def threads() -> Iterator[StepThreads]:
    made = StepThreads(2)
    yield made
    made.stop()


def run_all(threads: StepThreads, works: list[Callable[[], None]]) -> None:
    done = threading.Barrier(len(works) + 1, timeout=10)
    for work in works:
        threads.submit(lambda work=work: (work(), done.wait()))  # type: ignore[misc]
    done.wait()


def test_work_runs_beside_other_work(threads: StepThreads) -> None:
    run_all(threads, [lambda: None, lambda: None])


def test_what_is_too_much_waits_in_line(threads: StepThreads) -> None:
    gate, ran = threading.Event(), []
    for number in range(4):
        threads.submit(lambda number=number: (gate.wait(10), ran.append(number)))  # type: ignore[misc]
    assert threads._started == 2
    gate.set()

    assert eventually(lambda: sorted(ran) == [0, 1, 2, 3])


def test_what_was_given_up_makes_room_for_others(threads: StepThreads) -> None:
    gate, ran = threading.Event(), threading.Event()
    stuck = [threads.submit(lambda: (gate.wait(10), None)[1]) for _ in range(2)]
    assert eventually(lambda: all(one.started for one in stuck))
    threads.submit(ran.set)
    for one in stuck:
        one.give_up()
        one.give_up()

    assert ran.wait(10)
    gate.set()


def test_what_was_given_up_in_line_never_runs(threads: StepThreads) -> None:
    gate, ran = threading.Event(), []
    for _ in range(2):
        threads.submit(lambda: (gate.wait(10), None)[1])
    given_up = threads.submit(lambda: ran.append("given up"))
    given_up.give_up()
    last = threads.submit(lambda: ran.append("last"))
    gate.set()

    assert eventually(lambda: last.done)
    assert ran == ["last"]


def test_a_thread_is_used_again(threads: StepThreads) -> None:
    for _ in range(20):
        done = threading.Event()
        work = threads.submit(done.set)
        assert done.wait(10)
        assert eventually(lambda work=work: work.done and threads._idle > 0)  # type: ignore[misc]

    assert threads._started == 1


def test_what_raises_leaves_its_thread_alive(threads: StepThreads) -> None:
    def broken() -> None:
        raise SystemExit

    threads.submit(broken)
    run_all(threads, [lambda: None, lambda: None])


def test_work_sees_the_context_it_was_submitted_in(threads: StepThreads) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    variable.set("mine")
    seen: list[str] = []
    done = threading.Event()
    threads.submit(lambda: (seen.append(variable.get()), done.set())[1])

    assert done.wait(10)
    assert seen == ["mine"]


def test_threads_end_when_they_are_stopped() -> None:
    threads = StepThreads(2)
    run_all(threads, [lambda: None, lambda: None])
    threads.stop()

    assert eventually(lambda: threads._counted == 0)


def test_what_still_waits_in_line_at_a_stop_can_be_given_up(threads: StepThreads) -> None:
    gate, ran = threading.Event(), []
    for _ in range(2):
        threads.submit(lambda: (gate.wait(10), None)[1])
    in_line = threads.submit(lambda: ran.append("in line"))
    threads.stop()
    in_line.give_up()
    gate.set()

    assert eventually(lambda: threads._counted == 0)
    assert ran == []
