"""Whatever pydantic lets one declare comes back from storage as it was, or is refused."""

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, computed_field
from typing_extensions import TypedDict

from greenroom.errors import UnreadableRecordError
from greenroom.persistence import Codec, Encoded, StoredType


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Size:
    width: Decimal


class Options(TypedDict):
    level: int


class Everything(BaseModel, frozen=True):
    product: Annotated[str, Field(alias="productId")]
    other: Annotated[str, Field(serialization_alias="written", validation_alias="read")]
    colour: Colour
    point: Point
    size: Size
    options: Options
    price: Decimal
    when: datetime
    day: date
    span: timedelta
    number: UUID
    maybe: int | None
    inner: "Everything | None" = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def shout(self) -> str:
        return self.product.upper()


def everything(**changes: Any) -> Everything:
    return Everything(
        productId="tea",
        read="x",
        colour=Colour.RED,
        point=Point(1, 2),
        size=Size(Decimal("1.10")),
        options={"level": 3},
        price=Decimal("0.10"),
        when=datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2))),
        day=date(2030, 1, 2),
        span=timedelta(days=400, microseconds=1),
        number=UUID(int=7),
        maybe=None,
        **changes,
    )


CODEC = Codec([StoredType("everything", 1, Everything), StoredType("float", 1, float)])


@pytest.mark.parametrize("value", [everything(), everything(inner=everything())])
def test_a_model_comes_back_as_it_was(value: Everything) -> None:
    """Aliases, computed fields, nested and recursive types change nothing."""
    assert CODEC.decode(CODEC.encode(value)) == value


def test_field_names_are_stored_and_aliases_are_read_too() -> None:
    """An alias may be added or taken away without a migration."""
    payload = CODEC.encode(everything()).payload
    assert b'"product":"tea"' in payload
    assert b"shout" not in payload

    aliased = payload.replace(b'"product"', b'"productId"')
    assert CODEC.decode(Encoded("everything", 1, aliased)) == everything()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_refused_when_written(number: float) -> None:
    """It would be stored as null, and the instance could never be recovered."""
    with pytest.raises(ValueError, match="NaN or infinite"):
        CODEC.encode(number, name="float")


def test_a_value_of_another_shape_is_refused_when_written() -> None:
    """`model_copy` and `model_construct` check nothing; storing does."""
    wrong = everything().model_copy(update={"day": "tomorrow"})
    with pytest.raises(Exception, match=r"day|date"):
        CODEC.encode(wrong)


def test_a_class_without_a_name_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"int can't be stored here.*everything"):
        CODEC.encode(3)


def test_old_versions_are_brought_up_step_by_step() -> None:
    """Raw JSON goes through each migration in turn."""
    codec = Codec(
        [
            StoredType(
                "number",
                3,
                int,
                {1: lambda old: {"n": old}, 2: lambda old: old["n"] + 1},
            )
        ]
    )

    assert codec.decode(Encoded("number", 1, b"4")) == 5
    assert codec.decode(Encoded("number", 2, b'{"n":4}')) == 5
    assert codec.decode(Encoded("number", 3, b"4")) == 4


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (Encoded("gone", 1, b"1"), "'gone'.*not known.*everything"),
        (Encoded("float", 2, b"1"), "version 2.*Deploy the newer code"),
        (Encoded("float", 1, b'"x"'), "does not have the shape"),
        (Encoded("float", 1, b"not json"), "does not have the shape"),
    ],
)
def test_what_can_not_be_read_says_why(stored: Encoded, said: str) -> None:
    with pytest.raises(UnreadableRecordError, match=said):
        CODEC.decode(stored)
