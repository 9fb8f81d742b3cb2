"""What an endpoint answers to clients of each revision."""

import pytest

from greenroom.edge import ToolOutcome
from tests.support.mcp_wire import (
    EVERY_REVISION,
    LEGACY,
    MODERN,
    ScriptedCaller,
    an_endpoint,
    ask,
    headers_of,
    request,
    send,
)

CALL = {"name": "counter_increase", "arguments": {"counter_id": "c-1", "by": 2}}


@pytest.mark.parametrize("version", LEGACY)
def test_a_handshake_agrees_on_the_version_that_was_asked_for(version: str) -> None:
    answer = ask(an_endpoint(), version, "initialize", _introduction(version))

    assert answer.status == 200
    assert answer.result == {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "counters", "version": "1.2.3"},
        "instructions": "Count.",
    }
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("unknown", ["2024-11-05", MODERN, "2031-01-01"])
def test_a_handshake_for_another_version_is_offered_the_newest_that_has_handshakes(
    unknown: str,
) -> None:
    body = request("2025-11-25", "initialize", _introduction(unknown))

    assert send(an_endpoint(), body).result["protocolVersion"] == "2025-11-25"


def test_discovery_takes_the_place_of_the_handshake() -> None:
    result = ask(an_endpoint(), MODERN, "server/discover").result

    assert result["supportedVersions"] == [MODERN]
    assert result["capabilities"] == {"tools": {}}
    assert result["instructions"] == "Count."
    assert result["resultType"] == "complete"
    assert result["cacheScope"] == "public"
    assert result["_meta"] == {
        "io.modelcontextprotocol/serverInfo": {"name": "counters", "version": "1.2.3"}
    }


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_a_tool_call_answers_with_text_and_structure(version: str) -> None:
    caller = ScriptedCaller()

    result = ask(an_endpoint(caller), version, "tools/call", CALL).result

    assert result["content"] == [{"type": "text", "text": '{"total":5}'}]
    assert result["structuredContent"] == {"total": 5}
    assert result["isError"] is False
    assert caller.calls[0].tool == "counter_increase"
    assert caller.calls[0].arguments == {"counter_id": "c-1", "by": 2}


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_a_failed_tool_is_a_result_that_says_so(version: str) -> None:
    outcome = ToolOutcome(True, 'The cart is "closed".', None, {"greenroom/code": "declined"})

    result = ask(an_endpoint(ScriptedCaller(outcome)), version, "tools/call", CALL).result

    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": 'The cart is "closed".'}]
    assert result["_meta"]["greenroom/code"] == "declined"
    assert "structuredContent" not in result


def test_modern_results_carry_their_type_and_the_server() -> None:
    for outcome in (ToolOutcome(False, "SUCCESS"), ToolOutcome(True, "No.", None, {"a/b": 1})):
        result = ask(an_endpoint(ScriptedCaller(outcome)), MODERN, "tools/call", CALL).result

        assert result["resultType"] == "complete"
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "counters"


def test_legacy_results_have_neither_type_nor_hints_for_caches() -> None:
    for method, params in (("tools/call", CALL), ("tools/list", {})):
        result = ask(an_endpoint(), "2025-11-25", method, params).result

        assert result.keys().isdisjoint({"resultType", "ttlMs", "cacheScope", "_meta"})


@pytest.mark.parametrize("version", LEGACY)
def test_a_ping_is_answered_before_2026(version: str) -> None:
    assert ask(an_endpoint(), version, "ping").result == {}


@pytest.mark.parametrize("method", ["initialize", "ping", "resources/list", "logging/setLevel"])
def test_a_method_that_the_modern_era_or_this_server_lacks_is_404(method: str) -> None:
    answer = ask(an_endpoint(), MODERN, method)

    assert (answer.status, answer.error["code"]) == (404, -32601)


@pytest.mark.parametrize("method", ["server/discover", "resources/list", "prompts/list"])
def test_an_unknown_method_is_an_error_within_200_before_2026(method: str) -> None:
    answer = ask(an_endpoint(), "2025-11-25", method)

    assert (answer.status, answer.error["code"]) == (200, -32601)
    assert answer.json["id"] == 7


@pytest.mark.parametrize(("version", "status"), [(v, 200) for v in LEGACY] + [(MODERN, 400)])
@pytest.mark.parametrize(
    "params",
    [
        {"name": "nobody"},
        {"name": None},
        {},
        {"name": "counter_increase", "arguments": [1]},
        {"name": "counter_increase", "arguments": "{}"},
    ],
)
def test_a_malformed_tool_call_is_a_protocol_error(
    version: str, status: int, params: dict[str, object]
) -> None:
    answer = ask(an_endpoint(), version, "tools/call", params)

    assert (answer.status, answer.error["code"]) == (status, -32602)


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_arguments_may_be_left_out(version: str) -> None:
    for params in ({"name": "counter_increase"}, {"name": "counter_increase", "arguments": None}):
        caller = ScriptedCaller()
        body = request(version, "tools/call", params)
        assert send(an_endpoint(caller), body, headers_of(version, body)).status == 200
        assert caller.calls[0].arguments == {}


def test_a_request_without_a_version_is_served_as_the_oldest() -> None:
    """A plain POST stands alone: no handshake, no session, no version."""
    answer = send(an_endpoint(), request("2025-03-26", "tools/call", CALL))

    assert answer.result["structuredContent"] == {"total": 5}


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_a_bug_in_the_server_is_told_without_a_trace(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    caller = ScriptedCaller(ZeroDivisionError("secret.py"))

    answer = ask(an_endpoint(caller), version, "tools/call", CALL)

    assert (answer.status, answer.error["code"]) == (500, -32603)
    assert b"secret" not in answer.body
    [record] = [one for one in caplog.records if one.exc_info]
    assert record.__dict__["correlation_id"] in answer.error["message"]


def _introduction(version: str) -> dict[str, object]:
    return {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
