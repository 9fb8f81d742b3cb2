"""Component classes are read once, and everything that is wrong is told at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, Field

from greenroom import (
    ComponentClient,
    Effect,
    EntityContext,
    EventSourcedEntity,
    KeyValueEntity,
    ReadOnlyEffect,
    component,
    function_tool,
    migrates,
    type_name,
)
from greenroom.components import define, define_all
from greenroom.errors import DefinitionError, UnknownHandlerError

S = TypeVar("S")


@type_name("definition-thing")
class Thing(BaseModel, frozen=True):
    name: str = ""


class Nameless(BaseModel):
    pass


@dataclass
class Service:
    """Something to be injected."""


def test_a_good_component_is_read() -> None:
    """Handlers, types, dependencies and tools."""

    @component("good")
    class Good(EventSourcedEntity[Thing, Thing]):
        """A good one.

        With more to say.
        """

        def empty_state(self) -> Thing: ...

        def __init__(self, service: Service, context: EntityContext) -> None: ...

        @function_tool
        def rename(self, name: str, times: int = 1) -> Effect[Thing]:
            """Renames it.

            Args:
                name: What it is called
                    from now on.
                times: How often.
            """

        def read(self) -> ReadOnlyEffect[str]: ...

        def helper(self) -> int:
            return 1

        def _private(self) -> Effect[int]: ...

        def apply_event(self, event: Thing) -> Thing: ...

    found = define(Good)

    assert (found.id, found.kind, found.description) == (
        "good", "event-sourced-entity", "A good one.",
    )  # fmt: skip
    assert sorted(found.handlers) == ["read", "rename"]
    assert not found.handlers["rename"].read_only
    assert found.handlers["read"].read_only
    assert found.dependencies == {"service": Service, "context": EntityContext}
    assert [one.name for one in found.stored_types] == ["definition-thing"] * 2
    [tool] = found.tools
    assert (tool.name, tool.description) == ("good_rename", "Renames it.")
    properties = tool.input_schema["properties"]
    assert properties["name"]["description"] == "What it is called from now on."
    assert properties["times"] == {"description": "How often.", "type": "integer", "default": 1}


def test_handlers_of_generic_bases_and_mixins_are_inherited() -> None:
    """Their type variables stand for what the class says."""

    class Readable(KeyValueEntity[S], Generic[S]):
        def empty_state(self) -> S: ...

        def current(self) -> ReadOnlyEffect[S]: ...

        def replace(self, new: S) -> Effect[S]: ...

    class Counted:
        def count(self) -> ReadOnlyEffect[int]: ...

    @component("leaf")
    class Leaf(Counted, Readable[Thing]):
        """A leaf."""

    found = define(Leaf)

    assert sorted(found.handlers) == ["count", "current", "replace"]
    assert found.handlers["current"].reply_type is Thing
    assert found.handlers["replace"].parameters[0].type is Thing
    assert found.handler_for(Readable.replace) is found.handlers["replace"]
    assert found.handler_for(Leaf.count) is found.handlers["count"]


def test_only_its_own_functions_are_handlers() -> None:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def set(self, value: int) -> Effect[int]: ...

    @component("two")
    class Two(KeyValueEntity[int | None]):
        def set(self, value: int) -> Effect[int]: ...

    with pytest.raises(UnknownHandlerError):
        define(One).handler_for(Two.set)
    with pytest.raises(UnknownHandlerError):
        define(One).handler_for(lambda entity: entity)


def not_a_component() -> Any:
    class Plain: ...

    return Plain


def without_decorator() -> Any:
    class Bare(KeyValueEntity[int | None]):
        def set(self) -> Effect[int]: ...

    return Bare


def bad_id() -> Any:
    @component("Bad Id")
    class BadId(KeyValueEntity[int | None]):
        def set(self) -> Effect[int]: ...

    return BadId


def without_types() -> Any:
    @component("untyped")
    class Untyped(KeyValueEntity):  # type: ignore[type-arg]
        def set(self) -> Effect[int]: ...

    return Untyped


def nameless_state() -> Any:
    @component("nameless")
    class OfNameless(KeyValueEntity[Nameless]):
        def empty_state(self) -> Nameless: ...

        def set(self) -> Effect[int]: ...

    return OfNameless


def nameless_event() -> Any:
    @component("nameless-event")
    class OfNamelessEvent(EventSourcedEntity[int | None, Thing | Nameless]):
        def set(self) -> Effect[int]: ...

        def apply_event(self, event: Thing | Nameless) -> int: ...

    return OfNamelessEvent


def without_apply_event() -> Any:
    @component("no-apply")
    class NoApply(EventSourcedEntity[int | None, Thing]):
        def set(self) -> Effect[int]: ...

    return NoApply


def without_empty_state() -> Any:
    @component("no-empty-state")
    class NoEmptyState(KeyValueEntity[Thing]):
        def put(self) -> Effect[int]: ...

    return NoEmptyState


def only_reads() -> Any:
    @component("only-reads")
    class OnlyReads(KeyValueEntity[int | None]):
        def get(self) -> ReadOnlyEffect[int]: ...

    return OnlyReads


def no_handlers() -> Any:
    @component("no-handlers")
    class NoHandlers(KeyValueEntity[int | None]):
        """Nothing."""

    return NoHandlers


def bare_effect() -> Any:
    @component("bare-effect")
    class BareEffect(KeyValueEntity[int | None]):
        def set(self) -> Effect: ...  # type: ignore[type-arg]

    return BareEffect


def asynchronous() -> Any:
    @component("asynchronous")
    class Asynchronous(KeyValueEntity[int | None]):
        async def set(self) -> Effect[int]: ...

    return Asynchronous


def star_args() -> Any:
    @component("star-args")
    class StarArgs(KeyValueEntity[int | None]):
        def set(self, *values: int) -> Effect[int]: ...

    return StarArgs


def unannotated() -> Any:
    @component("unannotated")
    class Unannotated(KeyValueEntity[int | None]):
        def set(self, value) -> Effect[int]: ...  # type: ignore[no-untyped-def]

    return Unannotated


def keyword_only() -> Any:
    @component("keyword-only")
    class KeywordOnly(KeyValueEntity[int | None]):
        def set(self, *, value: int) -> Effect[int]: ...

    return KeywordOnly


def hides_an_attribute() -> Any:
    @component("hides")
    class Hides(KeyValueEntity[int | None]):
        def effects(self) -> Effect[int]: ...  # type: ignore[override]

    return Hides


def wants_a_client() -> Any:
    @component("wants-client")
    class WantsClient(KeyValueEntity[int | None]):
        def __init__(self, client: ComponentClient) -> None: ...

        def set(self) -> Effect[int]: ...

    return WantsClient


def untyped_dependency() -> Any:
    @component("untyped-dependency")
    class UntypedDependency(KeyValueEntity[int | None]):
        def __init__(self, something) -> None: ...  # type: ignore[no-untyped-def]

        def set(self) -> Effect[int]: ...

    return UntypedDependency


def private_tool() -> Any:
    @component("private-tool")
    class PrivateTool(KeyValueEntity[int | None]):
        @function_tool(description="Hidden")
        def _set(self) -> Effect[int]: ...

        def set(self) -> Effect[int]: ...

    return PrivateTool


def tool_without_effect() -> Any:
    @component("no-effect-tool")
    class NoEffectTool(KeyValueEntity[int | None]):
        @function_tool(description="Nothing")
        def look(self) -> int: ...

        def set(self) -> Effect[int]: ...

    return NoEffectTool


def undescribed_tool() -> Any:
    @component("undescribed")
    class Undescribed(KeyValueEntity[int | None]):
        @function_tool
        def set(self) -> Effect[int]: ...

    return Undescribed


def bad_tool_name() -> Any:
    @component("bad-tool")
    class BadTool(KeyValueEntity[int | None]):
        @function_tool(name="set it!", description="Sets")
        def set(self) -> Effect[int]: ...

    return BadTool


def id_clash() -> Any:
    @component("clash")
    class Clash(KeyValueEntity[int | None]):
        @function_tool(description="Sets")
        def set(self, clash_id: str) -> Effect[int]: ...

    return Clash


def unmigrated() -> Any:
    @type_name("definition-unmigrated", version=3)
    class Unmigrated(BaseModel): ...

    @migrates(Unmigrated, from_version=1)
    def up(old: Any) -> Any:
        return old

    @component("unmigrated")
    class OfUnmigrated(KeyValueEntity[Unmigrated]):
        def empty_state(self) -> Unmigrated: ...

        def set(self) -> Effect[int]: ...

    return OfUnmigrated


def bad_type_name() -> Any:
    @type_name("Bad Name")
    class BadName(BaseModel): ...

    @component("bad-type-name")
    class OfBadName(KeyValueEntity[BadName]):
        def empty_state(self) -> BadName: ...

        def set(self) -> Effect[int]: ...

    return OfBadName


BREACHES: list[tuple[Callable[[], Any], str]] = [
    (not_a_component, "Plain is not a component"),
    (without_decorator, "Bare has no @component"),
    (bad_id, "BadId: the component id 'Bad Id' must be lower case"),
    (without_types, "Untyped must say what it stores"),
    (nameless_state, "OfNameless stores Nameless, which has no permanent name"),
    (nameless_event, "OfNamelessEvent stores Nameless"),
    (without_apply_event, "NoApply has no apply_event"),
    (without_empty_state, "with None, which is no Thing; add the method, or say that"),
    (only_reads, "OnlyReads has no handler that changes anything"),
    (no_handlers, "NoHandlers has no handlers"),
    (bare_effect, "BareEffect.set must say what it answers"),
    (asynchronous, "Asynchronous.set must be a plain def"),
    (star_args, "StarArgs.set takes *values"),
    (unannotated, "Unannotated.set: value has no type annotation"),
    (keyword_only, "KeywordOnly.set: value can only be given by keyword"),
    (hides_an_attribute, "Hides.effects hides an attribute of the base class"),
    (wants_a_client, "WantsClient.__init__ asks for a ComponentClient"),
    (untyped_dependency, "UntypedDependency.__init__: something has no type"),
    (private_tool, "PrivateTool._set has @function_tool, but is not public"),
    (tool_without_effect, "NoEffectTool.look has @function_tool, but does not return Effect"),
    (undescribed_tool, "undescribed.set: @function_tool has no description"),
    (bad_tool_name, "bad-tool.set: @function_tool is named 'set it!'"),
    (id_clash, "clash.set: @function_tool takes the instance id in 'clash_id'"),
    (unmigrated, "nothing says how version 2 is read; add @migrates(Unmigrated, from_version=2)"),
    (bad_type_name, "@type_name('Bad Name') must be lower case"),
]


def test_a_state_that_may_be_none_needs_no_empty_state() -> None:
    """It begins with None then; so does a state of any type at all."""

    @component("maybe")
    class Maybe(KeyValueEntity[Thing | None]):
        def put(self) -> Effect[int]: ...

    class Begins:
        def empty_state(self) -> Thing: ...

    @component("mixed-in")
    class MixedIn(Begins, KeyValueEntity[Thing]):
        def put(self) -> Effect[int]: ...

    assert [one.state_may_be_none for one in define_all([Maybe, MixedIn])] == [True, False]


def test_a_class_without_its_decorator_is_read_all_the_same() -> None:
    class Undecorated(KeyValueEntity[int]):
        @function_tool
        async def put(self) -> Effect[int]: ...

    with pytest.raises(DefinitionError) as caught:
        define(Undecorated)

    told = "\n".join(caught.value.problems)
    for said in ('no @component("its-id")', "no empty_state", ".put must be a plain def"):
        assert said in told


@pytest.mark.parametrize(("make", "said"), BREACHES, ids=[make.__name__ for make, _ in BREACHES])
def test_a_breach_is_told_by_class_and_method(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        define(make())

    assert any(said in problem for problem in caught.value.problems), caught.value.problems


def test_every_breach_of_every_class_is_told_at_once() -> None:
    """Nobody wants to start a service ten times to learn ten mistakes."""
    with pytest.raises(DefinitionError) as caught:
        define_all([make() for make, _ in BREACHES])

    for _, said in BREACHES:
        assert any(said in problem for problem in caught.value.problems), said


def test_two_components_of_one_id_are_told() -> None:
    @component("same")
    class First(KeyValueEntity[int | None]):
        def set(self) -> Effect[int]: ...

    @component("same")
    class Second(KeyValueEntity[int | None]):
        def set(self) -> Effect[int]: ...

    with pytest.raises(DefinitionError, match=r"both have the component id 'same'"):
        define_all([First, Second])
    with pytest.raises(DefinitionError, match="given twice"):
        define_all([First, First])


def test_two_classes_of_one_type_name_are_told() -> None:
    @type_name("definition-twin")
    class One(BaseModel): ...

    @type_name("definition-twin")
    class Two(BaseModel): ...

    @component("twin-one")
    class First(KeyValueEntity[One]):
        def empty_state(self) -> One: ...

        def set(self) -> Effect[int]: ...

    @component("twin-two")
    class Second(KeyValueEntity[Two]):
        def empty_state(self) -> Two: ...

        def set(self) -> Effect[int]: ...

    with pytest.raises(DefinitionError, match="both have the type name 'definition-twin'"):
        define_all([First, Second])


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (int, "int"),
        (str, "str"),
        (list[int], "list[int]"),
        (dict[str, Thing], "dict[str,definition-thing]"),
    ],
)
def test_scalars_and_containers_have_names_of_their_own(state: Any, name: str) -> None:
    @component("scalar")
    class Scalar(KeyValueEntity[state]):  # type: ignore[valid-type]
        def empty_state(self) -> state: ...

        def set(self) -> Effect[int]: ...

    assert define(Scalar).stored_types[0].name == name


def test_bounds_and_texts_of_parameters_are_kept() -> None:
    @component("bounded")
    class Bounded(KeyValueEntity[int | None]):
        @function_tool(description="Sets")
        def set(
            self,
            number: Annotated[int, Field(ge=1, le=9), "A digit"],
            word: Annotated[str, "A word"] = "x",
        ) -> Effect[int]: ...

    [tool] = define(Bounded).tools
    assert tool.input_schema["properties"]["number"] == {
        "description": "A digit", "minimum": 1, "maximum": 9, "type": "integer",
    }  # fmt: skip
    assert tool.input_schema["properties"]["word"]["description"] == "A word"
