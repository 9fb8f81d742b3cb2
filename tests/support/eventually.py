"""Waiting for a fact, with a deadline."""

import time
from collections.abc import Callable


def eventually(fact: Callable[[], bool], *, seconds: float = 10.0) -> bool:
    """Whether the fact comes true before the deadline; looked at every few milliseconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if fact():
            return True
        time.sleep(0.005)
    return fact()
