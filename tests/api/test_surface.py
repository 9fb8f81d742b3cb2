"""What users can import, and the errors they can catch."""

import copy
import inspect
import pickle
import re
import subprocess
import sys
from importlib import resources

import pytest

import greenroom
from greenroom import components, edge, errors, persistence, runtime, testkit, web
from greenroom.errors import GreenroomError
from greenroom.ids import EntityRef

EXPORTS = [
    "AccessDeniedError",
    "Acl",
    "AskForm",
    "AskModel",
    "AskPage",
    "AskRoots",
    "AsyncComponentClient",
    "AsyncEntityClient",
    "AsyncTimerScheduler",
    "AsyncWorkflowClient",
    "AudioContent",
    "Backoff",
    "BranchEffect",
    "ChildOutcome",
    "AuditLog",
    "AuditRecord",
    "AuditSink",
    "Claims",
    "CommandContext",
    "CommandError",
    "Compensate",
    "ComponentClient",
    "DeferredCall",
    "DefinitionError",
    "DependencyProvider",
    "DetailedReply",
    "Effect",
    "EmbeddedResource",
    "EntityClient",
    "EntityContext",
    "EventContext",
    "EventSourcedEntity",
    "Fail",
    "FormAnswer",
    "GreenroomError",
    "HistoryEntry",
    "Icon",
    "ImageContent",
    "InstanceSummary",
    "Issuer",
    "Jwt",
    "KeyValueEntity",
    "McpContext",
    "MessageContent",
    "Metadata",
    "Principal",
    "RateLimit",
    "ReadOnlyEffect",
    "RequestContext",
    "PdfContent",
    "PromptMessage",
    "ResourceContent",
    "ResourceLink",
    "ResourceNotFoundError",
    "Retries",
    "Retry",
    "Service",
    "Settings",
    "StepContext",
    "StepEffect",
    "StepSettings",
    "StoredEvent",
    "TaskQuestion",
    "TaskSettings",
    "TextContent",
    "TimedAction",
    "TimedActionClient",
    "TimedActionContext",
    "TimedActionEffect",
    "TimerScheduler",
    "TimerStatus",
    "ToolAnnotation",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolRequest",
    "WithMetadata",
    "Workflow",
    "WorkflowClient",
    "WorkflowSettings",
    "WorkflowStatus",
    "async_component_client",
    "call",
    "component",
    "component_client",
    "function_tool",
    "mcp_completion",
    "mcp_endpoint",
    "mcp_instances",
    "mcp_prompt",
    "mcp_resource",
    "mcp_tool",
    "migrates",
    "step",
    "request_context",
    "secured",
    "type_name",
]


def test_the_front_door_offers_just_this() -> None:
    """A name that comes or goes shows here."""
    assert sorted(greenroom.__all__) == sorted(EXPORTS)
    assert all(hasattr(greenroom, name) for name in EXPORTS)


@pytest.mark.parametrize("face", [greenroom, components, persistence, runtime, edge, web, testkit])
def test_every_public_name_is_there_and_documented(face: object) -> None:
    offered = {name: getattr(face, name) for name in face.__all__}  # type: ignore[attr-defined]
    undocumented = [
        name
        for name, one in offered.items()
        if (inspect.isclass(one) or inspect.isroutine(one)) and not inspect.getdoc(one)
    ]
    assert undocumented == []


def test_what_few_need_is_not_imported_for_all() -> None:
    """Nor what is an oracle of the tests alone."""
    program = "import greenroom, sys; print([m for m in {names} if m in sys.modules])"
    names = ["mcp", "mcp_types", "jsonschema", "psycopg"]

    done = subprocess.run(
        [sys.executable, "-c", program.format(names=names)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[]"


def test_types_are_shipped() -> None:
    assert (resources.files("greenroom") / "py.typed").is_file()


def all_errors() -> list[type[GreenroomError]]:
    found = [
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, GreenroomError)
    ]
    assert len(found) > 30
    return found


def test_the_tree_that_is_drawn_is_the_tree_that_is() -> None:
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        named = re.match(r"^    ([│ ├└─]*)([A-Z]\w+Error)\b", line)
        if named is None:
            continue
        depth = len(named.group(1)) // 4
        path = [*path[:depth], named.group(2)]
        drawn[named.group(2)] = path[depth - 1] if depth else None
    actual = {
        one.__name__: None if one is GreenroomError else one.__bases__[0].__name__
        for one in all_errors()
    }

    assert drawn == actual


def test_codes_are_permanent_and_tell_errors_apart() -> None:
    codes = [one.code for one in all_errors()]

    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z][a-z-]*", code) for code in codes)


REF = EntityRef("cart", "c-1")
EXAMPLES: list[GreenroomError] = [
    errors.CommandError("no"),
    errors.DefinitionError(["one", "two"]),
    errors.UnknownComponentError("cart", ["order"]),
    errors.UnknownHandlerError("cart", "add", ["remove"]),
    errors.InvalidArgumentsError("cart.add", ["by: wrong"]),
    errors.IdempotencyKeyReusedError(REF, "k"),
    errors.AccessDeniedError("no"),
    errors.PayloadTooLargeError("it", size=2, limit=1, setting="GREENROOM_X"),
    errors.EntityDeletedError(REF),
    errors.VersionMismatchError(REF, expected=1, actual=2),
    errors.OverloadedError(REF, limit=3),
    errors.CallTimeoutError(REF, "add", seconds=5),
    errors.HandlerError("cart.add", "abc"),
    errors.ConcurrentWriteError(REF, expected=1),
    errors.StoreFullError("full"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda one: type(one).__name__)
def test_errors_travel_with_their_parts(error: GreenroomError) -> None:
    """Between threads, processes, and into logs."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


class OwnError(errors.CommandError):
    code = "own"

    def __init__(self, first: int, *, second: str) -> None:
        self.first = first
        self.second = second
        super().__init__(f"{first} and {second}")


def test_an_applications_error_travels_whatever_its_constructor_asks_for() -> None:
    again = pickle.loads(pickle.dumps(OwnError(1, second="two")))

    assert (again.first, again.second, str(again)) == (1, "two", "1 and two")


def test_only_what_changed_nothing_may_be_repeated() -> None:
    repeatable = {one.code for one in all_errors() if one.retryable}

    assert repeatable == {
        "unavailable",
        "overloaded",
        "concurrent-write",
        "not-owner",
        "store-unavailable",
    }
