"""What becomes of calls whose write did not go in."""

import pytest

from greenroom.components import define_all
from greenroom.errors import ConcurrentWriteError, IdempotencyKeyReusedError
from greenroom.ids import EntityRef
from greenroom.persistence import CommandWrite, Receipt
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._future import ReplyFuture
from greenroom.runtime._settling import is_same_call, sort_out
from greenroom.runtime._writer import Life, PendingWrite
from tests.support.components import Counter

REF = EntityRef("counter", "a")
[COUNTER], [COUNTER_AGAIN] = define_all([Counter]), define_all([Counter])
INCREASE = COUNTER.handler_named("increase")


def call(key: str | None, by: int = 1) -> CallRequest:
    return CallRequest(REF, INCREASE, (by,), idempotency_key=key, reply_to=ReplyFuture())


def answer_of(waiting: CallRequest) -> Answer:
    assert waiting.reply_to is not None
    return waiting.reply_to.get(timeout=0)


def test_who_waits_with_a_key_that_was_used_before_has_the_answer_of_the_first() -> None:
    """All at once, however many: each would find out for itself, and in the end give up."""
    first, same, other_call, other_key = call("k"), call("k"), call("k", by=2), call("l")
    write = PendingWrite(
        None,  # type: ignore[arg-type]
        Life(),
        first,
        CommandWrite([]),
        Answer(INCREASE, 5, 3),
        None,
        None,
    )
    for waiting in (same, other_call, other_key):
        write.hold(waiting, write.answer)
    write.duplicate = Receipt(
        "k", "increase", None, INCREASE.fingerprint((1,)), b"5", 0, sequence_number=2
    )
    write.fail(ConcurrentWriteError(REF, expected=2))
    again: list[CallRequest] = []

    sort_out([write], again)

    assert (answer_of(first).json, answer_of(same).json) == (b"5", b"5")
    with pytest.raises(IdempotencyKeyReusedError):
        answer_of(other_call)
    assert again == [other_key]


def test_one_call_may_come_by_two_doors() -> None:
    """An endpoint and the runtime have each read the class for themselves."""
    by_endpoint = CallRequest(REF, COUNTER_AGAIN.handler_named("increase"), (1,))

    assert by_endpoint.handler is not INCREASE
    assert is_same_call(by_endpoint, call("k"))
    assert not is_same_call(by_endpoint, call("k", by=2))
    twice = CallRequest(REF, COUNTER.handler_named("increase_twice"), (1,))
    assert not is_same_call(by_endpoint, twice)
