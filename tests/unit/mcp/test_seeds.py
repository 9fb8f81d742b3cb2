"""Every rule of the two founding documents on MCP methods, one row each.

The rules are those of the `McpTool` and `McpResource` annotations of the Akka SDK, in Python.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from greenroom import (
    DefinitionError,
    Effect,
    KeyValueEntity,
    ToolAnnotation,
    component,
    mcp_endpoint,
    mcp_resource,
    mcp_tool,
)
from greenroom.components import define, define_endpoint
from tests.support.mcp_wire import EVERY_REVISION, ask, served_by

TEXT_ID = UUID("12345678-1234-5678-1234-567812345678")


class Colour(Enum):
    """A colour."""

    RED = "red"


class Sum(BaseModel):
    """What comes out."""

    total: int
    note: str | None = None


@dataclass
class Point:
    """A record."""

    x: int
    y: int | None = None


class Row(TypedDict):
    """A typed dictionary."""

    key: str


async def later(value: Any) -> Any:
    """The value, on the next turn of the loop."""
    await asyncio.sleep(0)
    return value


@mcp_endpoint(server_name="seeds")
class Tools:
    """One tool for each kind of result."""

    @mcp_tool(description="Text.")
    def text(self) -> str:
        return 'as "it" is'

    @mcp_tool(description="A model.")
    def model(self) -> Sum:
        return Sum(total=5)

    @mcp_tool(description="A record.")
    def record(self) -> Point:
        return Point(1)

    @mcp_tool(description="A typed dictionary.")
    def typed(self) -> Row:
        return {"key": "a"}

    @mcp_tool(description="A list.")
    def listed(self) -> list[Sum]:
        return [Sum(total=1), Sum(total=2, note="n")]

    @mcp_tool(description="A tuple.")
    def fixed(self) -> tuple[int, ...]:
        return (1, 2)

    @mcp_tool(description="A set.")
    def unordered(self) -> set[str]:
        return {"a"}

    @mcp_tool(description="A frozen set.")
    def frozen(self) -> frozenset[int]:
        return frozenset([1])

    @mcp_tool(description="Any sequence.")
    def sequence(self) -> Sequence[int]:
        return [3]

    @mcp_tool(description="Any set.")
    def abstract_set(self) -> Set[int]:
        return {4}

    @mcp_tool(description="A mapping.")
    def mapping(self) -> dict[str, int | None]:
        return {"a": 1, "b": None}

    @mcp_tool(description="Nothing.")
    def nothing(self) -> None: ...

    @mcp_tool(description="A number.")
    def number(self) -> int:
        return 3

    @mcp_tool(description="A fraction.")
    def fraction(self) -> float:
        return 1.5

    @mcp_tool(description="Yes or no.")
    def flag(self) -> bool:
        return True

    @mcp_tool(description="An enumeration.")
    def colour(self) -> Colour:
        return Colour.RED

    @mcp_tool(description="A day.")
    def day(self) -> date:
        return date(2026, 12, 1)

    @mcp_tool(description="A moment.")
    def moment(self) -> datetime:
        return datetime(2026, 12, 1, tzinfo=UTC)

    @mcp_tool(description="A decimal.")
    def price(self) -> Decimal:
        return Decimal("1.10")

    @mcp_tool(description="An id.")
    def identity(self) -> UUID:
        return TEXT_ID

    @mcp_tool(description="Awaited text.")
    async def awaited_text(self) -> str:
        return str(await later("soon"))

    @mcp_tool(description="Awaited model.")
    async def awaited_model(self) -> Sum:
        return await later(Sum(total=1))  # type: ignore[no-any-return]

    @mcp_tool(description="Awaited nothing.")
    async def awaited_nothing(self) -> None:
        await later(None)

    @mcp_tool(description="Something to await.")
    def awaitable_list(self) -> Awaitable[list[int]]:
        return later([1])

    @mcp_tool(description="A coroutine.")
    def coroutine_number(self) -> Coroutine[Any, Any, int]:
        return later(7)

    @mcp_tool(description="A model that is not there.")
    def missing_model(self) -> Sum:
        return None  # type: ignore[return-value]

    @mcp_tool(description="An optional model that is not there.")
    def missing_optional(self) -> Sum | None:
        return None

    @mcp_tool(description="Awaited, and not there.")
    async def missing_awaited(self) -> str:
        return await later(None)  # type: ignore[no-any-return]

    @mcp_tool(name="renamed", description="Adds.", annotations=[ToolAnnotation.READ_ONLY])
    def add(
        self,
        a: Annotated[int, "First term"],
        b: int,
        scale: float = 1.0,
        note: str | None = None,
        loud: bool = False,
    ) -> Sum:
        return Sum(total=int((a + b) * scale), note=note if not loud else (note or "").upper())

    @mcp_tool(
        description="By hand.",
        input_schema='{"type":"object","properties":{"size":{"type":"integer","minimum":3}},'
        '"required":["size"]}',
    )
    def by_hand(self, size: int | None = None) -> int:
        return size or 0

    @mcp_tool(description="Beyond the seed: any type.")
    def rich(self, sums: list[Sum], at: date) -> str:
        return f"{len(sums)} {at}"


ENDPOINT = served_by(Tools)


def call(name: str, version: str = "2026-07-28", **arguments: Any) -> Any:
    """The result of a tool call, validated by the official types."""
    return ask(ENDPOINT, version, "tools/call", {"name": name, "arguments": arguments}).result


def listed(name: str) -> Any:
    """A tool as it is listed."""
    tools = ask(ENDPOINT, "2026-07-28", "tools/list").result["tools"]
    return next(one for one in tools if one["name"] == name)


SUM_SCHEMA = {
    "type": "object",
    "description": "What comes out.",
    "properties": {"total": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["total"],
}
POINT_SCHEMA = {
    "type": "object",
    "description": "A record.",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x"],
}


def result_of(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of a list."""
    array = {"type": "array", "items": items, **more}
    return {"type": "object", "properties": {"result": array}, "required": ["result"]}


