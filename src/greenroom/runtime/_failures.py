"""Failures in a row, and how long an instance is left alone after them."""

from __future__ import annotations

import random
from time import monotonic
from typing import TYPE_CHECKING, Self

from greenroom.errors import EntityUnavailableError

if TYPE_CHECKING:
    from greenroom.ids import EntityRef

BACKOFF_FIRST, BACKOFF_LIMIT = 0.2, 10.0
"""Seconds; doubled with each failure from the second on."""
QUARANTINE_FAILURES, QUARANTINE_SECONDS = 10, 60.0
"""An instance that failed ten times in a row is left alone for a minute at a time."""


class Failures:
    """Counts the failures of one instance since it last handled a command."""

    __slots__ = ("_count", "_retry_at")

    def __init__(self) -> None:
        self._count = 0
        self._retry_at = 0.0

    def one_more(self) -> Self:
        """Another failure; the first one costs no waiting."""
        self._count += 1
        if self._count >= QUARANTINE_FAILURES:
            self._retry_at = monotonic() + QUARANTINE_SECONDS
        elif self._count > 1:
            pause = min(BACKOFF_LIMIT, BACKOFF_FIRST * 2.0 ** (self._count - 2))
            # Jitter, so that many instances that failed together do not come back together.
            self._retry_at = monotonic() + pause * random.uniform(0.8, 1.2)  # noqa: S311
        return self

    def must_wait(self) -> bool:
        """Whether it is too early to try again."""
        return self._retry_at > 0.0 and monotonic() < self._retry_at

    def refusal(self, ref: EntityRef) -> EntityUnavailableError:
        """What a caller is told meanwhile."""
        seconds = max(0.0, self._retry_at - monotonic())
        how = "is quarantined" if self._count >= QUARANTINE_FAILURES else "is backing off"
        return EntityUnavailableError(
            f"{ref} failed {self._count} times in a row and {how}; try again in {seconds:.1f} s. "
            "The failures are in the log."
        )
