"""Between processes: errors and calls arrive as they were sent, and strangers get nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from time import monotonic
from typing import Any
from uuid import UUID

import orjson
import pytest

from greenroom import CommandError, Metadata
from greenroom.components import define_all
from greenroom.errors import (
    CallError,
    CallTimeoutError,
    EntityUnavailableError,
    GreenroomError,
    InternalError,
    InvalidArgumentsError,
    InvalidCallError,
    NotOwnerError,
    OverloadedError,
    PayloadTooLargeError,
    UnknownComponentError,
    UnknownHandlerError,
    VersionMismatchError,
)
from greenroom.ids import EntityRef
from greenroom.runtime import _peers
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._peers import PeerClients, PeerServer, decode_request, encode_request
from greenroom.runtime._wire_errors import decode_error, encode_error
from tests.support.components import Counter, ProfileEntity, TooMuchError

REF = EntityRef("counter", "a")
DEFINITIONS = {one.id: one for one in define_all([Counter, ProfileEntity])}
SECRET = "sésame"

# -- errors --------------------------------------------------------------------------------


class PartsError(CommandError):
    """Declined for many reasons."""

    code = "parts"

    def __init__(self, **parts: object) -> None:
        vars(self).update(parts)
        super().__init__("Declined.")


def over_the_wire(error: BaseException) -> GreenroomError:
    return decode_error(orjson.loads(orjson.dumps(encode_error(error))))


@pytest.mark.parametrize(
    "part",
    [
        None,
        True,
        7,
        1.5,
        "é🙂",
        [1, "two", [3]],
        (1, ("two",)),
        {"is": "tuple", "value": [1]},
        {"a": {"b": (1,)}},
        REF,
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        date(2026, 1, 2),
        timedelta(days=-1, microseconds=1),
        Decimal("1.10"),
        UUID(int=7),
    ],
    ids=repr,
)
def test_a_part_of_an_error_arrives_as_what_it_was(part: object) -> None:
    """Of the same type, at any depth."""
    arrived: Any = over_the_wire(PartsError(part=part, parts=[part]))

    assert type(arrived) is PartsError
    assert arrived.part == part
    assert type(arrived.part) is type(part)
    assert arrived.parts == [part]


@pytest.mark.parametrize("part", [object(), {1: "a"}, {"a"}, 2**70, b"bytes", [object()]])
def test_a_part_that_can_not_be_sent_stays_behind(part: object) -> None:
    """The error arrives all the same, with its other parts."""
    arrived: Any = over_the_wire(PartsError(part=part, other=1))

    assert type(arrived) is PartsError
    assert not hasattr(arrived, "part")
    assert arrived.other == 1
    assert str(arrived) == "Declined."


@pytest.mark.parametrize(
    "error",
    [
        TooMuchError(5),
        VersionMismatchError(REF, expected=1, actual=2),
        InvalidArgumentsError("counter.increase", ["by: too small", "at: unknown"]),
        UnknownComponentError("cart", ["counter"]),
        OverloadedError(REF, limit=5),
        CallTimeoutError(REF, "increase", seconds=2.5),
        PayloadTooLargeError("It", size=2, limit=1, setting="X"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_error_arrives_as_its_own_class_with_its_parts(error: GreenroomError) -> None:
    arrived = over_the_wire(error)

    assert type(arrived) is type(error)
    assert vars(arrived) == vars(error)
    assert str(arrived) == str(error)


def test_an_unexpected_error_keeps_its_details_at_home() -> None:
    """They are in the log of the process that raised it."""
    arrived = over_the_wire(ZeroDivisionError("a secret detail"))

    assert type(arrived) is InternalError
    assert "secret" not in str(arrived)
    assert "ZeroDivisionError" in str(arrived)


def unknown(error: GreenroomError) -> GreenroomError:
    return decode_error({**encode_error(error), "type": "elsewhere:GoneError"})


def test_an_error_of_a_class_unknown_here_keeps_its_kind_and_text() -> None:
    """A newer process may raise what an older one has never heard of."""
    declined: Any = unknown(TooMuchError(5))
    busy = unknown(OverloadedError(REF, limit=5))
    other = unknown(VersionMismatchError(REF, expected=1, actual=2))

    assert type(declined) is CommandError
    assert (declined.code, declined.limit) == ("too-much", 5)
    assert str(declined) == "The counter ends at 5."
    assert type(busy) is EntityUnavailableError
    assert type(other) is CallError
    assert str(other) == str(VersionMismatchError(REF, expected=1, actual=2))


def test_a_class_that_is_no_error_of_ours_is_not_made() -> None:
    """Whatever a frame names."""
    for name in ("os:system", "builtins:SystemExit", "subprocess:Popen", ""):
        assert type(decode_error({**encode_error(TooMuchError(5)), "type": name})) is CommandError


def test_text_that_no_json_can_hold_is_told_readably() -> None:
    assert str(over_the_wire(CommandError("a\ud800b"))) == "a?b"


# -- calls ---------------------------------------------------------------------------------


def a_call(by: int = 1, *, seconds: float = 5.0, **more: Any) -> CallRequest:
    request = CallRequest(
        REF, DEFINITIONS["counter"].handler_named("increase"), (by,), timeout=seconds, **more
    )
    request.deadline = monotonic() + seconds
    return request


def test_a_call_arrives_whole() -> None:
    sent = a_call(
        7,
        metadata=Metadata([("a", "1"), ("a", "2")]),
        idempotency_key="k",
        receipt_expires_at=5,
        expected_version=3,
        principal="ada",
        correlation_id="c",
        causation="e",
        traceparent="t",
        chain=(EntityRef("profile", "p"),),
        as_json=True,
    )
    arrived = decode_request(orjson.loads(orjson.dumps(encode_request(sent))), DEFINITIONS)

    assert arrived.deadline == 0.0
    assert arrived.timeout == pytest.approx(5.0, abs=1.0)
    arrived.deadline, arrived.timeout = sent.deadline, sent.timeout
    assert arrived == sent


def test_a_call_that_is_late_has_no_time_left() -> None:
    sent = a_call()
    sent.deadline = monotonic() - 10

    assert encode_request(sent)["timeout"] == 0.0


def test_what_this_process_does_not_have_is_told() -> None:
    """Two versions of a service may share a database for a while."""
    with pytest.raises(UnknownComponentError):
        decode_request({**encode_request(a_call()), "component": "cart"}, DEFINITIONS)
    with pytest.raises(UnknownHandlerError):
        decode_request({**encode_request(a_call()), "handler": "fly"}, DEFINITIONS)


# -- over a socket -------------------------------------------------------------------------

Call = Callable[[CallRequest], Awaitable[Answer]]


async def echo(request: CallRequest) -> Answer:
    return Answer(request.handler, request.values[0], 1, metadata=request.metadata)


@asynccontextmanager
async def a_server(call: Call = echo) -> AsyncIterator[tuple[PeerServer, str]]:
    server = PeerServer(DEFINITIONS, call, SECRET)
    address = await server.start("127.0.0.1", 0)
    try:
        yield server, address
    finally:
        await server.stop()


@asynccontextmanager
async def a_client(secret: str = SECRET) -> AsyncIterator[PeerClients]:
    clients = PeerClients(secret)
    try:
        yield clients
    finally:
        await clients.stop()


async def test_many_calls_share_one_connection() -> None:
    """Each gets its own answer."""
    async with a_server() as (server, address), a_client() as clients:
        answers = await asyncio.gather(*(clients.call(address, a_call(n)) for n in range(1, 100)))

        assert [one.value for one in answers] == list(range(1, 100))
        assert len(server._open) == 1


async def test_an_answer_brings_its_version_and_metadata() -> None:
    async with a_server() as (_, address), a_client() as clients:
        answer = await clients.call(address, a_call(metadata=Metadata([("colour", "red")])))

        assert answer.sequence_number == 1
        assert answer.metadata == Metadata([("colour", "red")])


async def test_errors_of_the_owner_are_raised_here() -> None:
    async def declining(_request: CallRequest) -> Answer:
        raise TooMuchError(5)

    async with a_server(declining) as (_, address), a_client() as clients:
        with pytest.raises(TooMuchError) as caught:
            await clients.call(address, a_call())
        assert caught.value.limit == 5


async def test_a_bug_at_the_owner_is_logged_there(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_request: CallRequest) -> Answer:
        raise ZeroDivisionError("a secret detail")

    async with a_server(broken) as (_, address), a_client() as clients:
        with pytest.raises(InternalError) as caught:
            await clients.call(address, a_call())
        assert "secret" not in str(caught.value)
        assert "a secret detail" in caplog.text


async def test_a_wrong_secret_gets_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """It is hung up on, and nothing is carried out."""
    called: list[CallRequest] = []

    async def noting(request: CallRequest) -> Answer:
        called.append(request)
        return await echo(request)

    async with a_server(noting) as (_, address), a_client("guess") as clients:
        with pytest.raises((CallTimeoutError, NotOwnerError)):
            await clients.call(address, a_call())
    assert called == []
    assert "did not know the secret" in caplog.text
    assert SECRET not in caplog.text


def frame(content: bytes, length: int | None = None) -> bytes:
    return (len(content) if length is None else length).to_bytes(4, "big") + content


HELLO = frame(orjson.dumps({"secret": SECRET}))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 64,
        b"",
        b"\0\0",
        frame(b"{}"),
        frame(b"[]"),
        frame(b"null"),
        frame(b"not json"),
        frame(b'{"secret":"\xc3\xa9"}'),
        frame(b'{"secret":' + b"[" * 500),
        frame(b"", length=_peers.MAX_HELLO + 1),
        HELLO + frame(b"[1]"),
        HELLO + frame(b"not json"),
        HELLO + frame(b"", length=_peers.MAX_FRAME + 1),
    ],
    ids=lambda sent: repr(sent[:24]),
)
async def test_garbage_is_hung_up_on(sent: bytes) -> None:
    """Without an answer; others are served as before."""
    async with a_server() as (_, address), a_client() as clients:
        host, port = address.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        if sent in (b"", b"\0\0"):
            writer.write_eof()
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()

        assert (await clients.call(address, a_call(3))).value == 3


@pytest.mark.parametrize("call", [{}, {"call": None}, {"call": {}}, {"call": {"component": 1}}])
async def test_a_frame_without_a_call_is_answered_with_an_error(call: dict[str, Any]) -> None:
    async with a_server() as (_, address):
        host, port = address.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(HELLO + frame(orjson.dumps({"id": 9, **call})))
        length = int.from_bytes(await reader.readexactly(4), "big")
        answer = orjson.loads(await reader.readexactly(length))
        writer.close()

    assert answer["id"] == 9
    assert isinstance(decode_error(answer["error"]), GreenroomError)


async def test_a_call_over_the_limit_is_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer would hang up on it, and on every other call of the connection."""
    monkeypatch.setattr(_peers, "MAX_FRAME", 2000)
    async with a_server() as (_, address), a_client() as clients:
        with pytest.raises(PayloadTooLargeError, match=r"counter\.increase"):
            await clients.call(address, a_call(principal="x" * 3000))
        assert (await clients.call(address, a_call(3))).value == 3


