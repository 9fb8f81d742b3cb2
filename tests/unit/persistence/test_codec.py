"""What is stored comes back as it was, or says why it can't."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
)
from typing_extensions import TypedDict

from greenroom.errors import UnreadableRecordError
from greenroom.persistence import Codec, Encoded, StoredType


class Colour(StrEnum):
    RED = "red"


class Item(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    sku: str = Field(alias="itemSku")
    price: Decimal = Decimal("1.10")
    colour: Colour = Colour.RED
    tags: frozenset[str] = frozenset()

    @computed_field
    def label(self) -> str:
        return f"{self.sku} at {self.price}"


class Measured(BaseModel):
    value: float
    unit: str | None = None


class FinerMeasured(Measured):
    error: float = 0.1


@dataclass(frozen=True)
class Moved:
    at: datetime
    by: timedelta


class Address(TypedDict):
    street: str
    number: int


VALUES: list[tuple[Any, Any]] = [
    (str, "é🙂\x00"),
    (int, 10**40),
    (float, 0.1),
    (bool, True),
    (Decimal, Decimal("1.000")),
    (bytes, b"plain"),
    (date, date(2026, 2, 28)),
    (datetime, datetime(2026, 2, 28, 1, 2, 3, 4, tzinfo=UTC)),
    (UUID, UUID(int=7)),
    (list[int], [1, 2]),
    (dict[int, list[str]], {1: ["a"]}),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (int | None, None),
    (Item, Item(itemSku="tea", tags=frozenset({"hot"}))),
    (list[Item], [Item(itemSku="tea")]),
    (dict[str, Item], {"a": Item(itemSku="tea")}),
    (Item | Measured, Measured(value=2.5)),
    (Moved, Moved(datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=1.5))),
    (Address, {"street": "Main", "number": 1}),
]


@pytest.mark.parametrize(("declared", "value"), VALUES, ids=lambda one: str(one)[:30])
def test_values_come_back_as_they_were(declared: Any, value: Any) -> None:
    """Scalars, containers, models, dataclasses, dictionaries, unions."""
    codec = Codec([StoredType("value", 1, declared)])

    encoded = codec.encode(value, name="value")
    found = codec.decode(encoded)

    assert found == value
    assert type(found) is type(value)
    assert (encoded.type_name, encoded.version) == ("value", 1)


def test_a_value_is_stored_under_the_name_of_its_class() -> None:
    codec = Codec([StoredType("item", 1, Item), StoredType("measured", 3, Measured)])

    assert codec.encode(Measured(value=1)).type_name == "measured"
    assert codec.encode(Item(itemSku="tea")).version == 1


def test_fields_are_stored_by_their_own_names() -> None:
    """Aliases are for other readers, and computed fields are computed again."""
    codec = Codec([StoredType("item", 1, Item)])

    payload = codec.encode(Item(itemSku="tea")).payload

    assert payload == b'{"sku":"tea","price":"1.10","colour":"red","tags":[]}'


def test_a_part_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected `float`"):
        Codec([StoredType("measured", 1, Measured)]).encode(Measured.model_construct(value="x"))


def test_a_subclass_is_not_cut_down_in_silence() -> None:
    codec = Codec([StoredType("measured", 1, Measured)])

    with pytest.raises(TypeError, match="FinerMeasured would be stored as Measured"):
        codec.encode(FinerMeasured(value=1), name="measured")


# -- versions ------------------------------------------------------------------------------


def versioned() -> Codec:
    def to_2(raw: Any) -> Any:
        return {"value": raw["amount"]}

    def to_3(raw: Any) -> Any:
        return {**raw, "unit": "kg"}

    return Codec([StoredType("measured", 3, Measured, {1: to_2, 2: to_3})])


def test_old_versions_are_brought_to_the_current_one_step_by_step() -> None:
    codec = versioned()

    assert codec.decode(Encoded("measured", 1, b'{"amount":2}')) == Measured(value=2, unit="kg")
    assert codec.decode(Encoded("measured", 2, b'{"value":2}')) == Measured(value=2, unit="kg")
    assert codec.decode(Encoded("measured", 3, b'{"value":2}')) == Measured(value=2)


def test_large_integers_survive_a_migration() -> None:
    codec = Codec([StoredType("number", 2, int, {1: lambda raw: raw["n"]})])

    assert codec.decode(Encoded("number", 1, b'{"n":123456789012345678901}')) == (
        123456789012345678901
    )


class Picky(BaseModel):
    value: int

    @field_validator("value")
    @classmethod
    def check(cls, value: int) -> int:
        if value < 0:
            raise KeyError("below zero")
        return value


UNREADABLE = [
    (Encoded("unknown", 1, b"1"), r"'unknown' \(version 1\) is not known.*measured.*@type_name"),
    (Encoded("measured", 4, b"{}"), "stored in version 4.*only knows version 3.*newer code"),
    (Encoded("measured", 3, b'{"value":"x"}'), "version 3.*value: Input should be a valid number"),
    (Encoded("measured", 3, b"{broken"), "version 3.*Invalid JSON"),
    (Encoded("measured", 3, b'"\xff"'), "version 3.*"),
    (Encoded("measured", 1, b"{broken"), "version 1 is not JSON"),
    (Encoded("measured", 1, b"{}"), "the migration from version 1 failed: KeyError.*@migrates"),
    (Encoded("measured", 0, b"{}"), "no way from version 0 to 1"),
    (Encoded("picky", 1, b'{"value":-1}'), "KeyError: 'below zero'"),
]


@pytest.mark.parametrize(("encoded", "message"), UNREADABLE, ids=lambda one: str(one)[:50])
def test_what_can_not_be_read_says_what_it_is_and_what_to_do(
    encoded: Encoded, message: str
) -> None:
    types = list(versioned()._by_name.values())
    codec = Codec([*(entry.stored for entry in types), StoredType("picky", 1, Picky)])

    with pytest.raises(UnreadableRecordError, match=message):
        codec.decode(encoded)


class Loose(BaseModel):
    inside: Any = None


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: int = 0


class Zoo(BaseModel):
    animals: list[Animal] = []
    keeper: SecretStr | None = None


class Halved(BaseModel):
    """Written as half of what it is."""

    amount: int

    @field_serializer("amount")
    def half(self, amount: int) -> int:
        return amount // 2


@dataclass(eq=False)
class Unequal:
    animal: Animal


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Loose(inside={1: 2}), "inside.1.[key]: int would come back as str"),
        (Loose(inside=(1, 2)), "inside: tuple would come back as list"),
        (Loose(inside=[math.nan]), "inside.0: float would come back as NoneType"),
        (Loose(inside={"deep": {2: 3}}), "inside.deep.2.[key]: int would come back as str"),
        (Zoo(animals=[Dog(name="rex", tricks=3)]), "animals.0: Dog would come back as Animal"),
        (Zoo(keeper=SecretStr("anna")), "keeper: would come back as another SecretStr"),
        (Halved(amount=4), "amount: would come back as another int"),
    ],
)
def test_what_would_be_read_as_something_else_is_refused(value: Any, said: str) -> None:
    codec = Codec([StoredType("it", 1, type(value))])

    with pytest.raises(ValueError, match=re.escape(said)):
        codec.encode(value)


@pytest.mark.parametrize(
    "value",
    [
        Loose(inside={"a": [1, None, "x"]}),
        Zoo(animals=[Animal(name="rex")]),
        Halved(amount=0),
        Unequal(Animal(name="rex")),
    ],
)
def test_what_reads_back_as_it_was_is_stored(value: Any) -> None:
    codec = Codec([StoredType("it", 1, type(value))])

    assert type(codec.decode(codec.encode(value))) is type(value)
