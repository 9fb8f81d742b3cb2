"""Arguments are checked before a handler runs, and nothing mutable is shared with a caller."""

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from greenroom import Effect, KeyValueEntity, component
from greenroom.components import HandlerDefinition, define
from greenroom.errors import InvalidArgumentsError


class Colour(Enum):
    RED = "red"


class Line(BaseModel):
    product: str
    quantity: int = 1


class Frozen(BaseModel, frozen=True):
    product: str


@dataclass
class Size:
    width: Decimal


class Options(TypedDict):
    level: int


@component("handlers")
class Handlers(KeyValueEntity[int | None]):
    """Handlers of every kind."""

    def plain(self, name: str, count: int = 1) -> Effect[str]: ...

    def described(self, name: Annotated[str, "A name"]) -> Effect[str]: ...

    def bounded(self, count: Annotated[int, Field(gt=0)]) -> Effect[int]: ...

    def rich(
        self,
        lines: list[Line],
        colour: Colour = Colour.RED,
        size: Size | None = None,
        options: Options | None = None,
        price: Decimal = Decimal(0),
        day: date | None = None,
        text: str = "",
    ) -> Effect[list[Line]]: ...

    def frozen(self, one: Frozen) -> Effect[Frozen]: ...

    def nothing(self) -> Effect[None]: ...


def handler(name: str) -> HandlerDefinition:
    return define(Handlers).handlers[name]


