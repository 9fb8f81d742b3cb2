"""Which types change their values on the way through JSON, and what was changed."""

import math
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    field_serializer,
)
from pydantic_core import to_json
from typing_extensions import TypedDict

from greenroom.fidelity import MAX_DIGITS, Care, Fidelity, difference, starred


class Word(StrEnum):
    RED = "red"


class Number(Enum):
    ONE = 1
    TWO = "two"


class Pair(Enum):
    BOTH = (1, 2)


class Right(Flag):
    READ = 1


class Point(NamedTuple):
    x: int


class Tags(TypedDict):
    level: int


@dataclass(frozen=True)
class Size:
    width: int


class Plain(BaseModel, frozen=True):
    """Its fields are named as the keys are that matter in a schema."""

    type: str = ""
    gt: int = 0
    serialization: dict[str, list[int | None]] = {}
    when: datetime | None = None
    ratio: float = 0.5
    children: list["Plain"] = []


class Bounded(BaseModel):
    quantity: Annotated[int, Field(gt=0)]
    kind: Literal["a"] = "a"
    price: Decimal = Decimal(1)


class Short(BaseModel):
    model_config = ConfigDict(str_max_length=3)
    name: str = ""


class Secretive(BaseModel):
    secret: SecretStr


class Hidden(BaseModel):
    hidden: int = Field(default=0, exclude=True)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    name: str = ""