INTEGER, STRING = {"type": "integer"}, {"type": "string"}

RESULTS: list[tuple[str, str, Any, str, Any]] = [
    # rule, tool, output schema, text, structured content
    ("text is sent as it is", "text", None, 'as "it" is', None),
    ("a model: schema and structure", "model", SUM_SCHEMA, '{"total":5}', {"total": 5}),
    ("a record: schema and structure", "record", POINT_SCHEMA, '{"x":1}', {"x": 1}),
    (
        "a typed dictionary is an object",
        "typed",
        {
            "type": "object",
            "description": "A typed dictionary.",
            "properties": {"key": STRING},
            "required": ["key"],
        },
        '{"key":"a"}',
        {"key": "a"},
    ),
    (
        "a list stands under result",
        "listed",
        result_of(SUM_SCHEMA),
        '{"result":[{"total":1},{"total":2,"note":"n"}]}',
        {"result": [{"total": 1}, {"total": 2, "note": "n"}]},
    ),
    ("so does a tuple", "fixed", result_of(INTEGER), '{"result":[1,2]}', {"result": [1, 2]}),
    (
        "so does a set",
        "unordered",
        result_of(STRING, uniqueItems=True),
        '{"result":["a"]}',
        {"result": ["a"]},
    ),
    (
        "so does a frozen set",
        "frozen",
        result_of(INTEGER, uniqueItems=True),
        '{"result":[1]}',
        {"result": [1]},
    ),
    ("so does a sequence", "sequence", result_of(INTEGER), '{"result":[3]}', {"result": [3]}),
    (
        "so does an abstract set",
        "abstract_set",
        result_of(INTEGER, uniqueItems=True),
        '{"result":[4]}',
        {"result": [4]},
    ),
    (
        "a mapping: an object without properties",
        "mapping",
        {"type": "object"},
        '{"a":1,"b":null}',
        {"a": 1, "b": None},
    ),
    ("nothing is SUCCESS", "nothing", None, "SUCCESS", None),
    ("a number is its JSON", "number", None, "3", None),
    ("a fraction is its JSON", "fraction", None, "1.5", None),
    ("a boolean is its JSON", "flag", None, "true", None),
    ("an enumeration is its JSON, in quotes", "colour", None, '"red"', None),
    ("a date is its JSON, in quotes", "day", None, '"2026-12-01"', None),
    ("a moment is its JSON, in quotes", "moment", None, '"2026-12-01T00:00:00Z"', None),
    ("a decimal is its JSON", "price", None, '"1.10"', None),
    ("an id is its JSON", "identity", None, f'"{TEXT_ID}"', None),
    ("text that is awaited", "awaited_text", None, "soon", None),
    ("a model that is awaited", "awaited_model", SUM_SCHEMA, '{"total":1}', {"total": 1}),
    ("nothing that is awaited", "awaited_nothing", None, "SUCCESS", None),
    (
        "an awaitable that a plain method returns",
        "awaitable_list",
        result_of(INTEGER),
        '{"result":[1]}',
        {"result": [1]},
    ),
    ("a coroutine that a plain method returns", "coroutine_number", None, "7", None),
]