async def test_a_reply_over_the_limit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talkative(request: CallRequest) -> Answer:
        return Answer(request.handler, 1, 1, metadata=Metadata([("x", "y" * 3000)]))

    monkeypatch.setattr(_peers, "MAX_FRAME", 2000)
    async with a_server(talkative) as (_, address), a_client() as clients:
        with pytest.raises(PayloadTooLargeError, match="reply"):
            await clients.call(address, a_call())


async def test_text_that_can_not_be_sent_is_refused_here() -> None:
    async with a_server() as (_, address), a_client() as clients:
        with pytest.raises(InvalidCallError, match="can't be sent"):
            await clients.call(address, a_call(principal="\ud800"))
        assert (await clients.call(address, a_call(3))).value == 3


async def test_nobody_there_means_nothing_was_done() -> None:
    """So the next owner may be asked."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with a_client() as clients:
            with pytest.raises(NotOwnerError, match="can't be reached"):
                await clients.call(f"127.0.0.1:{taken.getsockname()[1]}", a_call())


async def test_a_connection_that_breaks_under_a_call_leaves_it_unknown() -> None:
    """It may have been carried out; the next call gets a new connection."""
    arrived = asyncio.Event()

    async def waiting(request: CallRequest) -> Answer:
        if request.values[0] == 1:
            arrived.set()
            await asyncio.Event().wait()
        return await echo(request)

    async with a_server(waiting) as (server, address), a_client() as clients:
        call = asyncio.ensure_future(clients.call(address, a_call(1)))
        await arrived.wait()
        for writer in server._open:
            writer.transport.abort()
        with pytest.raises(CallTimeoutError, match="may still be carried out"):
            await call
        assert (await clients.call(address, a_call(3))).value == 3
        for task in server._answering:
            task.cancel()


async def test_a_peer_that_does_not_answer_keeps_nobody_past_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor one that does not read: a frozen process keeps its connections."""
    monkeypatch.setattr(_peers, "_GRACE", 0.0)

    with socket.create_server(("127.0.0.1", 0)) as frozen:
        # Accepted by the kernel, read by nobody.
        async with a_client() as clients:
            address = f"127.0.0.1:{frozen.getsockname()[1]}"
            large = a_call(seconds=0.2, principal="x" * 20_000_000)
            calls = [clients.call(address, one) for one in (large, a_call(seconds=0.2))]
            answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)

    assert [type(one) for one in answers] == [CallTimeoutError, CallTimeoutError]


