"""A tool call from its arguments to its outcome."""

import logging
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from greenroom.components import Principal, ToolCall, ToolContext, define
from greenroom.edge import ToolCaller
from greenroom.errors import (
    CallTimeoutError,
    CommandError,
    EntityUnavailableError,
    GreenroomError,
    RuntimeStoppedError,
)
from greenroom.ids import EntityRef
from greenroom.runtime import Answer, CallRequest
from tests.support.components import Counter

INCREASE = next(tool for tool in define(Counter).tools if tool.name == "counter_increase")
REF = EntityRef("counter", "c-1")


class Unusual(BaseException):
    """Something that `except Exception` lets pass."""


class ScriptedRuntime:
    """Answers every call with the same value, or raises the same error."""

    def __init__(self, answer: Any = 5, error: BaseException | None = None) -> None:
        self.answer = answer
        self.error = error
        self.requests: list[CallRequest] = []

    async def call(self, request: CallRequest) -> Answer:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return Answer(request.handler, self.answer, 1)


def a_context(**changes: Any) -> ToolContext:
    parts: dict[str, Any] = {
        "principal": Principal("ada"),
        "session": None,
        "turn": None,
        "idempotency_key": "k-1",
        "deadline": None,
        "headers": {},
        "correlation_id": "r-1",
    }
    return ToolContext(**{**parts, **changes})


async def test_a_call_carries_everything_it_came_with() -> None:
    runtime = ScriptedRuntime()
    arguments = {"counter_id": "c-1", "by": 2}

    outcome = await ToolCaller(runtime).call(INCREASE, arguments, a_context(), traceparent="00-1")

    assert (outcome.is_error, outcome.text, outcome.structured) == (False, "5", None)
    [request] = runtime.requests
    assert request.ref == REF
    assert request.handler is INCREASE.handler
    assert request.values == (2,)
    assert request.idempotency_key == "k-1"
    assert request.principal == "ada"
    assert request.correlation_id == "r-1"
    assert request.traceparent == "00-1"
    assert request.timeout is None


async def test_a_deadline_becomes_the_time_that_is_left() -> None:
    runtime = ScriptedRuntime()
    context = a_context(deadline=monotonic() + 60)

    await ToolCaller(runtime).call(INCREASE, {"counter_id": "c-1"}, context)

    timeout = runtime.requests[0].timeout
    assert timeout is not None
    assert 50 < timeout <= 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"counter_id": "c-1", "by": 0}, "by"),
        ({"counter_id": "c-1", "by": "many"}, "by"),
        ({"counter_id": "c-1", "nonsense": 1}, "nonsense"),
        ({"by": 1}, "counter_id"),
        ({"counter_id": ""}, "counter"),
    ],
)
async def test_wrong_arguments_are_named_and_nothing_is_called(
    arguments: dict[str, Any], said: str
) -> None:
    runtime = ScriptedRuntime()

    outcome = await ToolCaller(runtime).call(INCREASE, arguments, a_context())

    assert outcome.is_error
    assert said in outcome.text
    assert runtime.requests == []


@pytest.mark.parametrize(
    ("error", "said", "retryable"),
    [
        (CommandError("The counter is full."), "The counter is full.", False),
        (EntityUnavailableError("x"), "Try again", True),
        (CallTimeoutError(REF, "increase", seconds=5), "within 5 s", False),
        (RuntimeStoppedError("The runtime is new. Start it first."), "Start it first", False),
    ],
)
async def test_what_went_wrong_is_told_so_that_a_model_can_act(
    error: GreenroomError, said: str, retryable: bool
) -> None:
    caller = ToolCaller(ScriptedRuntime(error=error))

    outcome = await caller.call(INCREASE, {"counter_id": "c-1"}, a_context())

    assert outcome.is_error
    assert said in outcome.text
    assert outcome.meta == {
        "greenroom/code": error.code,
        "greenroom/retryable": retryable,
        "greenroom/correlationId": "r-1",
    }


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Unusual()])
@pytest.mark.parametrize("where", ["bind", "authorize", "requires_approval"])
async def test_what_would_end_the_process_is_a_failed_call(
    where: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(_: object) -> Any:
        raise error

    changed = {"id_parameter": None} if where == "bind" else {}
    tool = INCREASE if where == "authorize" else replace(INCREASE, **{where: leave}, **changed)
    arguments = {} if where == "bind" else {"counter_id": "c-1"}
    runtime = ScriptedRuntime()
    caller = ToolCaller(runtime, authorize=leave if where == "authorize" else None)

    outcome = await caller.call(tool, arguments, a_context())

    assert (outcome.is_error, outcome.text) == (True, "Failed unexpectedly. Reference: r-1")
    assert runtime.requests == []
    assert f"counter_increase raised {type(error).__name__}" in caplog.text


async def test_a_bug_is_a_reference_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caller = ToolCaller(ScriptedRuntime(error=ZeroDivisionError("secret")))

    outcome = await caller.call(INCREASE, {"counter_id": "c-1"}, a_context())

    assert outcome.is_error
    assert outcome.text == "Failed unexpectedly. Reference: r-1"
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.exc_info is not None


@pytest.mark.parametrize("needed", [True, lambda call: call.arguments["by"] > 1])
async def test_a_tool_that_needs_approval_is_not_carried_out(needed: Any) -> None:
    """A door that can't ask a person must not be the way around asking."""
    runtime = ScriptedRuntime()
    tool = replace(INCREASE, requires_approval=needed)

    outcome = await ToolCaller(runtime).call(tool, {"counter_id": "c-1", "by": 2}, a_context())

    assert outcome.is_error
    assert "approval" in outcome.text
    assert runtime.requests == []


async def test_a_function_says_which_calls_need_approval() -> None:
    """By the validated arguments, the instance's id among them."""
    runtime = ScriptedRuntime()
    seen: list[ToolCall] = []
    tool = replace(INCREASE, requires_approval=lambda call: bool(seen.append(call)))

    outcome = await ToolCaller(runtime).call(tool, {"counter_id": "c-1", "by": "2"}, a_context())

    assert not outcome.is_error
    assert seen == [ToolCall("counter_increase", {"counter_id": "c-1", "by": 2})]


async def test_a_function_that_fails_lets_nothing_through() -> None:
    runtime = ScriptedRuntime()
    tool = replace(INCREASE, requires_approval=lambda call: call.arguments["nothing"])

    outcome = await ToolCaller(runtime).call(tool, {"counter_id": "c-1"}, a_context())

    assert outcome.is_error
    assert runtime.requests == []