class Based(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")
    content: bytes = b""


class Aliased(BaseModel):
    model_config = ConfigDict(validate_by_name=True)
    one: int = Field(alias="two")
    two: int = Field(alias="three")


class OneWay(BaseModel):
    number: int = 0

    @field_serializer("number")
    def show(self, number: int) -> str:
        return f"{number + 1}"


class Later(BaseModel):
    _cache: int = PrivateAttr(default=0)


class Number2(RootModel[int]):
    pass


@dataclass
class Counted:
    count: int = field(init=False, default=0)


@dataclass
class Given:
    given: InitVar[int] = 1


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        self.number *= 2


FAITHFUL: list[Any] = [
    Plain, Point, Size, Word, Number, int, float, str | None, list[UUID], dict[int, date],
    dict[Word, time], int | str, float | int | bool | list[int] | Size, tuple[timedelta, ...],
    frozenset[bytes], dict[str, Plain], RootModel[int],
]  # fmt: skip
BOUNDED: list[Any] = [
    Bounded, Short, Decimal, Literal["a", 1, None], Annotated[int, Field(ge=0)],
    list[Annotated[int, Field(multiple_of=2)]], dict[str, Decimal], tuple[int, Bounded],
    Bounded | None, Annotated[datetime, Field(gt=datetime(2000, 1, 1, tzinfo=UTC))],
]  # fmt: skip
CHANGING: list[Any] = [
    Any, object, dict, list, set, tuple, dict[str, Any], Tags, Secretive, Hidden, Open, Stripped,
    Based, Aliased, OneWay, Counted, Given, Even, Pair, Right, Literal[Word.RED],
    str | datetime, Plain | Bounded, list[int] | tuple[int, ...], Number | str,
    dict[Number, int], dict[str | int, int], dict[str | None, int], dict[tuple[int, int], int],
    Annotated[int, AfterValidator(lambda value: value + 1)], Sequence[int],
    Annotated[int | str, Field(union_mode="left_to_right")], Number2 | int, list[Plain | Open],
]  # fmt: skip


@pytest.mark.parametrize("python_type", FAITHFUL, ids=str)
def test_what_comes_back_as_it_was_is_not_looked_at(python_type: Any) -> None:
    assert Fidelity(TypeAdapter(python_type).core_schema).care is Care.NONE


@pytest.mark.parametrize("python_type", BOUNDED, ids=str)
def test_bounds_are_found_wherever_they_stand(python_type: Any) -> None:
    """What breaks one could not be read again."""
    assert Fidelity(TypeAdapter(python_type).core_schema).care is Care.READ


@pytest.mark.parametrize("python_type", CHANGING, ids=str)
def test_what_may_come_back_as_something_else_is_compared(python_type: Any) -> None:
    assert Fidelity(TypeAdapter(python_type).core_schema).care is Care.COMPARE


def test_a_null_may_have_been_a_number() -> None:
    """JSON has no NaN and no infinity."""
    optional = Fidelity(TypeAdapter(float | None).core_schema)
    assert optional.care_for(b"1.5") is Care.NONE
    assert optional.care_for(b"null") is Care.COMPARE
    assert Fidelity(TypeAdapter(str | None).core_schema).care_for(b"null") is Care.READ


@pytest.mark.parametrize("before", [0, 1, 7, 1000, MAX_DIGITS, 3 * MAX_DIGITS])
def test_a_number_that_is_too_long_is_found_wherever_it_stands(before: int) -> None:
    whole = Fidelity(TypeAdapter(list[int]).core_schema)
    rest = b"[" + b"1," * before

    assert whole.care_for(rest + b"9" * (MAX_DIGITS + 1) + b"]") is Care.READ
    assert whole.care_for(rest + b"9]") is Care.NONE


class Base(BaseModel, frozen=True):
    number: int = 0


class Holder(BaseModel, frozen=True):
    parts: tuple[Base, ...] = ()


def test_a_part_is_compared_from_when_there_is_a_subclass() -> None:
    fidelity = Fidelity(TypeAdapter(Holder).core_schema)
    assert fidelity.parts == (Holder, Base)
    assert not fidelity.may_change()

    class More(Base, frozen=True):
        more: int = 1

    assert fidelity.may_change()
    assert fidelity.care_for(b"{}") is Care.COMPARE
    assert difference(Holder(parts=(More(),)), Holder(parts=(Base(),))) == (
        f"parts.0: {More.__qualname__} would come back as Base"
    )


def test_whoever_knows_the_class_of_a_value_does_not_ask_for_subclasses() -> None:
    fidelity = Fidelity(TypeAdapter(Holder).core_schema, class_is_known=True)
    assert fidelity.parts == (Base,)


# -- secrets -------------------------------------------------------------------------------


class Account(BaseModel):
    name: str
    secrets: list[Secretive]


class Revealing(BaseModel):
    secret: SecretStr

    @field_serializer("secret")
    def reveal(self, secret: SecretStr) -> str:
        return secret.get_secret_value()


@dataclass
class Key:
    number: Secret[int]


class Token(TypedDict):
    token: SecretBytes


STARS: list[tuple[Any, list[str]]] = [
    (SecretStr, [""]),
    (SecretBytes | None, [""]),
    (list[Secret[int]], [""]),
    (Account, ["secret"]),
    (Key | Token, ["number", "token"]),
    (Revealing, []),
    (Plain, []),
    (OneWay, []),
]


@pytest.mark.parametrize(("python_type", "places"), STARS, ids=str)
def test_secrets_that_become_stars_are_found(python_type: Any, places: list[str]) -> None:
    assert starred(TypeAdapter(python_type).core_schema) == places


# -- differences ---------------------------------------------------------------------------


class Odd:
    """Its objects are never equal."""

    def __init__(self, number: int) -> None:
        self.number = number


class Slotted:
    __slots__ = ()


class Rank(IntEnum):
    FIRST = 1


class Name(str):
    __slots__ = ()


class Cached(BaseModel):
    number: int = 1
    _cache: int = PrivateAttr(default=0)


@dataclass
class Noted:
    number: int
    note: str = field(default="", compare=False)


def cached() -> Cached:
    made = Cached()
    made._cache = 7
    return made


@pytest.mark.parametrize(
    ("value", "again"),
    [
        (1, 1.0),
        (True, 1),
        (math.nan, math.nan),
        ({"a": [math.nan]}, {"a": [math.nan]}),
        (Name("x"), "x"),
        (defaultdict(int, a=1), {"a": 1}),
        (OrderedDict(a=1, b=2), {"b": 2, "a": 1}),
        ({math.nan: 1}, {math.nan: 1}),
        (Odd(1), Odd(1)),
        (Slotted(), Slotted()),
        (cached(), Cached()),
        (Noted(1, "x"), Noted(1)),
        (Number.ONE, Number.ONE),
        (Point(1), Point(1)),
        ({1, 2}, {2, 1}),
    ],
)
def test_what_is_the_same_for_whoever_reads_it_is_no_difference(value: Any, again: Any) -> None:
    assert difference(value, again) is None


@pytest.mark.parametrize(
    ("value", "again", "said"),
    [
        ("a", "b", "the value: would come back as another str"),
        (1, "1", "the value: int would come back as str"),
        (Word.RED, "red", "the value: Word would come back as str"),
        (Rank.FIRST, 1, "the value: Rank would come back as int"),
        ((1,), [1], "the value: tuple would come back as list"),
        (Point(1), (1,), "the value: Point would come back as tuple"),
        ({1, 2}, [1, 2], "the value: set would come back as list"),
        ({1: "a"}, {"1": "a"}, "1.[key]: int would come back as str"),
        ({"a": {"b": [1, math.nan]}}, {"a": {"b": [1, None]}}, "a.b.1: float would come back"),
        ({"a": 1, "b": 2}, {"a": 1}, "b: would not come back"),
        ({"a": 1}, {"a": 1, "b": 2}, "b: would come back without having been there"),
        (Secretive(secret=SecretStr("x")), Secretive(secret=SecretStr("y")), "secret: would come"),
        (Odd(1), Odd(2), "number: would come back as another int"),
        (Noted(1), Noted(2), "number: would come back as another int"),
        (Open(a=1), Open(a=2), "a: would come back as another int"),
        (Even(1), Size(2), "the value: Even would come back as Size"),
    ],
)
def test_a_difference_is_named_by_its_place(value: Any, again: Any, said: str) -> None:
    found = difference(value, again)
    assert found is not None
    assert found.startswith(said)


def test_a_difference_does_not_show_the_parts() -> None:
    """They end up in the log."""
    assert "hunter" not in str(difference({"a": "hunter2"}, {"a": "hunter3"}))


def test_a_long_key_is_cut() -> None:
    said = difference({"k" * 1000: 1}, {"k" * 1000: 2})
    assert said is not None
    assert len(said) < 100


def test_the_digits_are_those_that_can_be_read() -> None:
    adapter = TypeAdapter(int)
    assert adapter.validate_json(b"9" * MAX_DIGITS) == int("9" * MAX_DIGITS)
    with pytest.raises(ValueError, match="number out of range"):
        adapter.validate_json(to_json(10**MAX_DIGITS))
