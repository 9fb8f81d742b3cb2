"""With annotations as text, in a module and in a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypeAliasType, TypedDict

from greenroom import (
    Effect,
    EventSourcedEntity,
    KeyValueEntity,
    ReadOnlyEffect,
    component,
    type_name,
)
from greenroom.components import define
from greenroom.components.definition import component_mark
from greenroom.errors import DefinitionError

if TYPE_CHECKING:
    from fractions import Fraction


def test_names_that_are_local_to_a_function_are_found() -> None:
    @type_name("future-event")
    class Happened(BaseModel):
        text: str

    @component("future")
    class Future(EventSourcedEntity["int", "Happened"]):
        """Written with annotations as text."""

        def empty_state(self) -> int: ...

        class Answer(BaseModel):
            number: int

        def say(self, happened: Happened) -> Effect[Happened]: ...

        def answer(self) -> ReadOnlyEffect[Answer]: ...

        def itself(self) -> ReadOnlyEffect[list[Later]]: ...

        def apply_event(self, event: Happened) -> int: ...

    found = define(Future)
    assert found.handlers["say"].reply_type is Happened
    assert found.handlers["answer"].reply_type is Future.Answer
    assert found.event_types == (Happened,)
    assert found.handlers["itself"].reply_type == list[Later]


class Later(BaseModel):
    text: str


def test_local_dataclasses_and_typed_dicts_are_found_with_all_they_mention() -> None:
    """Pydantic looks up their annotations later, when their surroundings are gone."""

    @dataclass(frozen=True)
    class Line:
        product: str

    class Options(TypedDict):
        lines: list[Line]

    @type_name("future-order")
    @dataclass(frozen=True)
    class Order:
        lines: tuple[Line, ...] = ()
        options: Options | None = None

    @component("future-order")
    class Orders(EventSourcedEntity[Order, Order]):
        def empty_state(self) -> Order: ...

        def put(self, line: Line, options: Options) -> Effect[Order]: ...

        def apply_event(self, event: Order) -> Order: ...

    definition = define(Orders)
    handler = definition.handlers["put"]
    order = Order((Line("tea"),), {"lines": [Line("milk")]})

    assert handler.decode_reply(handler.encode_reply(order)) == order
    assert handler.bind_mapping({"line": {"product": "tea"}, "options": {"lines": []}}) == (
        Line("tea"),
        {"lines": []},
    )
    assert TypeAdapter(definition.state_type).validate_python(order) == order


def test_components_inside_classes_see_what_is_around_them() -> None:
    class Local(BaseModel):
        name: str

    class Around:
        class Inner(BaseModel):
            number: int

        @component("future-inside")
        class Inside(KeyValueEntity[int | None]):
            class Own(BaseModel):
                text: str

            def put(self, one: Local, two: Inner, three: Own) -> Effect[Local]: ...  # noqa: F821

    parameters = define(Around.Inside).handlers["put"].parameters
    assert [one.type for one in parameters] == [Local, Around.Inner, Around.Inside.Own]


def test_a_name_that_only_a_type_checker_knows_is_told() -> None:
    @component("future-checking")
    class Checking(KeyValueEntity[int | None]):
        def __init__(self, fraction: Fraction) -> None: ...

        def put(self, fraction: Fraction) -> Effect[int]: ...

        def helper(self, fraction: Fraction) -> int: ...

    with pytest.raises(DefinitionError) as caught:
        define(Checking)

    assert len(caught.value.problems) == 2
    assert "put: the annotations mention 'Fraction'" in str(caught.value)
    assert "not under TYPE_CHECKING" in str(caught.value)


def test_names_in_quotes_are_found_inside_type_parameters() -> None:
    @type_name("future-quoted")
    class Quoted(BaseModel): ...

    @component("future-quoted")
    class One(KeyValueEntity[list["Quoted"]]):
        def empty_state(self) -> list[Quoted]: ...

        def put(self) -> Effect[Quoted]: ...

    assert define(One).state_type == list[Quoted]


def test_of_the_surroundings_only_types_are_kept() -> None:
    """The rest may be large, or wait to be collected."""
    large = [0] * 1000

    class Local(BaseModel): ...

    @component("future-kept")
    class One(KeyValueEntity[int | None]):
        def put(self, one: Local) -> Effect[int]: ...

    kept = component_mark(One)
    assert kept is not None
    assert kept.names["Local"] is Local
    assert "large" not in kept.names
    assert len(large) == 1000


def test_local_aliases_are_found() -> None:
    Numbers = TypeAliasType("Numbers", list[int])

    @component("future-alias")
    class One(KeyValueEntity[int | None]):
        def put(self, numbers: Numbers) -> Effect[Numbers]: ...

    handler = define(One).handlers["put"]
    assert handler.bind_mapping({"numbers": [1]}) == ([1],)
