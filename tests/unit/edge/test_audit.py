"""Every call is recorded: who, what, and what came of it; no value unless it is asked for."""

import asyncio
import logging
from typing import Any

import pytest

from greenroom.components import Principal, ToolContext, ToolRequest, define, resolve_tools
from greenroom.edge import Audit, AuditLog, AuditRecord, ToolCaller
from greenroom.errors import CommandError
from greenroom.runtime import Answer, CallRequest
from greenroom.testkit import ManualClock
from tests.support.components import Counter, ProfileEntity

CLOCK = ManualClock()
KNOWN = {Counter: define(Counter), ProfileEntity: define(ProfileEntity)}
INCREASE = next(tool for tool in KNOWN[Counter].tools if tool.name == "counter_increase")
RENAME = next(tool for tool in KNOWN[ProfileEntity].tools if tool.name == "profile_rename")
ADA = ToolContext(principal=Principal("ada"), correlation_id="r-1", idempotency_key="k-1")


class Kept:
    """Keeps audit records in a list."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def record(self, record: AuditRecord) -> None:
        self.records.append(record)


class ScriptedRuntime:
    """Answers every call with 5, or raises what it was given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.requests: list[CallRequest] = []

    async def call(self, request: CallRequest) -> Answer:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return Answer(request.handler, 5, 1)


async def test_a_call_that_is_done_is_recorded() -> None:
    kept = Kept()
    caller = ToolCaller(ScriptedRuntime(), audit=Audit(kept, "/mcp", CLOCK))

    await caller.call(INCREASE, {"counter_id": "c-1", "by": 2}, ADA, traceparent="00-1")

    assert kept.records == [
        AuditRecord(
            at_ms=CLOCK.now_ms(),
            principal="ada",
            service=None,
            endpoint="/mcp",
            tool="counter_increase",
            component="counter",
            handler="increase",
            instance="c-1",
            arguments={"by": "number"},
            outcome="done",
            code=None,
            correlation_id="r-1",
            idempotency_key="k-1",
            traceparent="00-1",
        )
    ]


async def test_a_call_whose_caller_went_away_is_recorded_too() -> None:
    """It may have been done all the same."""
    kept, begun = Kept(), asyncio.Event()

    class Slow:
        async def call(self, request: CallRequest) -> Answer:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

    caller = ToolCaller(Slow(), audit=Audit(kept, "/mcp", CLOCK))
    task = asyncio.create_task(caller.call(INCREASE, {"counter_id": "c-1"}, ADA))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [(one.outcome, one.instance) for one in kept.records] == [("abandoned", "c-1")]


@pytest.mark.parametrize(
    ("error", "code"),
    [(CommandError("No."), "declined"), (ZeroDivisionError("secret"), "internal")],
)
async def test_a_call_that_fails_is_recorded_with_its_code(error: Exception, code: str) -> None:
    kept = Kept()
    caller = ToolCaller(ScriptedRuntime(error), audit=Audit(kept, "/mcp", CLOCK))

    await caller.call(INCREASE, {"counter_id": "c-1"}, ADA)

    [record] = kept.records
    assert (record.outcome, record.code, record.instance) == ("failed", code, "c-1")
    assert "secret" not in str(record)


async def test_arguments_that_never_fit_are_recorded_without_their_words() -> None:
    """Names that the tool doesn't know may be anything, so they are counted, not kept."""
    kept = Kept()
    caller = ToolCaller(ScriptedRuntime(), audit=Audit(kept, "/mcp", CLOCK))
    wrong: dict[str, Any] = {"counter_id": "c-1", "by": {"pin": 4711}, "4111 1111": 1, "x": 2}

    await caller.call(INCREASE, wrong, ADA)

    [record] = kept.records
    assert (record.outcome, record.code) == ("failed", "invalid-arguments")
    assert record.arguments == {"by": "object(1)", "(unknown)": 2}
    assert "4711" not in str(record)
    assert "4111" not in str(record)


async def test_values_are_kept_where_the_settings_say_so() -> None:
    kept = Kept()
    caller = ToolCaller(
        ScriptedRuntime(CommandError("No.")), audit=Audit(kept, "/mcp", CLOCK, shown=["name"])
    )

    await caller.call(RENAME, {"profile_id": "p", "name": "Ada"}, ADA)
    await caller.call(RENAME, {"profile_id": "p", "name": "x" * 300}, ADA)

    assert kept.records[0].arguments == {"name": "Ada"}
    assert kept.records[1].arguments == {"name": "x" * 200 + "… (300 characters)"}


