"""Rules that a class can break without meaning to, beyond those of `test_definition.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Annotated, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypedDict

from greenroom import (
    ComponentClient,
    Effect,
    EventSourcedEntity,
    KeyValueEntity,
    ReadOnlyEffect,
    ToolAnnotation,
    ToolContext,
    component,
    function_tool,
    migrates,
    type_name,
)
from greenroom.components import define, define_all
from greenroom.errors import DefinitionError

S = TypeVar("S")


@type_name("rules-versioned", version=2)
class Versioned(BaseModel):
    name: str = ""


@migrates(Versioned, from_version=1)
def give_a_name(old: dict[str, Any]) -> dict[str, Any]:
    return {**old, "name": "unknown"}


@type_name("rules-shape")
class Shape(TypedDict):
    width: int


class Opaque:
    """Nothing that pydantic knows."""


@type_name("rules-secretive")
class Secretive(BaseModel):
    secret: SecretStr = SecretStr("")


def secret_state() -> Any:
    @component("one")
    class One(KeyValueEntity[Secretive | None]):
        def put(self) -> Effect[int]: ...

    return One


def secret_parameter() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self, name: str, password: SecretStr | None = None) -> Effect[int]: ...

    return One


def secret_reply() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self) -> Effect[list[Secretive]]: ...

    return One


def static_handler() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        @staticmethod
        def put() -> Effect[int]: ...

    return One


def without_self() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put() -> Effect[int]: ...  # type: ignore[misc]

    return One


def two_effects() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self) -> Effect[int] | ReadOnlyEffect[str]: ...

    return One


def silent_override() -> Any:
    class Base(KeyValueEntity[int | None]):
        def put(self) -> Effect[int]: ...

    @component("one")
    class One(Base):
        def put(self): ...  # type: ignore[no-untyped-def]

    return One


def open_reply() -> Any:
    class Base(KeyValueEntity[int | None], Generic[S]):
        def put(self) -> Effect[S]: ...

    @component("one")
    class One(Base): ...  # type: ignore[type-arg]

    return One


def aliased_parameter() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self, name: Annotated[str, Field(alias="theName")]) -> Effect[int]: ...

    return One


def tool_context_parameter() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self, context: ToolContext) -> Effect[int]: ...

    return One


def opaque_parameter() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self, thing: Opaque) -> Effect[int]: ...

    return One


def generator() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self) -> Effect[int]:
            yield

    return One


def asynchronous_apply() -> Any:
    @component("one")
    class One(EventSourcedEntity[int, int]):
        def empty_state(self) -> int: ...

        def put(self) -> Effect[int]: ...

        async def apply_event(self, event: int) -> int: ...  # type: ignore[override]

    return One


def typed_dict_event() -> Any:
    @component("one")
    class One(EventSourcedEntity[int | None, Shape]):
        def put(self) -> Effect[int]: ...

        def apply_event(self, event: Shape) -> int: ...

    return One


def container_event() -> Any:
    @component("one")
    class One(EventSourcedEntity[int | None, list[int]]):
        def put(self) -> Effect[int]: ...

        def apply_event(self, event: list[int]) -> int: ...

    return One


def versions_in_a_container() -> Any:
    @component("one")
    class One(KeyValueEntity[list[Versioned]]):
        def empty_state(self) -> list[Versioned]: ...

        def put(self) -> Effect[int]: ...

    return One


def one_name_for_two() -> Any:
    @component("one")
    class One(EventSourcedEntity[Versioned | None, Versioned]):
        def put(self) -> Effect[int]: ...

        def apply_event(self, event: Versioned) -> Versioned: ...

    return One


def opaque_state() -> Any:
    @component("one")
    class One(KeyValueEntity[type_name("rules-opaque")(Opaque)]):  # type: ignore[misc]
        def empty_state(self) -> Any: ...

        def put(self) -> Effect[int]: ...

    return One


def taken_type_name() -> Any:
    @type_name("int")
    class Number(BaseModel): ...

    @component("one")
    class One(KeyValueEntity[Number]):
        def empty_state(self) -> Number: ...

        def put(self) -> Effect[int]: ...

    return One


def version_zero() -> Any:
    @type_name("rules-zero", version=0)
    class Zero(BaseModel): ...

    @component("one")
    class One(KeyValueEntity[Zero]):
        def empty_state(self) -> Zero: ...

        def put(self) -> Effect[int]: ...

    return One


def migration_to_nowhere() -> Any:
    @type_name("rules-nowhere")
    class Nowhere(BaseModel): ...

    @migrates(Nowhere, from_version=1)
    def up(old: Any) -> Any: ...

    @component("one")
    class One(KeyValueEntity[Nowhere]):
        def empty_state(self) -> Nowhere: ...

        def put(self) -> Effect[int]: ...

    return One


def optional_client() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def __init__(self, client: ComponentClient | None) -> None: ...

        def put(self) -> Effect[int]: ...

    return One


def contradicting_hints() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        @function_tool(
            description="Puts.",
            annotations=[ToolAnnotation.DESTRUCTIVE, ToolAnnotation.NON_DESTRUCTIVE],
        )
        def put(self) -> Effect[int]: ...

    return One


def long_tool_name() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        @function_tool(description="Puts.")
        def put_something_that_takes_a_very_long_time_to_say_in_full_words(
            self,
        ) -> Effect[int]: ...

    return One


def default_out_of_bounds() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self, count: Annotated[int, Field(gt=0)] = 0) -> Effect[int]: ...

    return One


def default_of_another_type() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self, tags: list[int] = ["x"]) -> Effect[int]: ...  # type: ignore[list-item]

    return One


def field_as_default() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self, count: int = Field(3, gt=0)) -> Effect[int]: ...

    return One


def two_bases() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None], EventSourcedEntity[int, int]):  # type: ignore[misc]
        def put(self) -> Effect[int]: ...

        def apply_event(self, event: int) -> int: ...

    return One


def apply_event_of_two() -> Any:
    @component("one")
    class One(EventSourcedEntity[int, int]):
        def empty_state(self) -> int: ...

        def put(self) -> Effect[int]: ...

        def apply_event(self, event: int, more: int) -> int: ...  # type: ignore[override]

    return One


def asynchronous_empty_state() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        async def empty_state(self) -> int: ...  # type: ignore[override]

        def put(self) -> Effect[int]: ...

    return One


def static_empty_state() -> Any:
    @component("one")
    class One(KeyValueEntity[int | None]):
        @staticmethod
        def empty_state() -> int: ...  # type: ignore[override]

        def put(self) -> Effect[int]: ...

    return One


BREACHES: list[tuple[Callable[[], Any], str]] = [
    (static_handler, "One.put is a static or class method; a handler takes self"),
    (without_self, "One.put takes no self"),
    (two_effects, "One.put must return one Effect[...]"),
    (silent_override, "One.put overrides a handler of Base without saying what it returns"),
    (open_reply, "One.put: the type of its reply, ~S, is left open here"),
    (aliased_parameter, "One.put: name has an alias, 'theName'; rename the parameter"),
    (tool_context_parameter, "One.put: context is not given to handlers"),
    (opaque_parameter, "One.put: pydantic can't use its parameter or reply types"),
    (generator, "One.put must be a plain def"),
    (asynchronous_apply, "One.apply_event must be a plain def"),
    (typed_dict_event, "One stores the event Shape, whose objects don't show"),
    (container_event, "One stores the event list[int], whose objects don't show"),
    (versions_in_a_container, "what is inside a container is not migrated, and rules-versioned"),
    (one_name_for_two, "One stores Versioned as an event and as a state that may be None"),
    (secret_state, "One stores Secretive, but secret is a secret, which JSON shows as stars"),
    (secret_parameter, "One.put: its parameter password is a secret, which crosses between"),
    (secret_reply, "One.put: its reply's field secret is a secret, which crosses between"),
    (opaque_state, "One stores Opaque, which pydantic can't turn into JSON"),
    (taken_type_name, "@type_name('int') is the name of a built-in type"),
    (version_zero, "One stores Zero, but versions count from 1, not 0"),
    (migration_to_nowhere, "a migration from version 1 does not lead to version 1"),
    (optional_client, "One.__init__ asks for a ComponentClient; entities compute"),
    (contradicting_hints, "says both that it is and that it is not destructive"),
    (long_tool_name, "a name has 1 to 64 letters"),
    (two_bases, "One is EventSourcedEntity and KeyValueEntity at once"),
    (apply_event_of_two, "One.apply_event must be a method that takes self and the event"),
    (asynchronous_empty_state, "One.empty_state must be a plain def"),
    (static_empty_state, "One.empty_state must be a method that takes self alone"),
    (default_out_of_bounds, "One.put: count can't be 0 by default: Input should be greater than"),
    (default_of_another_type, "One.put: tags can't be ['x'] by default: Input should be a valid"),
    (field_as_default, "One.put: count can't be FieldInfo("),
]


@pytest.mark.parametrize(("make", "said"), BREACHES, ids=[make.__name__ for make, _ in BREACHES])
def test_a_breach_is_told_once_by_class_and_method(make: Callable[[], Any], said: str) -> None:
    """One mistake is one line; what follows from it is not told too."""
    with pytest.raises(DefinitionError) as caught:
        define(make())

    [problem] = caught.value.problems
    assert said in problem


def test_all_that_is_wrong_with_one_class_is_told_at_once() -> None:
    """Types, handlers, tools and constructor: nothing hides behind something else."""

    @component("Wrong Id")
    class Wrong(EventSourcedEntity[Opaque, Versioned | Opaque]):
        def empty_state(self) -> Opaque: ...

        def __init__(self, thing, client: ComponentClient) -> None: ...  # type: ignore[no-untyped-def]

        async def one(self, *args: int) -> Effect: ...  # type: ignore[type-arg]

        def two(self, a, *, b: int) -> Effect[int]: ...  # type: ignore[no-untyped-def]

        @function_tool
        def three(self, a: Opaque) -> Effect[int]: ...

    with pytest.raises(DefinitionError) as caught:
        define(Wrong)

    text = "\n".join(caught.value.problems)
    for part in (
        "component id 'Wrong Id'", "stores Opaque", "has no apply_event", "__init__: thing",
        "__init__ asks for a ComponentClient", ".one must be a plain def", ".one must say what",
        ".one takes *args", ".two: a has no type", ".two: b can only be given by keyword",
        ".three: pydantic can't use",
    ):  # fmt: skip
        assert part in text
    assert len(set(caught.value.problems)) == len(caught.value.problems)


def test_an_optional_state_keeps_the_name_and_the_migrations_of_its_class() -> None:
    """A state that becomes optional still reads what was stored before, and null."""

    @component("one")
    class One(KeyValueEntity[Versioned | None]):
        def put(self) -> Effect[int]: ...

    [stored] = define(One).stored_types

    assert (stored.name, stored.version) == ("rules-versioned", 2)
    assert stored.migrations[1]({}) == {"name": "unknown"}
    assert stored.migrations[1](None) is None


def test_one_class_may_be_stored_by_several_components() -> None:
    @component("one")
    class One(KeyValueEntity[Versioned]):
        def empty_state(self) -> Versioned: ...

        def put(self) -> Effect[int]: ...

    @component("two")
    class Two(EventSourcedEntity[Versioned, Versioned]):
        def empty_state(self) -> Versioned: ...

        def put(self) -> Effect[int]: ...

        def apply_event(self, event: Versioned) -> Versioned: ...

    assert [one.id for one in define_all([One, Two])] == ["one", "two"]


def test_a_state_and_an_event_of_one_name_are_told_within_one_component() -> None:
    @type_name("rules-versioned")
    class Impostor(BaseModel): ...

    @component("one")
    class One(EventSourcedEntity[Versioned, Impostor]):
        def empty_state(self) -> Versioned: ...

        def put(self) -> Effect[int]: ...

        def apply_event(self, event: Impostor) -> Versioned: ...

    with pytest.raises(DefinitionError, match="both have the type name 'rules-versioned'"):
        define(One)


def test_a_slots_dataclass_above_its_type_name_keeps_it() -> None:
    """`slots=True` makes a second class, which takes the name along."""

    @dataclass(frozen=True, slots=True)
    @type_name("rules-slots")
    class Slots:
        number: int

    @component("one")
    class One(KeyValueEntity[Slots]):
        def empty_state(self) -> Slots: ...

        def put(self, slots: Slots) -> Effect[Slots]: ...

    [stored] = define(One).stored_types
    assert (stored.name, stored.python_type) == ("rules-slots", Slots)


def test_helpers_are_no_handlers() -> None:
    """Private methods, properties and methods without an effect are the class's own business."""

    @component("one")
    class One(KeyValueEntity[int | None]):
        def put(self) -> Effect[int]: ...

        def _decline(self) -> Effect[int]: ...

        def untyped(self, anything): ...  # type: ignore[no-untyped-def]

        @property
        def doubled(self) -> int:
            return 2 * self.state

    assert list(define(One).handlers) == ["put"]


