"""What docstrings say about parameters, in the three styles people write."""

from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Effect, KeyValueEntity, component, function_tool
from greenroom.components import define
from greenroom.components._docs import first_paragraph, parameter_texts


def google() -> None:
    """Does something
    in two lines.

    And more about it.

    Args:
        one: First: with a colon.
        two (list[int], optional): Second
            goes on.

            With a paragraph.
        *three: Third
        four:

    Returns:
        five: This is no parameter.
    """


def numpy() -> None:
    """Does something
    in two lines.

    Parameters
    ----------
    one : int
        First: with a colon.
    two : list[int], optional
        Second
        goes on.

        With a paragraph.
    *three
        Third
    four : int

    Returns
    -------
    five
        This is no parameter.
    """


def sphinx() -> None:
    """Does something
    in two lines.

    :param one: First: with a colon.
    :param list[int] two: Second
        goes on.

        With a paragraph.
    :param three: Third
    :param four:
    :returns: five
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_texts_are_found_by_parameter(function: Callable[..., Any]) -> None:
    assert first_paragraph(function) == "Does something in two lines."
    assert parameter_texts(function) == {
        "one": "First: with a colon.",
        "two": "Second goes on. With a paragraph.",
        "three": "Third",
    }


def last() -> None:
    """Does something.

    Parameters
    ----------
    one : int
        First.
    """


def test_a_section_may_be_the_last() -> None:
    assert parameter_texts(last) == {"one": "First."}


def undocumented() -> None: ...


def test_nothing_is_made_up() -> None:
    assert first_paragraph(undocumented) == ""
    assert parameter_texts(undocumented) == {}


def test_what_the_annotation_says_comes_first() -> None:
    from typing import Annotated

    from pydantic import Field

    @component("docs")
    class Docs(KeyValueEntity[int | None]):
        """Documents."""

        @function_tool
        def put(
            self,
            a: Annotated[int, "From the annotation"],
            b: Annotated[int, Field(description="From the field")],
            c: int,
        ) -> Effect[int]:
            """Puts.

            Args:
                a: From the docstring.
                b: From the docstring.
                c: From the docstring.
            """

    [tool] = define(Docs).tools
    texts = {name: one["description"] for name, one in tool.input_schema["properties"].items()}
    assert texts == {
        "docs_id": "The id of the docs. Documents.",
        "a": "From the annotation",
        "b": "From the field",
        "c": "From the docstring.",
    }