@pytest.mark.parametrize("version", EVERY_REVISION)
@pytest.mark.parametrize(
    ("rule", "name", "schema", "text", "structured"), RESULTS, ids=[row[0] for row in RESULTS]
)
def test_results_of_tools(
    rule: str, name: str, schema: Any, text: str, structured: Any, version: str
) -> None:
    result = call(name, version)

    assert listed(name).get("outputSchema") == schema
    assert result["content"] == [{"type": "text", "text": text}], rule
    assert result.get("structuredContent") == structured
    assert result["isError"] is False


@pytest.mark.parametrize("name", ["missing_model", "missing_optional", "missing_awaited"])
def test_a_null_result_fails_the_call(name: str) -> None:
    result = call(name)

    assert result["isError"] is True
    assert "structuredContent" not in result
    assert name in result["content"][0]["text"]


ADD = {"a": 1, "b": 2}
ARGUMENTS: list[tuple[str, str, dict[str, Any], Any]] = [
    # rule, tool, arguments, structured content, or a part of the error's text
    ("what has a default may be left out", "renamed", ADD, {"total": 3}),
    ("an explicit null is as good as left out", "renamed", {**ADD, "note": None}, {"total": 3}),
    (
        "optional arguments arrive",
        "renamed",
        {**ADD, "scale": 2.5, "note": "n", "loud": True},
        {"total": 7, "note": "N"},
    ),
    ("what has no default is required", "renamed", {"a": 1}, "b: is required"),
    ("a wrong type is told by name", "renamed", {**ADD, "a": "many"}, "a: "),
    ("an unknown argument is told by name", "renamed", {**ADD, "c": 3}, "c: unknown parameter"),
    ("a schema by hand decides what is required", "by_hand", {}, "'size' is a required property"),
    ("arguments are checked by a schema by hand", "by_hand", {"size": 2}, "size: 2 is less than"),
    ("a number that is text is taken, where a number is due", "renamed", {"a": "1", "b": 2}, {"total": 3}),
    ("JSON within text is taken, where text is not due", "rich", {"sums": '[{"total": 1}]', "at": "2026-12-01"}, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "name", "arguments", "expected"), ARGUMENTS, ids=[row[0] for row in ARGUMENTS]
)
def test_arguments_of_tools(rule: str, name: str, arguments: dict[str, Any], expected: Any) -> None:
    result = call(name, **arguments)

    assert result["isError"] is isinstance(expected, str), rule
    if isinstance(expected, str):
        assert expected in result["content"][0]["text"]
    elif expected is not None:
        assert result["structuredContent"] == expected
    else:
        assert result["content"][0]["text"] == "1 2026-12-01"


def test_a_tool_is_listed_with_what_was_said_of_it() -> None:
    """Name, description, parameter descriptions, optional parameters, hints."""
    assert listed("renamed") == {
        "name": "renamed",
        "description": "Adds.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "First term"},
                "b": {"type": "integer"},
                "scale": {"type": "number", "default": 1.0},
                "note": {"type": "string"},
                "loud": {"type": "boolean", "default": False},
            },
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        "outputSchema": SUM_SCHEMA,
        "annotations": {"readOnlyHint": True},
    }