def test_a_handler_may_be_called_as_a_builtin() -> None:
    """Even when its neighbours mention the builtin."""

    @component("one")
    class One(KeyValueEntity[int | None]):
        def list(self) -> "ReadOnlyEffect[list[int]]": ...

        def put(self, values: "list[int]") -> "Effect[list[int]]": ...

    assert define(One).handlers["list"].reply_type == list[int]


def test_a_decorated_handler_keeps_its_signature() -> None:
    """With `functools.wraps`, as decorators should."""
    from functools import wraps

    def logged(function: Any) -> Any:
        @wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inner

    @component("one")
    class One(KeyValueEntity[int | None]):
        @function_tool(description="Puts.")
        @logged
        def put(self, value: int = 3) -> Effect[int]: ...

    definition = define(One)
    assert [one.name for one in definition.handlers["put"].parameters] == ["value"]
    assert definition.handler_for(One.put) is definition.handlers["put"]
    assert definition.tools[0].name == "one_put"


def test_a_subclass_is_another_component_and_answers_to_its_bases_handlers() -> None:
    """It inherits handlers, and tools, but neither the id nor the type name of its base."""

    @component("base")
    class Base(KeyValueEntity[int | None]):
        @function_tool(description="Puts.")
        def put(self) -> Effect[int]: ...

    class Middle(Base): ...

    @component("leaf")
    class Leaf(Middle):
        def put(self) -> Effect[int]:
            return super().put()

    definition = define(Leaf)
    assert (definition.id, definition.tools[0].name) == ("leaf", "leaf_put")
    assert definition.handler_for(Base.put).function is Leaf.put
    with pytest.raises(DefinitionError, match=r"Middle has no @component"):
        define(Middle)


