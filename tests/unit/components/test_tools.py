"""One tool definition for each tool handler: schema, choice, names, and what a reply looks like."""

import json
import logging
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, NewType

import jsonschema
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from greenroom import (
    Effect,
    KeyValueEntity,
    Principal,
    ReadOnlyEffect,
    ToolAnnotation,
    ToolContext,
    component,
    function_tool,
)
from greenroom.components import ToolDefinition, define, render, resolve_tools
from greenroom.errors import DefinitionError, InvalidArgumentsError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """Something inside."""

    title: str
    colour: Colour = Colour.RED


class Outer(BaseModel):
    inner: Inner
    several: list[Inner] = []
    note: str | None = None


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


@dataclass
class Pair:
    left: int
    right: int | None = None


class Options(TypedDict):
    level: int


@component("box")
class Box(KeyValueEntity[int | None]):
    """A box with things in it.

    More about it.
    """

    @function_tool(description="Puts something in.")
    def put(
        self,
        thing: Outer,
        count: Annotated[int, Field(ge=1, le=9)] = 1,
        tags: Annotated[list[str] | None, "Words"] = None,
        colour: Colour = Colour.BLUE,
        day: date | None = None,
    ) -> Effect[Outer]: ...

    @function_tool(description="Looks.", name="look-inside", id_param="which_box")
    def look(self) -> ReadOnlyEffect[list[Inner]]: ...

    @function_tool(
        description="Burns it.",
        annotations=[ToolAnnotation.DESTRUCTIVE, ToolAnnotation.IDEMPOTENT],
    )
    def burn(self) -> Effect[None]: ...

    def no_tool(self) -> Effect[int]: ...


DEFINITION = define(Box)
TOOLS = {tool.handler.name: tool for tool in DEFINITION.tools}
BY_CLASS = {Box: DEFINITION}
CONTEXT = ToolContext(principal=Principal("ada"))


def test_names_and_the_id_parameter_follow_the_component() -> None:
    assert TOOLS["put"].name == "box_put"
    assert TOOLS["look"].name == "look-inside"
    assert TOOLS["put"].id_parameter == "box_id"
    assert TOOLS["look"].id_parameter == "which_box"
    properties = TOOLS["put"].input_schema["properties"]
    assert next(iter(properties)) == "box_id"
    assert "A box with things in it." in properties["box_id"]["description"]


def test_an_unknown_argument_is_told_with_all_that_are_known() -> None:
    """The instance id too, where it is an argument."""
    with pytest.raises(InvalidArgumentsError) as caught:
        TOOLS["burn"].parse({"id": "b-1"}, CONTEXT)
    assert caught.value.problems == (
        "box_id: is required",
        "id: unknown parameter; known: box_id",
    )

    [bound], _ = resolve_tools([Box.tools(only={"put"}, bind="mine")], BY_CLASS)
    with pytest.raises(InvalidArgumentsError) as caught:
        bound.parse({"box_id": "b-1", "thing": {}}, CONTEXT)
    assert "box_id: unknown parameter; known: thing, count, tags" in str(caught.value)


def test_the_schema_is_plain_and_whole() -> None:
    """Inlined, without titles of pydantic's or null; a field that is called title stays."""
    schema = TOOLS["put"].input_schema
    text = json.dumps(schema)

    assert "$ref" not in text
    assert "$defs" not in text
    assert "$schema" not in text
    assert "null" not in text
    assert schema["required"] == ["box_id", "thing"]
    assert schema["additionalProperties"] is False
    inner = schema["properties"]["thing"]["properties"]["inner"]
    assert inner["properties"]["title"] == {"type": "string"}
    assert inner["properties"]["colour"]["enum"] == ["red", "blue"]
    assert schema["properties"]["count"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "default": 1,
    }  # fmt: skip
    assert schema["properties"]["tags"] == {
        "type": "array", "items": {"type": "string"}, "description": "Words",
    }  # fmt: skip
    assert schema["properties"]["colour"]["default"] == "blue"
    assert schema["properties"]["day"]["format"] == "date"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_what_the_schema_accepts_the_handler_accepts() -> None:
    arguments = {"box_id": "b", "thing": {"inner": {"title": "x"}}, "count": 2, "day": "2030-01-02"}
    jsonschema.validate(arguments, TOOLS["put"].input_schema)

    instance, values = TOOLS["put"].parse(arguments, CONTEXT)

    assert instance == "b"
    assert values[0] == Outer(inner=Inner(title="x"))


