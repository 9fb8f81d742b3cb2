"""The list of tools and its pages."""

from types import SimpleNamespace

import pytest

from greenroom.mcp._listing import Listing
from tests.support.mcp_wire import EVERY_REVISION, MODERN, a_tool, an_endpoint, ask


@pytest.mark.parametrize("version", EVERY_REVISION)
def test_a_tool_is_listed_with_its_schemas(version: str) -> None:
    [tool] = ask(an_endpoint(), version, "tools/list", {}).result["tools"]

    assert tool == {
        "name": "counter_increase",
        "description": "Increases the counter.",
        "inputSchema": {"type": "object", "properties": {"by": {"type": "integer"}}},
        "outputSchema": {"type": "object", "properties": {"total": {"type": "integer"}}},
        "annotations": {"readOnlyHint": False},
        "_meta": {"greenroom/handler": "counter.increase", "greenroom/idParameter": "counter_id"},
    }


def test_what_is_not_known_of_a_tool_is_left_out() -> None:
    hints = SimpleNamespace(read_only=None, destructive=None, idempotent=None, open_world=None)
    tool = a_tool(output_schema=None, hints=hints, id_parameter=None)

    [listed] = ask(an_endpoint(tools=[tool]), MODERN, "tools/list").result["tools"]

    assert listed.keys() == {"name", "description", "inputSchema", "_meta"}


def test_an_endpoint_without_tools_lists_none() -> None:
    assert ask(an_endpoint(tools=[]), MODERN, "tools/list").result["tools"] == []


def test_a_modern_list_says_how_long_it_may_be_kept() -> None:
    result = ask(an_endpoint(), MODERN, "tools/list").result

    assert (result["ttlMs"], result["cacheScope"]) == (300_000, "public")


@pytest.mark.parametrize(("count", "pages"), [(499, 1), (500, 1), (501, 2), (1000, 2), (1001, 3)])
def test_a_long_list_comes_in_pages(count: int, pages: int) -> None:
    endpoint = an_endpoint(tools=[a_tool(f"tool_{number:04}") for number in range(count)])
    seen: list[str] = []
    params: dict[str, str] = {}

    for _ in range(pages):
        result = ask(endpoint, MODERN, "tools/list", params).result
        seen += [tool["name"] for tool in result["tools"]]
        params = {"cursor": result["nextCursor"]} if "nextCursor" in result else {}

    assert params == {}
    assert seen == [f"tool_{number:04}" for number in range(count)]


@pytest.mark.parametrize("cursor", ["", "bm9ib2R5", "ä", "==", 5, [], {"a": 1}])
@pytest.mark.parametrize(("version", "status"), [("2025-11-25", 200), (MODERN, 400)])
def test_a_cursor_that_was_not_given_out_is_refused(
    cursor: object, version: str, status: int
) -> None:
    answer = ask(an_endpoint(), version, "tools/list", {"cursor": cursor})

    assert (answer.status, answer.error["code"]) == (status, -32602)


def test_a_null_cursor_is_the_beginning() -> None:
    assert Listing("tools", [("add", {"name": "add"})]).page(None) == b'"tools":[{"name":"add"}]'
