"""The watchdog: a handler that holds its thread is named once, with the line it is at."""

import logging
import threading
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import pytest

from greenroom.runtime._dispatch import running_slices
from greenroom.runtime._watchdog import Watchdog
from tests.support.eventually import eventually


@pytest.fixture(autouse=True)
def _level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "greenroom.runtime")


@contextmanager
def watching(hold_seconds: float = 0.02) -> Iterator[Watchdog]:
    watchdog = Watchdog(hold_seconds)
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.stop()


class Holding:
    """A thread in the middle of a slice."""

    def __init__(self) -> None:
        self.go_on, self._inside = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        running_slices[get_ident()] = monotonic()
        self._inside.set()
        self.go_on.wait(10)  # the line it is at
        running_slices.pop(get_ident())

    def __enter__(self) -> "Holding":
        self.thread.start()
        assert self._inside.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self.thread.join()


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "has held its thread" in one.message]


def test_a_slice_that_holds_its_thread_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """With its stack."""
    with watching(), Holding():
        assert eventually(lambda: len(reports(caplog)) == 1)
    assert "the line it is at" in reports(caplog)[0]


def test_one_slice_is_named_once_and_the_next_one_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looked = threading.Semaphore(0)
    with watching() as watchdog:
        stopped = watchdog._stopped
        wait = stopped.wait

        def counted(timeout: float) -> bool:
            looked.release()
            return wait(timeout)

        stopped.wait = counted  # type: ignore[method-assign, assignment]
        with Holding():
            assert eventually(lambda: len(reports(caplog)) == 1)
            for _ in range(5):
                assert looked.acquire(timeout=5)
            assert len(reports(caplog)) == 1
        with Holding():
            assert eventually(lambda: len(reports(caplog)) == 2)


def test_a_quick_slice_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is looked at."""
    watchdog = Watchdog(60)
    looks = iter([False, False, False, True])
    watchdog._stopped.wait = lambda _timeout: next(looks)  # type: ignore[method-assign, assignment]
    with Holding():
        watchdog.start()
        watchdog._thread.join()
    assert next(looks, None) is None
    assert reports(caplog) == []


def test_a_stop_ends_its_thread() -> None:
    with watching() as watchdog:
        assert watchdog._thread.is_alive()
    assert not watchdog._thread.is_alive()
