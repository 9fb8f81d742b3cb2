"""The correlation id of a request."""

from typing import Any

import pytest

from greenroom.logs import correlation_id
from greenroom.web._correlation import CorrelationMiddleware


async def test_an_id_is_taken_from_the_request_and_sent_back() -> None:
    seen, answered = await _through([(b"x-correlation-id", b"order-7")])

    assert (seen, answered) == ("order-7", "order-7")


async def test_an_id_is_made_where_none_came() -> None:
    first, second = await _through([]), await _through([])

    assert first[0] == first[1]
    assert first[0] != second[0]
    assert len(first[0]) == 32


@pytest.mark.parametrize("bad", [b"", b"a b", b"x" * 129, b"a\xffb", b"<script>"])
async def test_an_id_that_may_not_be_logged_is_replaced(bad: bytes) -> None:
    seen, answered = await _through([(b"x-correlation-id", bad)])

    assert seen == answered
    assert len(seen) == 32


async def test_the_id_ends_with_the_request() -> None:
    await _through([(b"x-correlation-id", b"order-7")])

    assert correlation_id.get() is None


async def _through(headers: list[tuple[bytes, bytes]]) -> tuple[str, str]:
    seen: list[str | None] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(correlation_id.get())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})

    async def receive() -> Any:
        raise AssertionError

    async def keep(message: Any) -> None:
        sent.append(message)

    await CorrelationMiddleware(app)({"type": "http", "headers": headers}, receive, keep)
    assert sent[0]["headers"][0] == (b"a", b"b")
    answered = dict(sent[0]["headers"])[b"x-correlation-id"].decode()
    assert seen[0] is not None
    return seen[0], answered