def test_a_tool_without_parameters_has_an_empty_object() -> None:
    assert listed("text")["inputSchema"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_the_name_is_the_methods_and_hints_that_are_not_given_are_left_out() -> None:
    tool = listed("text")

    assert tool["name"] == "text"
    assert tool.keys().isdisjoint({"annotations", "_meta", "title", "icons"})


def test_a_schema_by_hand_goes_out_as_it_came_in() -> None:
    assert listed("by_hand")["inputSchema"] == {
        "type": "object",
        "properties": {"size": {"type": "integer", "minimum": 3}},
        "required": ["size"],
    }


def test_tools_are_listed_by_name() -> None:
    names = [one["name"] for one in ask(ENDPOINT, "2026-07-28", "tools/list").result["tools"]]

    assert names == sorted(names)
    assert "add" not in names


PAIRS = [
    (ToolAnnotation.READ_ONLY, ToolAnnotation.MUTATING, "readOnlyHint"),
    (ToolAnnotation.DESTRUCTIVE, ToolAnnotation.NON_DESTRUCTIVE, "destructiveHint"),
    (ToolAnnotation.IDEMPOTENT, ToolAnnotation.NON_IDEMPOTENT, "idempotentHint"),
    (ToolAnnotation.OPEN_WORLD, ToolAnnotation.CLOSED_WORLD, "openWorldHint"),
]


@pytest.mark.parametrize(("yes", "no", "hint"), PAIRS, ids=[hint for *_, hint in PAIRS])
def test_hints_come_in_pairs_that_exclude_each_other(
    yes: ToolAnnotation, no: ToolAnnotation, hint: str
) -> None:
    for annotation, value in ((yes, True), (no, False)):

        @mcp_endpoint(server_name="hints")
        class One:
            @mcp_tool(description="x", annotations=[annotation])
            def one(self) -> None: ...

        [tool] = ask(served_by(One), "2026-07-28", "tools/list").result["tools"]
        assert tool["annotations"] == {hint: value}

    @mcp_endpoint(server_name="hints")
    class Both:
        @mcp_tool(description="x", annotations=[yes, no])
        def one(self) -> None: ...

    with pytest.raises(DefinitionError, match="both that it is and that it is not"):
        define_endpoint(Both, {})


# -- resources ---------------------------------------------------------------------------------


@mcp_endpoint(server_name="seeds")
class Resources:
    """One resource for each rule."""

    @mcp_resource(uri="seed://text", name="Text", description="Says something.")
    def text(self) -> str:
        return "grüße"

    @mcp_resource(uri="seed://bytes", name="Bytes")
    def data(self) -> bytes:
        return b"\x00\xff"

    @mcp_resource(uri="seed://json", name="Json")
    def model(self) -> Sum:
        return Sum(total=5)

    @mcp_resource(uri="seed://number", name="Number")
    def number(self) -> int:
        return 3

    @mcp_resource(uri="seed://null", name="Null")
    def null(self) -> Sum | None:
        return None

    @mcp_resource(uri="seed://markdown", name="Markdown", mime_type="text/markdown")
    def markdown(self) -> str:
        return "# Hi"

    @mcp_resource(uri="seed://image", name="Image", mime_type="image/png")
    def image(self) -> bytes:
        return b"png"

    @mcp_resource(uri="seed://yaml", name="Yaml", mime_type="application/yaml")
    def yaml(self) -> dict[str, int]:
        return {"a": 1}

    @mcp_resource(uri="seed://awaited", name="Awaited")
    async def awaited(self) -> str:
        return str(await later("soon"))

    @mcp_resource(uri_template="file:///images/{category}/{file}", name="Image file")
    def file(self, file: str, category: str) -> str:
        return f"{category} / {file}"

    @mcp_resource(uri="file:///images/fixed/one", name="Fixed")
    def fixed(self) -> str:
        return "fixed"


RESOURCES = served_by(Resources)
OF_SEED: list[tuple[str, str, dict[str, Any]]] = [
    # rule, URI, what is read
    ("text is text/plain in UTF-8", "seed://text", {"mimeType": "text/plain", "text": "grüße"}),
    (
        "bytes are base64, application/octet-stream",
        "seed://bytes",
        {"mimeType": "application/octet-stream", "blob": base64.b64encode(b"\x00\xff").decode()},
    ),
    (
        "the rest is application/json",
        "seed://json",
        {"mimeType": "application/json", "text": '{"total":5,"note":null}'},
    ),
    ("a scalar too", "seed://number", {"mimeType": "application/json", "text": "3"}),
    ("null too", "seed://null", {"mimeType": "application/json", "text": "null"}),
    ("a given type wins, for text", "seed://markdown", {"mimeType": "text/markdown", "text": "# Hi"}),
    ("a given type wins, for bytes", "seed://image", {"mimeType": "image/png", "blob": "cG5n"}),
    ("a given type wins, for the rest", "seed://yaml", {"mimeType": "application/yaml", "text": '{"a":1}'}),
    ("a coroutine is awaited", "seed://awaited", {"mimeType": "text/plain", "text": "soon"}),
    (
        "placeholders go to parameters by name, the URI is echoed",
        "file:///images/bicycles/tall_bike.jpg",
        {"mimeType": "text/plain", "text": "bicycles / tall_bike.jpg"},
    ),
    (
        "a static URI comes before a template",
        "file:///images/fixed/one",
        {"mimeType": "text/plain", "text": "fixed"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("version", EVERY_REVISION)
@pytest.mark.parametrize(("rule", "uri", "expected"), OF_SEED, ids=[row[0] for row in OF_SEED])
def test_what_resources_hold(rule: str, uri: str, expected: dict[str, Any], version: str) -> None:
    [content] = ask(RESOURCES, version, "resources/read", {"uri": uri}).result["contents"]

    assert content == {"uri": uri, **expected}, rule


@pytest.mark.parametrize(
    "uri",
    [
        "file:///images/bicycles",
        "file:///images/bicycles/tall/bike.jpg",
        "file:///images//tall_bike.jpg",
        "file:///images/bicycles/",
        "file:///other/bicycles/tall_bike.jpg",
        "http:///images/bicycles/tall_bike.jpg",
        "file:///images/bicycles/%2e%2e",
        "file:///images/bicycles/..",
        "file:///images/bicycles/a%2Fb",
        "file:///images/bicycles/a%5Cb",
        "file:///images/bicycles/a%00",
        "file:///images/bicycles/%ff",
        "file:///images/bicycles/a?b=1",
        "seed://texts",
    ],
)
@pytest.mark.parametrize(
    ("version", "code", "status"), [("2025-11-25", -32002, 200), ("2026-07-28", -32602, 400)]
)
def test_what_no_template_matches_is_not_found(
    uri: str, version: str, code: int, status: int
) -> None:
    """A placeholder is one whole segment, not empty, and can't lead elsewhere once decoded."""
    answer = ask(RESOURCES, version, "resources/read", {"uri": uri})

    assert (answer.status, answer.error["code"]) == (status, code)
    assert answer.error["data"] == {"uri": uri}


@pytest.mark.parametrize(
    ("segment", "value"), [("a%20b", "a b"), ("a%2520b", "a%20b"), ("%3F%23", "?#"), ("a+b", "a+b")]
)
def test_values_are_decoded_once(segment: str, value: str) -> None:
    uri = f"file:///images/{segment}/f"

    [content] = ask(RESOURCES, "2026-07-28", "resources/read", {"uri": uri}).result["contents"]

    assert content["text"] == f"{value} / f"


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_resources_and_templates_are_listed_apart(version: str) -> None:
    static = ask(RESOURCES, version, "resources/list", {}).result["resources"]
    [template] = ask(RESOURCES, version, "resources/templates/list", {}).result["resourceTemplates"]

    assert [one["name"] for one in static] == sorted(one["name"] for one in static)
    text = next(one for one in static if one["name"] == "Text")
    assert text == {
        "uri": "seed://text",
        "name": "Text",
        "description": "Says something.",
        "mimeType": "text/plain",
    }
    assert template == {
        "uriTemplate": "file:///images/{category}/{file}",
        "name": "Image file",
        "mimeType": "text/plain",
    }


# -- what is refused at start ------------------------------------------------------------------


class Message:
    """Stands for protobuf's, by its name alone."""

    __module__ = "google.protobuf.message"


class Greeting(Message):
    """A message."""


@dataclass
class HoldsGreeting:
    """A record with a message inside."""

    greeting: Greeting


BREACHES: list[tuple[str, Callable[[], Any], str]] = []


def breach(rule: str, said: str) -> Callable[[Callable[[], Any]], None]:
    """A row of the table: a function that makes one wrong method."""

    def add(make: Callable[[], Any]) -> None:
        BREACHES.append((rule, make, said))

    return add


@breach("a tool is public", "One._hidden has @mcp_tool, but is not public")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def _hidden(self) -> None: ...

    return One


@breach("a resource is public", "One._hidden has @mcp_resource, but is not public")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b")
        def _hidden(self) -> str: ...

    return One


@breach("a tool is a method", "One.fixed has @mcp_tool, but is no plain method")
def _() -> Any:
    class One:
        @staticmethod
        @mcp_tool(description="x")
        def fixed() -> None: ...

    return One


@breach("a tool has a description", "One.silent has no description")
def _() -> Any:
    class One:
        @mcp_tool
        def silent(self) -> None: ...

    return One


@breach("names are unique in an endpoint", "One.two: there is another tool named 'one'")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self) -> None: ...

        @mcp_tool(name="one", description="x")
        def two(self) -> None: ...

    return One


@breach("no protobuf message as a result", "One.one answers with a protobuf message")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self) -> Greeting: ...

    return One


@breach("no type that contains a protobuf message", "One.one answers with a protobuf message")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self) -> list[HoldsGreeting]: ...

    return One


@breach("a tool says what it returns", "One.one must say what it returns")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self): ...  # type: ignore[no-untyped-def]

    return One