def test_exact_scalars_pass_as_they_are() -> None:
    args = ("tea", 2)

    assert handler("plain").bind(args, {}) is args


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        (("tea",), {}, ("tea", 1)),
        ((), {"name": "tea"}, ("tea", 1)),
        (("tea",), {"count": 3}, ("tea", 3)),
        ((), {"count": 3, "name": "tea"}, ("tea", 3)),
    ],
)
def test_arguments_come_by_place_and_by_name(args: Any, kwargs: Any, expected: Any) -> None:
    assert handler("plain").bind(args, kwargs) == expected


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "name: is required"),
        (("tea", 1, 2), {}, "takes 2 argument"),
        (("tea",), {"name": "tea"}, "name: given twice"),
        (("tea",), {"colour": 1}, "colour: unknown parameter; known: name, count"),
        (("tea", "many"), {}, "count: Input should be a valid integer"),
        ((None,), {}, "name: Input should be a valid string"),
    ],
)
def test_what_does_not_fit_is_told_by_name(args: Any, kwargs: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        handler("plain").bind(args, kwargs)

    assert said in str(caught.value)
    assert caught.value.target == "handlers.plain"


def test_every_argument_that_does_not_fit_is_told() -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        handler("rich").bind_mapping({"lines": 3, "colour": "blue", "price": "much"})

    assert len(caught.value.problems) == 3


def test_bounds_are_checked() -> None:
    with pytest.raises(InvalidArgumentsError, match="count: Input should be greater than 0"):
        handler("bounded").bind((0,), {})


def test_what_can_be_changed_is_copied() -> None:
    lines = [Line(product="tea")]

    [bound, *_] = handler("rich").bind((lines,), {})

    assert bound == lines
    assert bound is not lines
    assert bound[0] is not lines[0]


def test_what_can_not_be_changed_is_handed_on() -> None:
    one = Frozen(product="tea")

    assert handler("frozen").bind((one,), {})[0] is one


def test_json_becomes_what_the_handler_asks_for() -> None:
    values = handler("rich").bind_mapping(
        {
            "lines": [{"product": "tea", "quantity": 2}],
            "colour": "red",
            "size": {"width": "1.5"},
            "options": {"level": 3},
            "price": 0.5,
            "day": "2030-01-02",
        }
    )

    assert values == (
        [Line(product="tea", quantity=2)],
        Colour.RED,
        Size(Decimal("1.5")),
        {"level": 3},
        Decimal("0.5"),
        date(2030, 1, 2),
        "",
    )


def test_an_explicit_null_for_what_is_optional_counts_as_left_out() -> None:
    values = handler("rich").bind_mapping({"lines": [], "size": None, "day": None})

    assert values[2] is None
    with pytest.raises(InvalidArgumentsError, match="colour"):
        handler("rich").bind_mapping({"lines": [], "colour": None})


def test_json_inside_text_is_decoded_after_it_failed_as_it_is() -> None:
    """Some models send arguments so; real text is never touched."""
    values = handler("rich").bind_mapping({"lines": '[{"product": "tea"}]', "text": '{"a": 1}'})

    assert values[0] == [Line(product="tea")]
    assert values[-1] == '{"a": 1}'
    assert handler("bounded").bind_mapping({"count": "3"}) == (3,)
    with pytest.raises(InvalidArgumentsError, match="lines"):
        handler("rich").bind_mapping({"lines": "[not json"})


@given(st.text(), st.integers(-(2**53), 2**53))
def test_scalars_cross_to_another_process_as_they_are(name: str, count: int) -> None:
    plain = handler("plain")
    values = plain.bind((name, count), {})

    assert plain.decode_arguments(plain.encode_arguments(values)) == values
    assert plain.fingerprint(values) == plain.fingerprint((name, count))


def test_fingerprints_tell_calls_apart() -> None:
    plain, described = handler("plain"), handler("described")
    prints = {
        plain.fingerprint(("tea", 1)),
        plain.fingerprint(("tea", 2)),
        plain.fingerprint(("te", 1)),
        described.fingerprint(("tea",)),
    }

    assert len(prints) == 4


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    rich = handler("rich")
    one = rich.bind_mapping({"lines": [{"product": "tea", "quantity": 1}]})
    other = rich.bind_mapping({"lines": [{"quantity": 1, "product": "tea"}]})

    assert rich.fingerprint(one) == rich.fingerprint(other)


def test_replies_cross_to_another_process() -> None:
    rich = handler("rich")
    reply = [Line(product="tea")]

    assert rich.decode_reply(rich.encode_reply(reply)) == reply
    assert handler("nothing").encode_reply(None) == b"null"
    with pytest.raises(Exception, match="Expected"):
        rich.encode_reply("not a list")


def test_a_reply_that_could_not_be_read_again_is_refused() -> None:
    """Before anything is stored, and not when the key is repeated."""

    class Positive(BaseModel, frozen=True):
        number: float = Field(default=1.0, gt=0)

    @component("replies")
    class Replies(KeyValueEntity[int | None]):
        def one(self) -> Effect[Positive]: ...

        def text(self) -> Effect[str]: ...

        def number(self) -> Effect[float]: ...

        def maybe(self) -> Effect[int | None]: ...

    found = define(Replies).handlers
    wrong = Positive().model_copy(update={"number": -1.0})
    for name, value in (
        ("one", None), ("one", wrong), ("one", Positive(number=float("inf"))),
        ("text", None), ("number", float("nan")), ("number", None),
    ):  # fmt: skip
        with pytest.raises(Exception, match=r"validation error|Expected"):
            found[name].encode_reply(value)
    assert found["maybe"].encode_reply(None) == b"null"
    assert found["number"].encode_reply(1.5) == b"1.5"


def test_a_reply_that_would_be_read_as_another_value_is_refused() -> None:
    """In this process it would be one thing, from another or for a repeated key another one."""

    class Measured(BaseModel, frozen=True):
        value: float | None = None

    class Finer(Measured, frozen=True):
        error: float = 0.1

    class Holder(BaseModel, frozen=True):
        one: Measured = Measured()

    @component("changing-replies")
    class Replies(KeyValueEntity[int | None]):
        def one(self) -> Effect[Measured]: ...

        def holder(self) -> Effect[Holder]: ...

        def loose(self) -> Effect[dict[str, Any]]: ...

    found = define(Replies).handlers
    for name, value, said in (
        ("one", Finer(), "the value: .*Finer would come back as .*Measured"),
        ("one", Measured(value=float("nan")), "value: float would come back as NoneType"),
        ("holder", Holder(one=Finer()), "one: .*Finer would come back"),
        ("loose", {"a": {1: 2}}, r"a\.1\.\[key\]: int would come back as str"),
    ):
        with pytest.raises(ValueError, match=rf"changing-replies.{name} would be read .*{said}"):
            found[name].encode_reply(value)
    for name, other in (("one", Finer()), ("holder", Holder(one=Finer()))):
        with pytest.raises(ValueError, match="would be read as another value"):
            found[name].check_reply(other)
    found["holder"].check_reply(Holder())
    assert found["loose"].encode_reply({"a": [1]}) == b'{"a":[1]}'


@pytest.mark.parametrize("depth", [65, 150, 100_000])
def test_json_inside_text_is_not_nested_deeper_than_a_body(depth: int) -> None:
    """What comes as text is JSON of the outside too."""

    @component("nested")
    class Nested(KeyValueEntity[int | None]):
        def put(self, value: list[Any]) -> Effect[int]: ...

    put = define(Nested).handlers["put"]
    assert put.bind_mapping({"value": "[" * 64 + "]" * 64})
    with pytest.raises(InvalidArgumentsError, match=r"nested.put: value: "):
        put.bind_mapping({"value": "[" * depth + "]" * depth})


def test_whether_a_reply_may_be_shared_depends_on_its_type() -> None:
    assert handler("plain").reply_shareable
    assert handler("frozen").reply_shareable
    assert not handler("rich").reply_shareable


def test_a_duration_is_a_duration() -> None:
    @component("durations")
    class Durations(KeyValueEntity[int | None]):
        def wait(self, duration: timedelta) -> Effect[None]: ...

    found = define(Durations).handlers["wait"]
    assert found.bind_mapping({"duration": "PT5S"}) == (timedelta(seconds=5),)
