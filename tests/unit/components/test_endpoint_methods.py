"""The own methods of an endpoint, beyond the rules of the founding documents (unit/mcp/test_seeds)."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from greenroom import (
    ComponentClient,
    Effect,
    EntityContext,
    ImageContent,
    KeyValueEntity,
    McpContext,
    PromptMessage,
    ResourceLink,
    TextContent,
    ToolAnnotation,
    ToolContext,
    component,
    function_tool,
    mcp_completion,
    mcp_endpoint,
    mcp_instances,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
)
from greenroom.components import define, define_endpoint
from greenroom.components.endpoint_methods import EndpointMethods
from greenroom.errors import DefinitionError


def read(cls: type[Any], *, tools: Any = ()) -> EndpointMethods:
    known = {Box: define(Box)}
    return define_endpoint(mcp_endpoint(server_name="one", tools=tools)(cls), known).methods


@component("box")
class Box(KeyValueEntity[int]):
    """A box."""

    def empty_state(self) -> int:
        return 0

    @function_tool(description="Puts.")
    def put(self, value: int) -> Effect[int]: ...


BREACHES: list[tuple[str, Callable[[], Any]]] = []


def breach(said: str) -> Callable[[Callable[[], Any]], None]:
    def add(make: Callable[[], Any]) -> None:
        BREACHES.append((said, make))

    return add


@breach("One.one: the tool is named 'no spaces'; a name has 1 to 64")
def _() -> Any:
    class One:
        @mcp_tool(name="no spaces", description="x")
        def one(self) -> None: ...

    return One


@breach("One.one: a has no type annotation")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self, a) -> None: ...  # type: ignore[no-untyped-def]

    return One


@breach("One.one takes *rest")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self, *rest: int) -> None: ...

    return One


@breach("One.one: a can't be 'x' by default")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self, a: int = "x") -> None: ...  # type: ignore[assignment]

    return One


@breach("One.one: the annotations mention 'Unknown'")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self) -> "Unknown": ...  # type: ignore[name-defined]  # noqa: F821

    return One


@breach("One.one: pydantic can't use its parameter or result types")
def _() -> Any:
    class Opaque: ...

    class One:
        @mcp_tool(description="x")
        def one(self) -> Opaque: ...

    return One


@breach("One.one has a parameter or result without a JSON Schema")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self, call: Callable[[], int]) -> None: ...

    return One


@breach("One.one must return its result, not yield it")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self) -> Iterator[int]:
            yield 1

    return One


@breach("One.one: media stand alone or in a list")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self) -> set[ImageContent]: ...

    return One


@breach("One.one asks for the context twice: a and b")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(self, a: McpContext, b: ToolContext) -> None: ...

    return One


@breach("One.one: timeout must be more than nothing")
def _() -> Any:
    class One:
        @mcp_tool(description="x", timeout=timedelta(0))
        def one(self) -> None: ...

    return One


@breach("One.one: max_result_bytes must be more than nothing")
def _() -> Any:
    class One:
        @mcp_tool(description="x", max_result_bytes=-1)
        def one(self) -> None: ...

    return One


@breach("One.one: input_schema is no JSON: ")
def _() -> Any:
    class One:
        @mcp_tool(description="x", input_schema="{")
        def one(self) -> None: ...

    return One


@breach("One.one: input_schema must describe an object")
def _() -> Any:
    class One:
        @mcp_tool(description="x", input_schema={"type": "array"})
        def one(self) -> None: ...

    return One


@breach("One.one: input_schema leaves out 'a', a parameter without a default")
def _() -> Any:
    class One:
        @mcp_tool(description="x", input_schema={"type": "object"})
        def one(self, a: int) -> None: ...

    return One


@breach("One.one: a: x-mcp-header 'a b' can't be part of a header's name")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(
            self, a: Annotated[str, Field(json_schema_extra={"x-mcp-header": "a b"})]
        ) -> None: ...

    return One


@breach("One.one: b: x-mcp-header 'region' comes twice")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(
            self,
            a: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
            b: Annotated[str, Field(json_schema_extra={"x-mcp-header": "region"})],
        ) -> None: ...

    return One


@breach("One.one: a: x-mcp-header is for text, whole numbers and booleans")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        def one(
            self, a: Annotated[list[str], Field(json_schema_extra={"x-mcp-header": "A"})]
        ) -> None: ...

    return One


@breach("One.one has @function_tool, which is for components; use @mcp_tool")
def _() -> Any:
    class One:
        @function_tool(description="x")
        def one(self) -> None: ...

    return One


@breach("One.one: the uri 'terms' must begin with a scheme")
def _() -> Any:
    class One:
        @mcp_resource(uri="terms")
        def one(self) -> str: ...

    return One


@breach("One.one: priority must be from 0 to 1")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b", priority=2)
        def one(self) -> str: ...

    return One


@breach("One.one: @mcp_tool timeout= must be timedelta, not 5")
def _() -> Any:
    class One:
        @mcp_tool(description="x", timeout=5)  # type: ignore[call-overload]
        def one(self) -> None: ...

    return One


@breach(
    "One.one: @mcp_tool annotations= must be a list of ToolAnnotation, not <ToolAnnotation.READ"
)
def _() -> Any:
    class One:
        @mcp_tool(description="x", annotations=ToolAnnotation.READ_ONLY)  # type: ignore[call-overload]
        def one(self) -> None: ...

    return One


@breach("One.one: @mcp_tool meta= must be Mapping, not {1: 2}")
def _() -> Any:
    class One:
        @mcp_tool(description="x", meta={1: 2})  # type: ignore[call-overload]
        def one(self) -> None: ...

    return One


@breach("One.one: @mcp_resource audience= must be a list of 'user' or 'assistant', not ('all',)")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b", audience=["all"])  # type: ignore[list-item]
        def one(self) -> str: ...

    return One


@breach("One.one: @mcp_resource size= must be int, not True")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b", size=True)
        def one(self) -> str: ...

    return One


@breach("One.one has @mcp_tool, but is no plain method that takes self")
def _() -> Any:
    class One:
        @mcp_tool(description="x")
        @staticmethod
        def one() -> None: ...

    return One


@breach("One.one: @mcp_prompt role= must be 'user' or 'assistant', not 'system'")
def _() -> Any:
    class One:
        @mcp_prompt(role="system")  # type: ignore[call-overload]
        def one(self) -> str: ...

    return One


@breach("One.one must return text, a MessageContent, a PromptMessage or a list of these, not int")
def _() -> Any:
    class One:
        @mcp_prompt
        def one(self) -> int: ...

    return One


@breach("One.two: there is another prompt named 'one'")
def _() -> Any:
    class One:
        @mcp_prompt
        def one(self) -> str: ...

        @mcp_prompt(name="one")
        def two(self) -> str: ...

    return One


@breach("One.more: @mcp_completion is for 'other', which is no prompt or resource here")
def _() -> Any:
    def other() -> None: ...

    class One:
        @mcp_completion(other, "a")
        def more(self, typed: str) -> list[str]: ...

    return One


@breach("One.more: @mcp_completion is for the argument 'b' of one, which has: a")
def _() -> Any:
    class One:
        @mcp_prompt
        def one(self, a: str) -> str: ...

        @mcp_completion(one, "b")
        def more(self, typed: str) -> list[str]: ...

    return One


@breach("One.more: @mcp_completion must return a list of texts")
def _() -> Any:
    class One:
        @mcp_prompt
        def one(self, a: str) -> str: ...

        @mcp_completion(one, "a")
        def more(self, typed: str) -> str: ...

    return One


@breach("One.more: @mcp_completion takes what was typed")
def _() -> Any:
    class One:
        @mcp_prompt
        def one(self, a: str) -> str: ...

        @mcp_completion(one, "a")
        def more(self) -> list[str]: ...

    return One


@breach("One.more: @mcp_instances is for 'one', which is no resource template")
def _() -> Any:
    class One:
        @mcp_resource(uri="a://b")
        def one(self) -> str: ...

        @mcp_instances(one)
        def more(self) -> list[ResourceLink]: ...

    return One


@breach("One.more: @mcp_instances must return list[ResourceLink]")
def _() -> Any:
    class One:
        @mcp_resource(uri_template="a://b/{c}")
        def one(self, c: str) -> str: ...

        @mcp_instances(one)
        def more(self) -> list[str]: ...

    return One


@breach("One.__init__: thing has no type")
def _() -> Any:
    class One:
        def __init__(self, thing) -> None: ...  # type: ignore[no-untyped-def]

    return One


@breach("One.__init__ asks for an EntityContext")
def _() -> Any:
    class One:
        def __init__(self, entity: EntityContext) -> None: ...

    return One


@pytest.mark.parametrize(("said", "make"), BREACHES, ids=[said for said, _ in BREACHES])
def test_a_breach_is_told_by_class_and_method(said: str, make: Callable[[], Any]) -> None:
    with pytest.raises(DefinitionError) as caught:
        read(make())

    [problem] = caught.value.problems
    assert said in problem


def test_all_breaches_are_told_at_once() -> None:
    class One:
        def __init__(self, thing) -> None: ...  # type: ignore[no-untyped-def]

        @mcp_tool
        def one(self): ...  # type: ignore[no-untyped-def]

        @mcp_resource()
        def two(self) -> str: ...

        @mcp_prompt
        def three(self) -> int: ...

    with pytest.raises(DefinitionError) as caught:
        read(One, tools=[int])

    text = "\n".join(caught.value.problems)
    for name in ("int gives tools", "__init__", "One.one", "One.two", "One.three"):
        assert name in text


def test_a_tool_of_the_class_must_not_be_called_as_one_of_a_component() -> None:
    class One:
        @mcp_tool(description="x")
        def box_put(self) -> None: ...

    with pytest.raises(DefinitionError, match=r"the tool 'box_put' is also that of box\.put"):
        read(One, tools=[Box])


def test_an_inherited_method_counts_unless_it_is_overridden_without_a_mark() -> None:
    class Base:
        @mcp_tool(description="x")
        def kept(self) -> None: ...

        @mcp_tool(description="x")
        def dropped(self) -> None: ...

    class One(Base):
        def dropped(self) -> None: ...

    assert [tool.name for tool in read(One).tools] == ["kept"]


def test_the_context_is_given_and_not_shown() -> None:
    class One:
        @mcp_tool(description="x")
        def one(self, a: int, context: McpContext, b: int) -> None: ...

    [tool] = read(One).tools

    assert list(tool.input_schema["properties"]) == ["a", "b"]
    assert tool.method.context_at == 1
    assert tool.method.arguments((1, 2), "context") == (1, "context", 2)


def test_texts_come_from_docstrings_where_nothing_else_says_them() -> None:
    class One:
        @mcp_tool
        def one(self, a: int) -> None:
            """Does one thing.

            Args:
                a: How often.
            """

        @mcp_resource(uri="a://b")
        def two(self) -> str:
            """Holds something."""

        @mcp_prompt
        def three(self) -> str:
            """Asks something."""

    found = read(One)

    assert found.tools[0].description == "Does one thing."
    assert found.tools[0].input_schema["properties"]["a"]["description"] == "How often."
    assert found.resources[0].description == "Holds something."
    assert found.prompts[0].description == "Asks something."


def test_templates_are_asked_by_how_much_they_say() -> None:
    class One:
        @mcp_resource(uri_template="a://b/{c}/{d}")
        def general(self, c: str, d: str) -> str: ...

        @mcp_resource(uri_template="a://b/{c}/items")
        def later(self, c: str) -> str: ...

        @mcp_resource(uri_template="a://b/carts/{d}")
        def latest(self, d: str) -> str: ...

    names = [one.name for one in read(One).templates]

    assert names == ["later", "latest", "general"]


def test_media_have_no_schema() -> None:
    class One:
        @mcp_tool(description="x")
        def one(self) -> ImageContent: ...

        @mcp_tool(description="x")
        def several(self) -> list[TextContent | ImageContent]: ...

    assert [(one.shape, one.output_schema) for one in read(One).tools] == [("content", None)] * 2


def test_what_a_type_names_is_a_completion() -> None:
    class Size(Enum):
        SMALL = "s"
        LARGE = "l"

    class One:
        @mcp_prompt
        def one(
            self, size: Size, style: Literal["short", "long"] | None = None, other: str = ""
        ) -> list[PromptMessage]: ...

    found = read(One).completions

    assert {key[2]: one.choices for key, one in found.items()} == {
        "size": ("s", "l"),
        "style": ("short", "long"),
    }


def test_a_method_wins_over_what_a_type_names() -> None:
    class One:
        @mcp_prompt
        def one(self, style: Literal["short", "long"]) -> str: ...

        @mcp_completion(one, "style")
        def styles(self, typed: str, others: Mapping[str, str]) -> list[str]: ...

    [found] = read(One).completions.values()

    assert found.method is not None
    assert found.takes_others


def test_a_constructor_says_what_it_needs() -> None:
    class Weather: ...

    class One:
        def __init__(self, client: ComponentClient, weather: Weather, call: McpContext) -> None: ...

    assert read(One).constructor == {
        "client": ComponentClient,
        "weather": Weather,
        "call": McpContext,
    }


def test_a_local_model_may_be_mentioned() -> None:
    class Local(BaseModel):
        a: int

    @mcp_endpoint(server_name="one")
    class One:
        @mcp_tool(description="x")
        def one(self, local: "Local") -> "Local": ...

    assert define_endpoint(One, {}).tools[0].output_schema is not None


def test_a_tool_of_a_component_may_be_described_anew() -> None:
    @mcp_endpoint(server_name="one", tools=[Box.tools(descriptions={Box.put: "Puts it in."})])
    class One: ...

    [tool] = define_endpoint(One, {Box: define(Box)}).tools

    assert tool.description == "Puts it in."
    assert define(Box).tools[0].description == "Puts."


def test_a_description_of_no_tool_is_told() -> None:
    @mcp_endpoint(server_name="one", tools=[Box.tools(descriptions={"take": "x"})])
    class One: ...

    with pytest.raises(DefinitionError, match="it has no such tool, only put"):
        define_endpoint(One, {Box: define(Box)})