async def test_a_sink_that_fails_is_told_and_harms_no_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def record(self, record: AuditRecord) -> None:
            raise OSError("disk full")

    caller = ToolCaller(ScriptedRuntime(), audit=Audit(Broken(), "/mcp", CLOCK))

    outcome = await caller.call(INCREASE, {"counter_id": "c-1"}, ADA)

    assert not outcome.is_error
    assert "could not be recorded" in caplog.text
    assert "disk full" in caplog.text


async def test_the_log_is_a_sink(caplog: pytest.LogCaptureFixture) -> None:
    caller = ToolCaller(ScriptedRuntime(), audit=Audit(AuditLog(), "/mcp", CLOCK))

    with caplog.at_level(logging.INFO, "greenroom.audit"):
        await caller.call(INCREASE, {"counter_id": "c-1", "by": 2}, ADA)

    [line] = [one for one in caplog.records if one.name == "greenroom.audit"]
    assert line.getMessage() == "counter_increase: done by ada"
    assert line.correlation_id == "r-1"  # type: ignore[attr-defined]
    assert line.audit["arguments"] == {"by": "number"}  # type: ignore[attr-defined]


async def _answer(allowed: bool) -> bool:
    return allowed


@pytest.mark.parametrize("answer", [lambda yes: yes, _answer], ids=["function", "coroutine"])
async def test_a_call_on_an_instance_may_be_allowed_or_not(answer: Any) -> None:
    asked: list[ToolRequest] = []

    def only_own(request: ToolRequest) -> Any:
        asked.append(request)
        return answer(request.instance_id == f"of-{request.principal.subject}")

    kept, runtime = Kept(), ScriptedRuntime()
    caller = ToolCaller(runtime, authorize=only_own, audit=Audit(kept, "/mcp", CLOCK))

    assert not (await caller.call(INCREASE, {"counter_id": "of-ada"}, ADA)).is_error
    refused = await caller.call(INCREASE, {"counter_id": "of-bob", "by": "3"}, ADA)

    assert refused.is_error
    assert refused.text == "You may not use counter_increase on this counter."
    assert refused.meta is not None
    assert refused.meta["greenroom/code"] == "access-denied"
    assert len(runtime.requests) == 1
    assert (asked[0].tool, asked[0].component) == ("counter_increase", "counter")
    assert [one.arguments for one in asked] == [{"by": 1}, {"by": 3}], "as the handler gets them"
    assert [(one.outcome, one.instance) for one in kept.records] == [
        ("done", "of-ada"),
        ("denied", "of-bob"),
    ]


async def test_the_endpoint_and_the_tool_must_both_allow_it() -> None:
    for first, second, allowed in ((True, True, True), (True, False, False), (False, True, False)):
        [tool], _ = resolve_tools(
            [Counter.tools(only={"increase"}, authorize=lambda _, answer=second: answer)],  # type: ignore[misc]
            KNOWN,
        )
        runtime = ScriptedRuntime()
        caller = ToolCaller(runtime, authorize=lambda _, answer=first: answer)  # type: ignore[misc]

        outcome = await caller.call(tool, {"counter_id": "c"}, ADA)

        assert outcome.is_error is not allowed
        assert bool(runtime.requests) is allowed


@pytest.mark.parametrize("answer", [None, 1, "yes"])
async def test_only_a_plain_yes_is_one(answer: Any) -> None:
    """A forgotten return must not let everybody in."""
    runtime = ScriptedRuntime()

    outcome = await ToolCaller(runtime, authorize=lambda _: answer).call(
        INCREASE, {"counter_id": "c"}, ADA
    )

    assert outcome.is_error
    assert runtime.requests == []


async def test_an_authorization_that_breaks_denies_and_tells_nothing() -> None:
    def broken(_request: ToolRequest) -> bool:
        raise LookupError("no row in table users")

    def declines(_request: ToolRequest) -> bool:
        raise CommandError("Ask your manager first.")

    runtime = ScriptedRuntime()
    outcome = await ToolCaller(runtime, authorize=broken).call(INCREASE, {"counter_id": "c"}, ADA)
    declined = await ToolCaller(runtime, authorize=declines).call(
        INCREASE, {"counter_id": "c"}, ADA
    )

    assert outcome.text == "Failed unexpectedly. Reference: r-1"
    assert declined.text == "Ask your manager first."
    assert runtime.requests == []


async def test_a_tool_that_is_bound_to_the_caller_needs_to_know_it() -> None:
    [tool], _ = resolve_tools(
        [Counter.tools(only={"increase"}, bind=lambda call: call.principal.subject)], KNOWN
    )
    runtime = ScriptedRuntime()

    outcome = await ToolCaller(runtime).call(tool, {}, ToolContext())
    assert outcome.is_error
    assert outcome.text == "counter_increase needs a caller whose name is known."
    await ToolCaller(runtime).call(tool, {}, ADA)

    [request] = runtime.requests
    assert (request.ref.instance, request.principal) == ("ada", "ada")
