"""What a tool call brings along: idempotency key, trace, correlation, headers."""

from typing import Any

import pytest

from greenroom.logs import correlation_id
from tests.support.mcp_wire import EVERY_REVISION, MODERN, ScriptedCaller, an_endpoint, ask, send

TRACE = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
KEY = "greenroom/idempotencyKey"


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_an_idempotency_key_comes_in_a_header_or_in_meta(version: str) -> None:
    assert _called(version, headers={"Idempotency-Key": "k-1"}).context.idempotency_key == "k-1"
    assert _called(version, meta={KEY: "k-2"}).context.idempotency_key == "k-2"
    assert _called(version).context.idempotency_key is None


def test_the_same_key_twice_is_one_key() -> None:
    call = _called(MODERN, meta={KEY: "k"}, headers={"Idempotency-Key": "k"})

    assert call.context.idempotency_key == "k"


@pytest.mark.parametrize(
    ("meta", "header"), [({KEY: "a"}, "b"), ({KEY: ""}, None), ({KEY: 5}, None), ({}, "x" * 256)]
)
def test_a_key_that_can_not_be_one_is_refused(meta: dict[str, Any], header: str | None) -> None:
    caller = ScriptedCaller()
    params = {"name": "counter_increase", "_meta": meta}

    answer = ask(an_endpoint(caller), MODERN, "tools/call", params, {"Idempotency-Key": header})

    assert answer.error["code"] == -32602
    assert caller.calls == []


def test_a_batch_can_not_share_the_key_of_a_header() -> None:
    caller = ScriptedCaller()
    one = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "counter_increase"}}

    send(an_endpoint(caller), [one | {"id": 1}, one | {"id": 2}], {"Idempotency-Key": "k"})

    assert [call.context.idempotency_key for call in caller.calls] == [None, None]


def test_a_trace_comes_in_a_header_or_in_meta() -> None:
    assert _called(MODERN, meta={"traceparent": TRACE}).traceparent == TRACE
    assert _called(MODERN, headers={"traceparent": TRACE}).traceparent == TRACE


@pytest.mark.parametrize("broken", ["", "00-xyz", TRACE.upper(), 5])
def test_a_broken_trace_is_ignored(broken: object) -> None:
    assert _called(MODERN, meta={"traceparent": broken}).traceparent is None


def test_a_call_belongs_to_the_correlation_id_of_its_request() -> None:
    token = correlation_id.set("c-1")
    try:
        assert _called(MODERN).context.correlation_id == "c-1"
    finally:
        correlation_id.reset(token)

    assert len(_called(MODERN).context.correlation_id) == 32


def test_headers_are_read_without_regard_to_case() -> None:
    headers = _called(MODERN, headers={"X-Tenant": " acme "}).context.headers

    assert headers["x-tenant"] == headers["X-TENANT"] == "acme"
    assert headers.get("x-missing") is None
    assert "x-tenant" in list(headers)


def _called(
    version: str, meta: dict[str, Any] | None = None, headers: dict[str, str | None] | None = None
) -> Any:
    caller = ScriptedCaller()
    params = {"name": "counter_increase", "arguments": {}, "_meta": meta or {}}
    assert ask(an_endpoint(caller), version, "tools/call", params, headers).status == 200
    return caller.calls[0]