async def test_waiting_for_a_connection_ends_with_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many wait for the same one."""
    never = asyncio.Event()

    async def silence(*_: object) -> Any:
        await never.wait()

    monkeypatch.setattr(asyncio, "open_connection", silence)
    async with a_client() as clients:
        calls = [clients.call("10.255.255.1:1", a_call(seconds=0.1)) for _ in range(20)]
        answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 1)

    assert {type(one) for one in answers} == {NotOwnerError}


async def test_a_stop_finishes_calls_under_way() -> None:
    """And leaves no task behind."""
    go_on, arrived = asyncio.Event(), asyncio.Event()

    async def slow(request: CallRequest) -> Answer:
        arrived.set()
        await go_on.wait()
        return await echo(request)

    async with a_client() as clients:
        async with a_server(slow) as (server, address):
            call = asyncio.ensure_future(clients.call(address, a_call(3)))
            await arrived.wait()
            stopping = asyncio.ensure_future(server.stop())
            go_on.set()
            assert (await call).value == 3
            await stopping
            with pytest.raises(NotOwnerError):
                await clients.call(address, a_call(3))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_client_that_was_stopped_connects_no_more() -> None:
    async with a_server() as (_, address), a_client() as clients:
        await clients.stop()
        with pytest.raises(NotOwnerError):
            await clients.call(address, a_call())
