"""How a call is made: what `with_options` of a client takes, checked."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from greenroom.components import Metadata
from greenroom.errors import CallTimeoutError, CommitUnknownError, GreenroomError, InvalidCallError
from greenroom.ids import is_plain_text

if TYPE_CHECKING:
    from greenroom.runtime._calls import CallRequest

MAX_KEY = 255
"""Characters in an idempotency key."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and how patiently, a call is made again after a failure that allows it.

    Raises:
        InvalidCallError: `times` is no whole number from 0, `first` or `limit` no time from 0,
            `first` is above `limit`, or `jitter` is no number from 0 to 1.

    Only failures that changed nothing are repeated (`retryable` errors), and with an
    idempotency key also a timeout or an unknown commit. What a component declined is never
    repeated. The pause before attempt n is `first * 2**(n-1)`, at most `limit`, plus up to
    `jitter` of itself.

    Example:
        >>> Retries(2, first=timedelta(milliseconds=100), jitter=0.0).pause(2)
        0.2
    """

    times: int
    first: timedelta = timedelta(milliseconds=100)
    limit: timedelta = timedelta(seconds=10)
    jitter: float = 0.1

    def __post_init__(self) -> None:
        if type(self.times) is not int or self.times < 0:
            raise InvalidCallError(
                f"Retries: times must be a whole number from 0, not {self.times!r:.80}."
            )
        for name, span in (("first", self.first), ("limit", self.limit)):
            if not isinstance(span, timedelta) or span < timedelta(0):
                raise InvalidCallError(
                    f"Retries: {name} must be a timedelta from 0, as timedelta(seconds=1), "
                    f"not {span!r:.80}."
                )
        if self.first > self.limit:
            raise InvalidCallError(
                f"Retries: first must not be above limit, as {self.first} is above {self.limit}."
            )
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise InvalidCallError(
                f"Retries: jitter must be a number from 0 to 1, not {self.jitter!r:.80}."
            )

    def pause(self, attempt: int) -> float:
        """Seconds before the given attempt (1 is the first repetition)."""
        # Doubled so often, any time is beyond every limit; more would be beyond a float.
        doubled = self.first.total_seconds() * 2.0 ** min(attempt - 1, 100)
        planned = min(doubled, self.limit.total_seconds())
        return planned * (1 + random.uniform(0, self.jitter))  # noqa: S311 - not a secret

    def goes_on(self, attempt: int, error: BaseException, request: CallRequest) -> bool:
        """Whether a request that has failed so many times is made again."""
        return (
            isinstance(error, GreenroomError)
            and attempt <= self.times
            and self.allows(error, keyed=request.idempotency_key is not None)
        )

    def allows(self, error: GreenroomError, *, keyed: bool) -> bool:
        """Whether a call that failed like this may be made again."""
        return error.retryable or (
            keyed and isinstance(error, CallTimeoutError | CommitUnknownError)
        )


@dataclass(slots=True)
class CallOptions:
    """What `with_options` sets."""

    timeout: timedelta | None = None
    metadata: Metadata | None = None
    idempotency_key: str | None = None
    expected_version: int | None = None
    retries: Retries | None = None
    principal: str | None = None
    correlation_id: str | None = None

    def with_changes(
        self,
        *,
        timeout: timedelta | None,
        metadata: Metadata | None,
        idempotency_key: str | None,
        expected_version: int | None,
        retries: Retries | int | None,
        principal: str | None,
        correlation_id: str | None,
    ) -> CallOptions:
        """These options with others in their places; None leaves one as it is.

        Raises:
            InvalidCallError: One of them can't be what it is to be.
        """
        key = idempotency_key
        if key is not None and not is_plain_text(key, MAX_KEY):
            raise InvalidCallError(
                f"An idempotency key must be text of 1 to {MAX_KEY} characters, without control "
                f"characters: {key!r:.80}."
            )
        if timeout is not None and not isinstance(timeout, timedelta):
            raise InvalidCallError(
                f"timeout must be a timedelta, as timedelta(seconds=2), not {timeout!r}."
            )
        if timeout is not None and timeout <= timedelta(0):
            raise InvalidCallError(f"timeout must be above zero, not {timeout}.")
        if expected_version is not None and (
            type(expected_version) is not int or expected_version < 0
        ):
            raise InvalidCallError(
                f"expected_version must be a whole number from 0, not {expected_version!r:.80}."
            )
        if metadata is not None and not isinstance(metadata, Metadata):
            raise InvalidCallError(f"metadata must be a Metadata, not {metadata!r:.80}.")
        if retries is not None and not isinstance(retries, Retries):
            retries = Retries(retries)
        return CallOptions(
            self.timeout if timeout is None else timeout,
            self.metadata if metadata is None else metadata,
            self.idempotency_key if key is None else key,
            self.expected_version if expected_version is None else expected_version,
            self.retries if retries is None else retries,
            self.principal if principal is None else principal,
            self.correlation_id if correlation_id is None else correlation_id,
        )


NO_OPTIONS = CallOptions()