def test_recursive_types_keep_their_definitions_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @component("forest")
    class Forest(KeyValueEntity[int | None]):
        """Trees."""

        @function_tool(description="Plants.")
        def plant(self, tree: Tree) -> Effect[Tree]: ...

    with caplog.at_level(logging.WARNING):
        [tool] = define(Forest).tools

    assert "Tree" in tool.input_schema["$defs"]
    assert "refer to themselves" in caplog.text
    jsonschema.validate(
        {"forest_id": "f", "tree": {"name": "a", "children": [{"name": "b"}]}}, tool.input_schema
    )


def test_arguments_that_do_not_fit_are_told_with_the_id() -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        TOOLS["put"].parse({"count": 20, "color": "red"}, CONTEXT)

    text = str(caught.value)
    assert "box_put" in text
    for part in ("box_id: is required", "thing: is required", "count", "color: unknown"):
        assert part in text
    with pytest.raises(InvalidArgumentsError, match="1 to 255 characters"):
        TOOLS["burn"].parse({"box_id": ""}, CONTEXT)
    with pytest.raises(InvalidArgumentsError, match="must be text"):
        TOOLS["burn"].parse({"box_id": 3}, CONTEXT)


def test_hints_follow_the_effect_and_what_is_said() -> None:
    assert TOOLS["look"].hints.read_only is True
    assert TOOLS["put"].hints.read_only is False
    burn = TOOLS["burn"].hints
    assert (burn.destructive, burn.idempotent, burn.open_world) == (True, True, None)


def test_tools_can_be_chosen_and_bound() -> None:
    tools, problems = resolve_tools([Box.tools(only={"burn"}, bind="mine")], BY_CLASS)
    [burn] = tools
    assert problems == []
    assert burn.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert burn.parse({}, CONTEXT)[0] == "mine"
    with pytest.raises(InvalidArgumentsError, match="box_id: unknown"):
        burn.parse({"box_id": "somebody-else"}, CONTEXT)

    def who(context: ToolContext) -> str:
        return f"box-of-{context.principal.subject}"

    [look], _ = resolve_tools([Box.tools(exclude={"put", "burn"}, bind=who)], BY_CLASS)
    assert look.parse({}, CONTEXT)[0] == "box-of-ada"


def test_the_same_tool_twice_is_one_tool() -> None:
    tools, problems = resolve_tools([Box, Box.tools(only={"put"})], BY_CLASS)

    assert [tool.name for tool in tools] == ["box_burn", "box_put", "look-inside"]
    assert problems == []


def test_what_is_wrong_with_a_choice_is_told() -> None:
    @component("other")
    class Other(KeyValueEntity[int | None]):
        """Another one."""

        @function_tool(description="Clashes.", name="box_put")
        def put(self) -> Effect[int]: ...

        def plain(self) -> Effect[int]: ...

    @component("toolless")
    class Toolless(KeyValueEntity[int | None]):
        def plain(self) -> Effect[int]: ...

    known = {Box: DEFINITION, Other: define(Other), Toolless: define(Toolless)}
    _, problems = resolve_tools([Box, Other, Toolless, Tree, 42, Box.tools(only={"gone"})], known)

    text = "\n".join(problems)
    for part in (
        "two tools are named 'box_put': box.put and other.put",
        "Toolless has no tools",
        "Tree gives tools but is not among the service's components",
        "42 gives no tools",
        "it has no such tool, only burn, look, put",
    ):
        assert part in text


def test_one_tool_that_is_bound_twice_is_told_as_that() -> None:
    entries = [Box.tools(bind="a"), Box.tools(bind="b", only={"put"})]

    _, problems = resolve_tools(entries, {Box: DEFINITION})

    [problem] = problems
    assert problem.startswith("'box_put' is given twice, with different bind=. Choose with only=")


def test_what_the_decorator_is_given_is_of_the_types_that_it_says() -> None:
    @component("odd")
    class Odd(KeyValueEntity[int | None]):
        @function_tool(description=5, annotations=ToolAnnotation.READ_ONLY)  # type: ignore[call-overload]
        def put(self) -> Effect[int]: ...

    with pytest.raises(DefinitionError) as caught:
        define(Odd)

    wrong = ToolAnnotation.READ_ONLY
    assert [one.partition(".Odd: ")[2] for one in caught.value.problems] == [
        "odd.put: @function_tool description= must be str, not 5",
        f"odd.put: @function_tool annotations= must be a list of ToolAnnotation, not {wrong!r}",
    ]


