"""What becomes of a call whose write failed, or whose idempotency key was used before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.errors import ConcurrentWriteError, IdempotencyKeyReusedError
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._writer import PendingWrite, deliver

if TYPE_CHECKING:
    from greenroom.errors import PersistenceError
    from greenroom.persistence import Receipt

MAX_ATTEMPTS = 10
"""How often a command runs again because somebody else wrote first."""
NOTHING: Any = object()
"""The answer to a message that nobody waits for."""


def is_same_call(first: CallRequest, second: CallRequest) -> bool:
    """Whether two calls of one instance ask for the same, by whatever door they came."""
    return (
        # Endpoints and the runtime read the classes each for themselves: the name is the same.
        first.handler.name == second.handler.name
        and first.principal == second.principal
        and first.handler.fingerprint(first.values) == second.handler.fingerprint(second.values)
    )


def from_receipt(call: CallRequest, receipt: Receipt) -> Answer | BaseException:
    """The answer that the first use of a key got, if this is the same call."""
    same = (
        receipt.handler == call.handler.name
        and receipt.principal == call.principal
        and receipt.fingerprint == call.handler.fingerprint(call.values)
    )
    if not same:
        return IdempotencyKeyReusedError(call.ref, receipt.key)
    return Answer.stored(call.handler, receipt.reply, receipt.sequence_number)


def sort_out(writes: list[PendingWrite], again: list[CallRequest]) -> None:
    """Decide for each call that waited for failed writes whether it runs again.

    Args:
        writes: All that failed together, in their order.
        again: Takes the calls that run again.
    """
    # Where keys had been used, nobody else was quicker, and fewer calls are left each time.
    counts = all(one.duplicate is None for one in writes)
    for write in writes:
        _sort_out(write, again, counts=counts)


def _sort_out(write: PendingWrite, again: list[CallRequest], *, counts: bool) -> None:
    error = write.error
    conflict = isinstance(error, ConcurrentWriteError)
    if write.duplicate is not None:
        deliver(write.call, from_receipt(write.call, write.duplicate))
    else:
        _rerun_or_fail(write.call, conflict=conflict, error=error, again=again, counts=counts)
    for call, _ in write.held or ():
        if type(call) is CallRequest and _has_key(call, write.duplicate):
            deliver(call, from_receipt(call, write.duplicate))
        elif type(call) is CallRequest:
            _rerun_or_fail(call, conflict=conflict, error=error, again=again, counts=counts)
        else:
            deliver(call, NOTHING)


def _has_key(call: CallRequest, used: Receipt | None) -> bool:
    return used is not None and call.idempotency_key == used.key


def _rerun_or_fail(
    call: CallRequest,
    *,
    conflict: bool,
    error: PersistenceError | None,
    again: list[CallRequest],
    counts: bool,
) -> None:
    if counts:
        call.attempts += 1
    if conflict and call.attempts <= MAX_ATTEMPTS and call.handler.name:
        again.append(call)
    elif error is not None:
        deliver(call, error)