@breach("a schema by hand is a schema", "One.one: input_schema is no JSON Schema")
def _() -> Any:
    class One:
        @mcp_tool(description="x", input_schema={"type": "object", "properties": 5})
        def one(self) -> None: ...

    return One


@breach("a schema by hand describes the parameters", "input_schema describes 'b', which is no")
def _() -> Any:
    class One:
        @mcp_tool(description="x", input_schema={"type": "object", "properties": {"b": {}}})
        def one(self, a: int = 1) -> None: ...

    return One


@breach("not both uri and uri_template", "One.one has both uri= and uri_template=")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b", uri_template="a://b/{c}")
        def one(self, c: str) -> str: ...

    return One


@breach("not neither uri nor uri_template", "One.one has neither uri= nor uri_template=")
def _() -> Any:
    class One:
        @mcp_resource(name="x")
        def one(self) -> str: ...

    return One


@breach("a static resource has no parameters", "One.one takes c, but its uri has nothing to give")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b")
        def one(self, c: str = "") -> str: ...

    return One


@breach("every placeholder is a parameter", "One.one: {d} in its uri_template is no parameter")
def _() -> Any:
    class One:
        @mcp_resource(uri_template="a://b/{c}/{d}")
        def one(self, c: str) -> str: ...

    return One


@breach("every parameter is a placeholder", "One.one: d is not in its uri_template")
def _() -> Any:
    class One:
        @mcp_resource(uri_template="a://b/{c}")
        def one(self, c: str, d: str) -> str: ...

    return One


