"""Endpoints are read as components are: everything that is wrong is told at once."""

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


def test_a_class_without_the_decorator_is_no_endpoint() -> None:
    """A subclass of an endpoint is none either: two servers would answer on one path."""

    @mcp_endpoint(server_name="shop")
    class Endpoint: ...

    class Sub(Endpoint): ...

    with pytest.raises(DefinitionError, match=r"Sub has no @mcp_endpoint"):
        define_endpoint(Sub, KNOWN)