def tool_for(reply_type: Any) -> ToolDefinition:
    @component("shape")
    class Shape(KeyValueEntity[int | None]):
        """A shape."""

        @function_tool(description="Answers.")
        def answer(self) -> Effect[reply_type]: ...  # type: ignore[valid-type]

    return define(Shape).tools[0]


# The McpTool document, return type by return type.
ROWS: list[tuple[Any, Any, dict[str, Any] | None, str, Any]] = [
    (str, "hello", None, "hello", None),
    (str | None, "hello", None, "hello", None),
    (None, None, None, "SUCCESS", None),
    (int, 3, None, "3", None),
    (bool, True, None, "true", None),
    (date, date(2030, 1, 2), None, '"2030-01-02"', None),
    (Colour, Colour.RED, None, '"red"', None),
    (
        Pair, Pair(1), {"type": "object", "required": ["left"]},
        '{"left":1}', {"left": 1},
    ),
    (Options, {"level": 2}, {"type": "object", "required": ["level"]}, '{"level":2}', {"level": 2}),
    (
        list[int], [1, 2], {"type": "object", "required": ["result"]},
        '{"result":[1,2]}', {"result": [1, 2]},
    ),
    (
        tuple[int, ...], (1, 2), {"type": "object", "required": ["result"]},
        '{"result":[1,2]}', {"result": [1, 2]},
    ),
    (set[int], {1}, {"type": "object", "required": ["result"]}, '{"result":[1]}', {"result": [1]}),
    (dict[str, int], {"a": 1}, {"type": "object"}, '{"a":1}', {"a": 1}),
    (
        Outer, Outer(inner=Inner(title="t")), {"type": "object"},
        '{"inner":{"title":"t","colour":"red"},"several":[]}',
        {"inner": {"title": "t", "colour": "red"}, "several": []},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reply_type", "value", "schema", "text", "structured"), ROWS, ids=[str(row[0]) for row in ROWS]
)
def test_a_reply_is_shown_by_its_type(
    reply_type: Any, value: Any, schema: Any, text: str, structured: Any
) -> None:
    tool = tool_for(reply_type)

    result = render(tool, tool.handler.encode_reply(value))

    assert result.text == text
    if structured is None:
        assert result.structured is None
        assert tool.output_schema is None
    else:
        assert result.structured is not None
        assert json.loads(result.structured) == structured
        assert tool.output_schema is not None
        assert (
            schema.items()
            <= {
                key: sorted(one) if key == "required" else one
                for key, one in tool.output_schema.items()
            }.items()
        )
        jsonschema.validate(structured, tool.output_schema)


@pytest.mark.parametrize("reply_type", [str | None, Outer | None, list[int] | None])
def test_a_null_reply_fails_the_call(reply_type: Any) -> None:
    with pytest.raises(ValueError, match="null"):
        render(tool_for(reply_type), b"null")


class Large(BaseModel):
    number: int
    note: str | None = None


def test_large_integers_are_shown_as_they_are() -> None:
    """Also where null fields are left out."""
    tool = tool_for(Large)

    result = render(tool, tool.handler.encode_reply(Large(number=2**70)))

    assert result.text == f'{{"number":{2**70}}}'


Label = NewType("Label", str)
Named = NewType("Named", Inner)


def test_new_types_are_shown_as_what_they_are_made_of() -> None:
    assert render(tool_for(Label), b'"x"').text == "x"
    assert tool_for(Named).output_schema is not None


class Loose(BaseModel):
    entries: dict[str, int | None]
    numbers: list[int | None] = []
    note: str | None = None


def test_entries_of_mappings_that_are_null_stay() -> None:
    """Fields that are null are left out; data is not."""
    tool = tool_for(Loose)
    reply = Loose(entries={"x": None, "y": 1}, numbers=[None, 2])

    result = render(tool, tool.handler.encode_reply(reply))

    assert json.loads(result.text) == {"entries": {"x": None, "y": 1}, "numbers": [None, 2]}
    assert tool.output_schema is not None
    jsonschema.validate(json.loads(result.text), tool.output_schema)


async def asynchronous(_context: ToolContext) -> str:
    return "a"


@pytest.mark.parametrize("bind", [lambda: "a", lambda _a, _b: "a", asynchronous])
def test_a_bind_function_that_can_not_be_called_is_told_at_start(bind: Any) -> None:
    _, problems = resolve_tools([Box.tools(bind=bind)], BY_CLASS)

    assert len(problems) == 1
    assert "Box.tools(bind=...): the function must" in problems[0]