@breach("parameters of templates are text", "One.one: c must be of type str")
def _() -> Any:
    class One:
        @mcp_resource(uri_template="a://b/{c}")
        def one(self, c: int) -> str: ...

    return One


@breach("a placeholder is a whole segment", "a placeholder is a whole segment")
def _() -> Any:
    class One:
        @mcp_resource(uri_template="a://b/{c}.txt")
        def one(self, c: str) -> str: ...

    return One


@breach("a placeholder stands in the path", "has a placeholder outside the path")
def _() -> Any:
    class One:
        @mcp_resource(uri_template="a://{c}/b")
        def one(self, c: str) -> str: ...

    return One


@breach("a placeholder comes once", "has {c} more than once")
def _() -> Any:
    class One:
        @mcp_resource(uri_template="a://b/{c}/{c}")
        def one(self, c: str) -> str: ...

    return One


@breach("URIs are unique in an endpoint", "One.two: the uri 'A://b' is also that of One.one")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b")
        def one(self) -> str: ...

        @mcp_resource(uri="A://b")
        def two(self) -> str: ...

    return One


@breach("templates are unique in an endpoint", "matches the same as 'a://b/{c}' of One.one")
def _() -> Any:
    class One:
        @mcp_resource(uri_template="a://b/{c}")
        def one(self, c: str) -> str: ...

        @mcp_resource(uri_template="a://b/{d}")
        def two(self, d: str) -> str: ...

    return One


@breach("no protobuf message as a resource", "One.one answers with a protobuf message")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b")
        def one(self) -> HoldsGreeting: ...

    return One


@pytest.mark.parametrize(("rule", "make", "said"), BREACHES, ids=[row[0] for row in BREACHES])
def test_what_is_refused_at_start(rule: str, make: Callable[[], Any], said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        define_endpoint(mcp_endpoint(server_name="seeds")(make()), {})

    [problem] = caught.value.problems
    assert said in problem, rule


def test_a_method_of_no_endpoint_is_no_tool() -> None:
    """The class must be an endpoint: on a component the decorator is a mistake."""

    @component("thing")
    class Thing(KeyValueEntity[int]):
        @mcp_tool(description="x")
        def look(self) -> Effect[int]: ...

    with pytest.raises(DefinitionError, match="no class with @mcp_endpoint"):
        define(Thing)