def test_decorators_without_their_brackets_are_told_at_once() -> None:
    """The class would be gone by the time that a service looks at it."""
    with pytest.raises(DefinitionError, match=r'@component\("shopping-cart"\)'):

        @component  # type: ignore[arg-type]
        class One(KeyValueEntity[int | None]): ...

    with pytest.raises(DefinitionError, match=r'@type_name\("item-added"\)'):

        @type_name  # type: ignore[arg-type]
        class Two(BaseModel): ...


WRONG_MARKS: list[tuple[Callable[[], Any], str]] = [
    (lambda: component(5), "@component takes an id, .*, not 5"),  # type: ignore[arg-type]
    (lambda: type_name(5), "@type_name takes a name, .*, not 5"),  # type: ignore[arg-type]
    (
        lambda: type_name("x", version="2"),  # type: ignore[arg-type]
        "a version is a whole number, not '2'",
    ),
    (lambda: migrates(Versioned, from_version=1.0), "not 1.0"),  # type: ignore[arg-type]
    (lambda: migrates(5, from_version=1)(print), r"@migrates\(5\): .*no @type_name"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("mark", "said"), WRONG_MARKS, ids=[said for _, said in WRONG_MARKS])
def test_what_a_decorator_can_not_take_is_told_where_it_stands(
    mark: Callable[[], Any], said: str
) -> None:
    with pytest.raises(DefinitionError, match=said):
        mark()


def test_events_may_be_applied_by_class() -> None:
    """`singledispatchmethod` is a method that takes self and the event."""

    @component("one")
    class One(EventSourcedEntity[int, int | str]):
        def empty_state(self) -> int: ...

        def put(self) -> Effect[int]: ...

        @singledispatchmethod
        def apply_event(self, event: int | str) -> int: ...  # type: ignore[override]

    assert define(One).event_types == (int, str)


def test_what_a_decorator_writes_is_no_description() -> None:
    @component("one")
    @dataclass
    class One(KeyValueEntity[int | None]):
        thing: Opaque

        def put(self) -> Effect[int]: ...

    definition = define(One)
    assert definition.description == ""
    assert definition.dependencies == {"thing": Opaque}
