"""What may be passed on without a look, what is copied, and what a call is known by."""

import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple, NewType
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field

from greenroom import Effect, KeyValueEntity, component
from greenroom.components import HandlerDefinition, define
from greenroom.errors import InvalidArgumentsError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Frozen(BaseModel, frozen=True):
    name: str = ""


class Suspicious(BaseModel, frozen=True):
    model_config = ConfigDict(revalidate_instances="always")
    count: int = Field(gt=0)


class Open(BaseModel):
    count: int = 0


@dataclass(frozen=True)
class Size:
    width: int


class Point(NamedTuple):
    x: int
    y: int


@component("parameters")
class Parameters(KeyValueEntity[int | None]):
    """Handlers with parameters of every kind."""

    def optional(
        self, name: str, note: str | None = None, colour: Colour = Colour.RED
    ) -> Effect[int]: ...

    def careless(self, tags: list[str] = None, count: int = None) -> Effect[int]: ...  # type: ignore[assignment]  # noqa: RUF013

    def mutable(self, tags: list[str] = [], one: Open = Open()) -> Effect[int]: ...

    def frozen(self, one: Frozen, size: Size, number: UUID) -> Effect[int]: ...

    def suspicious(self, one: Suspicious) -> Effect[int]: ...

    def price(self, price: Decimal) -> Effect[int]: ...

    def open(self, one: Open) -> Effect[int]: ...

    def sets(self, names: frozenset[str], anything: Any = None) -> Effect[int]: ...

    def large(self, number: int, more: dict[str, int] = {}) -> Effect[int]: ...

    def point(self, point: Point) -> Effect[int]: ...

    def data(self, data: bytes) -> Effect[int]: ...

    def text(self, name: str, number: int, names: list[str]) -> Effect[int]: ...

    def many(
        self,
        a: int | str, b: int | str, c: int | str, d: int | str, e: int | str, f: int | str,
        g: int | str, h: int | str = 0,
    ) -> Effect[int]: ...  # fmt: skip


def handler(name: str) -> HandlerDefinition:
    return define(Parameters).handlers[name]


def test_what_is_left_out_takes_its_default() -> None:
    assert handler("optional").bind(("tea",), {}) == ("tea", None, Colour.RED)
    assert handler("optional").bind(("tea", "hot"), {}) == ("tea", "hot", Colour.RED)
    assert handler("optional").bind(("tea", None, Colour.BLUE), {}) == ("tea", None, Colour.BLUE)
    assert handler("optional").bind(("tea",), {"colour": Colour.BLUE})[2] is Colour.BLUE


def test_a_default_of_none_may_be_given_whatever_the_annotation_says() -> None:
    """By place, by name, in JSON, and to another process."""
    careless = handler("careless")
    assert careless.bind((), {}) == (None, None)
    assert careless.bind((None, None), {}) == (None, None)
    assert careless.bind_mapping({"tags": None, "count": 3}) == (None, 3)
    assert careless.decode_arguments(careless.encode_arguments((None, None))) == (None, None)
    with pytest.raises(InvalidArgumentsError, match="count"):
        careless.bind((None, "x"), {})


def test_no_two_calls_share_a_default_that_can_be_changed() -> None:
    first, second = handler("mutable").bind((), {}), handler("mutable").bind_mapping({})
    assert first == second == ([], Open())
    first[0].append("x")
    first[1].count = 3
    assert second == handler("mutable").bind((), {}) == ([], Open())


def test_objects_that_can_not_be_changed_pass_as_they_are() -> None:
    args = (Frozen(name="x"), Size(3), UUID(int=1))
    assert handler("frozen").bind(args, {}) is args


def test_models_that_want_to_be_looked_at_again_are() -> None:
    wrong = Suspicious.model_construct(count=-1)
    with pytest.raises(InvalidArgumentsError, match="count"):
        handler("suspicious").bind((wrong,), {})


def test_a_decimal_that_is_no_number_does_not_pass() -> None:
    assert handler("price").bind((Decimal("1.10"),), {}) == (Decimal("1.10"),)
    with pytest.raises(InvalidArgumentsError, match="finite"):
        handler("price").bind((Decimal("NaN"),), {})


def test_a_model_that_was_made_wrong_is_told_by_parameter() -> None:
    """Pydantic looks into no object of the right class; JSON shows what is in it."""
    with pytest.raises(InvalidArgumentsError, match=r"(?s)one: does not come back from JSON.*int"):
        handler("open").bind((Open.model_construct(count="many"),), {})


