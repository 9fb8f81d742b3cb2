"""Schemas say what is accepted, and what is sent."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from greenroom import Effect, KeyValueEntity, ToolContext, component, function_tool
from greenroom.components import ToolDefinition, define, render
from greenroom.errors import InvalidArgumentsError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    note: str | None = None
    number: int | None
    anything: Any = None
    choice: Literal["a", None] = None


@dataclass
class Size:
    width: int | None
    unit: str | None = None


class Options(TypedDict):
    level: int | None


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Outer(BaseModel):
    inner: Inner
    several: list[Inner | None] = []
    by_name: dict[str, int | None] = {}
    size: Size = Field(default_factory=lambda: Size(None))
    pet: Pet = Cat()


class Node(BaseModel):
    name: str | None
    children: list["Node"] = []


def tool_of(reply: Any = None, *, value: Any = int) -> ToolDefinition:
    @component("thing")
    class Thing(KeyValueEntity[int | None]):
        """A thing."""

        @function_tool(description="Puts.")
        def put(self, value: value) -> Effect[reply]: ...  # type: ignore[valid-type]

    return define(Thing).tools[0]


REPLIES: list[tuple[Any, Any]] = [
    (Outer, Outer(inner=Inner(number=None))),
    (Outer, Outer(inner=Inner(number=1), several=[None, Inner(number=None)], by_name={"a": None})),
    (Size, Size(None)),
    (Options, {"level": None}),
    (list[Inner], [Inner(number=None)]),
    (list[int | None], [1, None]),
    (dict[str, Inner], {"a": Inner(number=None)}),
    (Node, Node(name=None, children=[Node(name="x")])),
    (list[Node], [Node(name=None)]),
    (Cat | Dog, Dog()),
    (Pet, Cat()),
    (Outer | None, Outer(inner=Inner(number=2))),
    (tuple[int, str], (1, "a")),
    (frozenset[Colour], frozenset([Colour.RED])),
]


@pytest.mark.parametrize(
    ("reply_type", "reply"), REPLIES, ids=[f"reply{n}" for n in range(len(REPLIES))]
)
def test_what_is_sent_fits_the_output_schema(reply_type: Any, reply: Any) -> None:
    """Null fields are left out, so none of them is required, at any depth."""
    tool = tool_of(reply_type)
    schema = tool.output_schema
    assert schema is not None
    assert schema["type"] == "object"
    jsonschema.Draft202012Validator.check_schema(schema)

    shown = render(tool, tool.handler.encode_reply(reply))

    assert shown.structured is not None
    jsonschema.validate(TypeAdapter(dict[str, Any]).validate_json(shown.structured), schema)


def test_no_reference_leads_nowhere() -> None:
    """Unions with a discriminator point at definitions, which are inlined."""
    text = str(tool_of(Outer, value=Pet).input_schema) + str(tool_of(Outer).output_schema)
    assert "$ref" not in text
    assert "discriminator" not in text


def test_null_is_shown_where_it_is_accepted() -> None:
    """An optional argument may be left out; what is required and may be null says so."""
    schema = tool_of(value=Inner).input_schema["properties"]["value"]
    assert schema["properties"]["note"] == {"type": "string"}
    assert schema["properties"]["number"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert schema["required"] == ["number"]
    items = tool_of(value=list[int | None]).input_schema["properties"]["value"]["items"]
    assert items == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 15) | st.floats(-5, 15, allow_nan=False)
    | st.sampled_from(["", "a", "red", "blue", "2030-01-02", "long enough", "1.5"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["note", "number", "level", "x"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
TYPES: list[Any] = [
    bool,
    Annotated[int, Field(gt=0, le=10)],
    Annotated[str, Field(min_length=1, max_length=5)],
    Colour,
    Literal["a", "red"],
    list[int],
    Annotated[list[int], Field(max_length=2)],
    int | None,
    Inner,
    Options,
    dict[str, int],
]


@pytest.mark.parametrize("python_type", TYPES, ids=[f"type{n}" for n in range(len(TYPES))])
@given(value=VALUES)
def test_what_the_schema_accepts_the_handler_accepts(python_type: Any, value: Any) -> None:
    """And the other way round, but for what is read more kindly than the schema says: numbers
    in text, whole floats, and JSON inside text."""
    tool = _tool_for(python_type)
    arguments = {"thing_id": "t", "value": value}
    valid = jsonschema.Draft202012Validator(tool.input_schema).is_valid(arguments)
    try:
        _, [bound] = tool.parse(arguments, ToolContext())
    except InvalidArgumentsError:
        assert not valid
        return
    again = TypeAdapter(python_type).dump_python(bound, mode="json", exclude_defaults=True)
    assert jsonschema.Draft202012Validator(tool.input_schema).is_valid(
        {"thing_id": "t", "value": again}
    )


_TOOLS: dict[str, ToolDefinition] = {}


def _tool_for(python_type: Any) -> ToolDefinition:
    key = str(python_type)
    if key not in _TOOLS:
        _TOOLS[key] = tool_of(value=python_type)
    return _TOOLS[key]


def test_decimals_and_dates_come_as_json_has_them() -> None:
    assert tool_of(value=Decimal).parse({"thing_id": "t", "value": 0.1}, ToolContext())[1] == (
        Decimal("0.1"),
    )
    assert tool_of(value=date).input_schema["properties"]["value"] == {
        "type": "string", "format": "date",
    }  # fmt: skip


class Level(IntEnum):
    LOW = 1


def test_names_in_an_object_are_text() -> None:
    """Whatever they are turned into; a schema of numbers would accept none."""
    tool = tool_of(value=dict[Level, int])
    arguments = {"thing_id": "t", "value": {"1": 2}}

    jsonschema.validate(arguments, tool.input_schema)

    assert tool.parse(arguments, ToolContext())[1] == ({Level.LOW: 2},)
    names = tool_of(value=dict[Colour, int]).input_schema["properties"]["value"]["propertyNames"]
    assert names["enum"] == ["red", "blue"]


class Confusing(BaseModel):
    """Fields named as the words of JSON Schema are."""

    title: str
    default: int = 3
    enum: list[str] = []
    properties: dict[str, int] = {}
    const: Literal["x"] = "x"
    required: bool = False
    discriminator: int = 0
    reference: int = Field(default=1, alias="$ref")
    propertyNames: str = ""


def test_fields_named_as_the_words_of_a_schema_are_kept() -> None:
    schema = tool_of(Confusing, value=Confusing).input_schema["properties"]["value"]

    assert list(schema["properties"]) == [
        "title", "default", "enum", "properties", "const", "required", "discriminator", "$ref",
        "propertyNames",
    ]  # fmt: skip
    assert schema["required"] == ["title"]
