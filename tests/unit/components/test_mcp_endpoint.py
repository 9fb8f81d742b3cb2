"""Endpoints are read as components are: everything that is wrong is told at once."""

from typing import Any

import pytest

from greenroom import Effect, KeyValueEntity, component, function_tool, mcp_endpoint
from greenroom.components import define, define_endpoint
from greenroom.errors import DefinitionError


@component("box")
class Box(KeyValueEntity[int | None]):
    """A box."""

    @function_tool(description="Puts.")
    def put(self, value: int) -> Effect[int]: ...

    @function_tool(description="Takes.")
    def take(self) -> Effect[int]: ...


KNOWN = {Box: define(Box)}


def test_an_endpoint_is_read() -> None:
    @mcp_endpoint(server_name="shop", server_version="1", instructions="Ask.", tools=[Box])
    class Endpoint: ...

    found = define_endpoint(Endpoint, KNOWN)

    assert (found.path, found.server_name, found.server_version) == ("/mcp", "shop", "1")
    assert found.instructions == "Ask."
    assert [tool.name for tool in found.tools] == ["box_put", "box_take"]


def test_methods_may_be_chosen_by_themselves() -> None:
    @mcp_endpoint(server_name="shop", tools=[Box.tools(only={Box.put})])
    class Endpoint: ...

    assert [tool.name for tool in define_endpoint(Endpoint, KNOWN).tools] == ["box_put"]


def test_all_that_is_wrong_with_an_endpoint_is_told_at_once() -> None:
    @mcp_endpoint(server_name=" ", path="mcp/", tools=[Box.tools(bind=""), int, "box"])
    class Endpoint: ...

    with pytest.raises(DefinitionError) as caught:
        define_endpoint(Endpoint, KNOWN)

    text = "\n".join(caught.value.problems)
    for part in (
        "Endpoint: the path 'mcp/' must begin with /",
        "Endpoint: server_name must not be empty",
        "Endpoint: Box.tools(bind=''): no instance can have this id",
        "Endpoint: int gives tools but is not among the service's components",
        "Endpoint: 'box' gives no tools",
    ):
        assert part in text


@pytest.mark.parametrize(
    "path",
    ["mcp", "/", "/mcp/", "/{name}", "/a b", "/mcp?x", "/a/../b", "//mcp", "/mcp\n", "/mücp"],
)
def test_a_path_is_one_that_clients_can_ask_for(path: str) -> None:
    with pytest.raises(DefinitionError, match="must begin with / and not end with it"):
        define_endpoint(mcp_endpoint(path=path, server_name="x")(type("Shop", (), {})), {})


def test_what_the_decorator_is_given_is_of_the_types_that_it_says() -> None:
    given: dict[str, Any] = {"path": 5, "tools": Box, "icons": "i", "http": "yes"}

    with pytest.raises(DefinitionError) as caught:
        define_endpoint(mcp_endpoint(server_name="x", **given)(type("Shop", (), {})), {})

    assert list(caught.value.problems) == [
        "Shop: path= must be str, not 5",
        "Shop: icons= must be a list of Icon, not ('i',)",
        f"Shop: tools= must be a list of object, not {Box!r}",
        "Shop: http= must be bool, not 'yes'",
    ]


def test_a_class_without_the_decorator_is_no_endpoint() -> None:
    """A subclass of an endpoint is none either: two servers would answer on one path."""

    @mcp_endpoint(server_name="shop")
    class Endpoint: ...

    class Sub(Endpoint): ...

    with pytest.raises(DefinitionError, match=r"Sub has no @mcp_endpoint"):
        define_endpoint(Sub, KNOWN)