def test_bytes_and_text_that_can_not_cross_are_told() -> None:
    for name, value in (("data", b"\xff"), ("optional", "\ud800")):
        values = handler(name).bind((value,), {})
        with pytest.raises(InvalidArgumentsError):
            handler(name).fingerprint(values)


def test_integers_of_any_size_arrive() -> None:
    large = 2**70
    assert handler("large").bind_mapping({"number": large}) == (large, {})
    values = handler("large").bind((large, {"a": large}), {})
    assert handler("large").decode_arguments(handler("large").encode_arguments(values)) == values
    assert handler("large").fingerprint((large, {})) != handler("large").fingerprint(
        (large + 1, {})
    )


def test_what_is_no_json_is_told() -> None:
    with pytest.raises(InvalidArgumentsError, match="not JSON"):
        handler("large").bind_mapping({"number": object()})


def test_only_text_that_failed_is_looked_into() -> None:
    """A neighbour's mistake changes nothing of what fits."""
    bound = handler("text").bind_mapping({"name": "[1]", "number": "12", "names": '["a"]'})
    assert bound == ("[1]", 12, ["a"])
    with pytest.raises(InvalidArgumentsError, match="names: Input should be a valid array"):
        handler("text").bind_mapping({"name": "[1]", "number": 12, "names": '{"a": 1}'})


def test_a_named_tuple_comes_by_place_and_by_json() -> None:
    assert handler("point").bind((Point(1, 2),), {}) == (Point(1, 2),)
    assert handler("point").bind_mapping({"point": [1, 2]}) == (Point(1, 2),)
    with pytest.raises(InvalidArgumentsError, match="point"):
        handler("point").bind((Point("x", 2),), {})  # type: ignore[arg-type]


def test_many_parameters_of_many_types_are_validated_all_the_same() -> None:
    assert handler("many").bind((1, "2", 3, "4", 5, "6", 7), {}) == (1, "2", 3, "4", 5, "6", 7, 0)
    with pytest.raises(InvalidArgumentsError, match="g"):
        handler("many").bind((1, "2", 3, "4", 5, "6", None), {})


PRINT = """
from tests.unit.components.test_parameters import handler
names = frozenset(["tea", "milk", "sugar", "lemon"])
print(handler("sets").fingerprint((names, {"any": {"x", "y", "z"}})))
"""


def test_a_fingerprint_of_sets_is_the_same_in_every_process() -> None:
    """Python orders the texts of a set differently in each."""
    prints = {
        subprocess.run(
            [sys.executable, "-B", "-c", PRINT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ".:src"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(prints) == 1


def test_texts_inside_an_optional_describe_it() -> None:
    @component("texts")
    class Texts(KeyValueEntity[int | None]):
        def put(self, note: Annotated[str, "A note"] | None = None) -> Effect[int]: ...

    [note] = define(Texts).handlers["put"].parameters
    assert note.description == "A note"


class Loose(Frozen):
    """A subclass of a frozen class need not be frozen."""

    model_config = ConfigDict(frozen=False)
    more: list[int] = []


def test_objects_of_a_subclass_are_not_shared() -> None:
    """They arrive as what was declared, as they would in another process."""
    loose = Loose(name="x", more=[1])

    bound = handler("frozen").bind((loose, Size(3), UUID(int=1)), {})

    assert type(bound[0]) is Frozen
    assert bound[0] == Frozen(name="x")


UserId = NewType("UserId", str)


def test_new_types_are_what_they_are_made_of() -> None:
    @component("new-types")
    class NewTypes(KeyValueEntity[UserId]):
        def empty_state(self) -> UserId: ...

        def put(self, user: UserId) -> Effect[UserId]: ...

    definition = define(NewTypes)
    assert definition.stored_types[0].name == "str"
    assert definition.handlers["put"].bind_mapping({"user": "[1]"}) == ("[1]",)
    assert definition.handlers["put"].reply_shareable


def test_large_integers_survive_json_inside_text() -> None:
    @component("integers")
    class Integers(KeyValueEntity[int | None]):
        def put(self, numbers: list[int]) -> Effect[int]: ...

    found = define(Integers).handlers["put"]
    assert found.bind_mapping({"numbers": f"[{2**70}]"}) == ([2**70],)
    with pytest.raises(InvalidArgumentsError, match="numbers"):
        found.bind_mapping({"numbers": "[NaN]"})
