"""Templates of URIs: whole segments, decoded once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.components import UriTemplate, normal_uri


def a_template(text: str) -> UriTemplate:
    template, problem = UriTemplate.read(text)
    assert problem is None
    assert template is not None
    return template


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("carts/{id}", "must begin with a scheme"),
        ("shop://carts", "has no placeholder"),
        ("shop://{id}", "outside the path"),
        ("{scheme}://carts/a", "must begin with a scheme"),
        ("shop://carts/{id}/{id}", "has {id} more than once"),
        ("shop://carts/{id", "a whole segment"),
        ("shop://carts/id}", "a whole segment"),
        ("shop://carts/{i-d}", "a whole segment"),
        ("shop://carts/{+id}", "a whole segment"),
        ("shop://carts/{a}{b}", "a whole segment"),
        ("shop://carts/{id}?full", "must end with its path"),
        ("shop://carts/{id}#top", "must end with its path"),
        ("shop://my carts/{id}", "must end with its path"),
    ],
)
def test_what_is_no_template_is_told(text: str, said: str) -> None:
    template, problem = UriTemplate.read(text)

    assert template is None
    assert problem is not None
    assert said in problem


@pytest.mark.parametrize(
    ("text", "uri", "values"),
    [
        ("shop://carts/{id}", "shop://carts/c-1", {"id": "c-1"}),
        ("shop://carts/{id}", "SHOP://Carts/c-1", {"id": "c-1"}),
        ("shop://carts/{id}", "shop://carts/C-1", {"id": "C-1"}),
        ("shop:/carts/{id}", "shop:/carts/c-1", {"id": "c-1"}),
        ("shop:carts/{id}", "shop:carts/c-1", {"id": "c-1"}),
        ("shop:///{a}/x/{b}", "shop:///1/x/2", {"a": "1", "b": "2"}),
        ("shop://carts/{id}", "shop://carts/Carts/x", None),
        ("shop://carts/Items/{id}", "shop://carts/items/1", None),
        ("shop://carts/{id}", "other://carts/1", None),
        ("shop://carts/{id}", "shop://carts/", None),
        ("shop://carts/{id}", "", None),
    ],
)
def test_a_placeholder_is_one_whole_segment(
    text: str, uri: str, values: dict[str, str] | None
) -> None:
    assert a_template(text).match(uri) == values


@pytest.mark.parametrize("segment", ["..", ".", "%2E%2E", "%2e", "a%2Fb", "a%5cb", "%00", "a\\b"])
def test_what_would_lead_elsewhere_is_taken_only_where_that_was_asked_for(segment: str) -> None:
    template = a_template("file:///{name}")

    assert template.match(f"file:///{segment}") is None
    assert template.match(f"file:///{segment}", any_segment=True) is not None


@given(st.text(min_size=1))
def test_what_is_expanded_matches_again(value: str) -> None:
    """Reserved characters, percent signs, other scripts: each value comes back as it was."""
    if any(0xD800 <= ord(one) < 0xE000 for one in value):
        return
    template = a_template("shop://carts/{id}/items")

    uri = template.expand({"id": value})

    assert template.match(uri, any_segment=True) == {"id": value}
    assert uri.isascii()


@given(st.text())
def test_no_uri_breaks_a_template(uri: str) -> None:
    found = a_template("shop://carts/{id}").match(uri)

    assert found is None or "/" not in found["id"]


def test_case_means_nothing_before_the_path() -> None:
    assert normal_uri("Shop://Terms/Of/Use") == "shop://terms/Of/Use"
    assert normal_uri("URN:Isbn") == "urn:Isbn"
    assert normal_uri("no uri") == "no uri"
