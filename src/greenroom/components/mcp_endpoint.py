"""`@mcp_endpoint`: a class whose tools, resources and prompts are served to MCP clients."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.components._endpoint_rules import read_methods
from greenroom.components._hints import names_around
from greenroom.components._said import listed, wrong_types
from greenroom.components.content import Icon
from greenroom.components.endpoint_methods import EndpointMethods, Tool
from greenroom.components.security import Acl, Authorize, Jwt, RateLimit, Security
from greenroom.components.tools import ToolDefinition, resolve_tools
from greenroom.errors import DefinitionError

if TYPE_CHECKING:
    from greenroom.components.definition import ComponentDefinition

T = TypeVar("T", bound=type[Any])

_MARK = "__greenroom_mcp_endpoint__"
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+\Z")


@dataclass(frozen=True, slots=True)
class McpEndpointInfo:
    """What `@mcp_endpoint` has said about a class."""

    path: str
    server_name: str
    server_version: str
    server_title: str | None
    instructions: str
    website_url: str | None
    icons: tuple[Icon, ...]
    tools: tuple[object, ...]
    http: bool
    security: Security | None
    names: Mapping[str, Any]
    """Local names where the class was written, for annotations that mention them."""


@dataclass(frozen=True, slots=True)
class McpEndpointDefinition:
    """An MCP endpoint, read and checked."""

    cls: type[Any]
    path: str
    server_name: str
    server_version: str
    instructions: str
    tools: tuple[Tool, ...]
    """Those of components and its own, by name."""
    server_title: str | None = None
    website_url: str | None = None
    icons: tuple[Icon, ...] = ()
    http: bool = False
    """Its tools are served as plain HTTP routes too."""
    methods: EndpointMethods = field(default_factory=EndpointMethods)
    """What the class says itself: resources, prompts, completions."""
    security: Security | None = None
    """None where nothing is asked of callers, of no tool either."""


def mcp_endpoint(  # noqa: PLR0913 - one for each thing a server may say of itself
    *,
    path: str = "/mcp",
    server_name: str,
    server_version: str = "",
    server_title: str | None = None,
    instructions: str = "",
    website_url: str | None = None,
    icons: Sequence[Icon] = (),
    tools: Sequence[object] = (),
    http: bool = False,
    acl: Acl | None = None,
    jwt: Jwt | None = None,
    rate_limit: RateLimit | None = None,
    authorize: Authorize | None = None,
) -> Callable[[T], T]:
    """Serve components, and methods of this class, to MCP clients over Streamable HTTP.

    An object of the class is made for each request. Its constructor may ask for a
    `ComponentClient`, an `AsyncComponentClient`, an `McpContext`, and for what the service
    provides.

    Args:
        path: Where, in the service's HTTP app.
        server_name: How the server names itself.
        server_version: Its version; the service's by default.
        server_title: Its name for people.
        instructions: What the client's model should know about the server as a whole.
        website_url: Where people read more about it.
        icons: For the client's interface.
        tools: Component classes, or `Component.tools(...)`, whose tools are offered as they are.
        http: Whether the tools are plain HTTP routes too, `POST <path>/tools/<name>` with the
            arguments as JSON, shown in the service's OpenAPI.
        acl: Who may call; everybody who reaches the service where it is left out.
        jwt: Which bearer tokens are required and believed.
        rate_limit: How often one principal may call.
        authorize: Whether a call of a tool on an instance may be made; see `ToolRequest`.

    Example:
        >>> @mcp_endpoint(server_name="shop", tools=[])
        ... class ShopMcp:
        ...     @mcp_tool(description="Adds two numbers.")
        ...     def add(self, a: int, b: int) -> int:
        ...         return a + b
    """

    def mark(cls: T) -> T:
        security = Security(acl, jwt, rate_limit, authorize)
        info = McpEndpointInfo(
            path=path,
            server_name=server_name,
            server_version=server_version,
            server_title=server_title,
            instructions=instructions,
            website_url=website_url,
            icons=listed(icons),
            tools=listed(tools),
            http=http,
            security=None if security == Security() else security,
            names=names_around(sys._getframe(1)),
        )
        setattr(cls, _MARK, info)
        return cls

    return mark


def endpoint_info(cls: Any) -> McpEndpointInfo | None:
    """What was said about this very class; None when it is no MCP endpoint."""
    found = getattr(cls, "__dict__", {}).get(_MARK)
    return found if isinstance(found, McpEndpointInfo) else None


def read_endpoint(
    cls: type[Any],
    definitions: Mapping[type[Any], ComponentDefinition],
    broken: Mapping[type[Any], Sequence[ToolDefinition]] = MappingProxyType({}),
) -> tuple[McpEndpointDefinition | None, list[str]]:
    """An endpoint class, and every breach of the rules in it; `broken` as in `resolve_tools`."""
    name = getattr(cls, "__qualname__", repr(cls))
    info = endpoint_info(cls)
    if info is None:
        return None, [f"{name} has no @mcp_endpoint(...)"]
    problems: list[str] = []
    tools: list[ToolDefinition] = []
    problems += [f"{name}: {one}" for one in wrong_types(info)]
    if not problems:
        tools, wrong = resolve_tools(info.tools, definitions, broken)
        problems += [f"{name}: {one}" for one in (*_info_problems(info), *wrong)]
    methods = read_methods(cls, info.names, lambda text: problems.append(f"{name}{text}"))
    taken = {tool.name: tool for tool in tools}
    problems += [
        f"{name}.{one.method.handler.name}: the tool {one.name!r} is also that of "
        f"{taken[one.name].handler.target}; give one of them another name="
        for one in methods.tools
        if one.name in taken
    ]
    if problems:
        return None, problems
    offers: tuple[Tool, ...] = (*tools, *methods.tools)
    asks = any(tool.access is not None for tool in offers)
    return (
        McpEndpointDefinition(
            cls=cls,
            path=info.path,
            server_name=info.server_name,
            server_version=info.server_version,
            server_title=info.server_title,
            instructions=info.instructions,
            website_url=info.website_url,
            icons=info.icons,
            tools=tuple(sorted(offers, key=lambda one: one.name)),
            http=info.http,
            methods=methods,
            security=info.security or (Security() if asks else None),
        ),
        [],
    )


def _info_problems(info: McpEndpointInfo) -> Iterator[str]:
    if not _PATH.match(info.path) or not {".", ".."}.isdisjoint(info.path.split("/")):
        yield (
            f"the path {info.path!r} must begin with / and not end with it, without placeholders "
            "and whatever a URL would have to encode, as /mcp"
        )
    if not info.server_name.strip():
        yield "server_name must not be empty"


def define_endpoint(
    cls: type[Any], definitions: Mapping[type[Any], ComponentDefinition]
) -> McpEndpointDefinition:
    """Read and check an endpoint class.

    Raises:
        DefinitionError: Lists every breach of the rules.
    """
    found, problems = read_endpoint(cls, definitions)
    if found is None:
        raise DefinitionError(problems)
    return found
