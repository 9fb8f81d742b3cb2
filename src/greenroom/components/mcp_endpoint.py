"""`@mcp_endpoint`: a class whose tools are served to MCP clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from greenroom.components.security import Acl, Authorize, Jwt, RateLimit, Security
from greenroom.components.tools import ToolDefinition, resolve_tools
from greenroom.errors import DefinitionError

if TYPE_CHECKING:
    from greenroom.components.definition import ComponentDefinition

T = TypeVar("T", bound=type[Any])

_MARK = "__greenroom_mcp_endpoint__"


@dataclass(frozen=True, slots=True)
class McpEndpointInfo:
    """What `@mcp_endpoint` has said about a class."""

    path: str
    server_name: str
    server_version: str
    instructions: str
    tools: tuple[object, ...]
    security: Security | None = None


@dataclass(frozen=True, slots=True)
class McpEndpointDefinition:
    """An MCP endpoint, read and checked."""

    cls: type[Any]
    path: str
    server_name: str
    server_version: str
    instructions: str
    tools: tuple[ToolDefinition, ...]
    security: Security | None = None
    """None where nothing is asked of callers, of no tool either."""


def mcp_endpoint(  # noqa: PLR0913 - each is said by name
    *,
    path: str = "/mcp",
    server_name: str,
    server_version: str = "",
    instructions: str = "",
    tools: Sequence[object] = (),
    acl: Acl | None = None,
    jwt: Jwt | None = None,
    rate_limit: RateLimit | None = None,
    authorize: Authorize | None = None,
) -> Callable[[T], T]:
    """Serve tools to MCP clients over Streamable HTTP.

    Args:
        path: Where, in the service's HTTP app.
        server_name: How the server names itself.
        server_version: Its version; the service's by default.
        instructions: What the client's model should know about the server as a whole.
        tools: Component classes, or `Component.tools(...)`, whose tools are offered as they are.
        acl: Who may call; everybody who reaches the service where it is left out.
        jwt: Which bearer tokens are required and believed.
        rate_limit: How often one principal may call.
        authorize: Whether a call of a tool on an instance may be made; see `ToolRequest`.

    Example:
        >>> @mcp_endpoint(server_name="shop", tools=[])
        ... class ShopMcp:
        ...     pass
    """

    def mark(cls: T) -> T:
        security = Security(acl, jwt, rate_limit, authorize)
        info = McpEndpointInfo(
            path,
            server_name,
            server_version,
            instructions,
            tuple(tools),
            None if security == Security() else security,
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
    problems = []
    if not info.path.startswith("/") or info.path.endswith("/") or "{" in info.path:
        problems.append(
            f"{name}: the path {info.path!r} must begin with / and not end with it, without "
            "placeholders"
        )
    if not info.server_name.strip():
        problems.append(f"{name}: server_name must not be empty")
    tools, wrong = resolve_tools(info.tools, definitions, broken)
    problems += [f"{name}: {problem}" for problem in wrong]
    if problems:
        return None, problems
    return (
        McpEndpointDefinition(
            cls,
            info.path,
            info.server_name,
            info.server_version,
            info.instructions,
            tuple(tools),
            info.security
            or (Security() if any(tool.access is not None for tool in tools) else None),
        ),
        [],
    )


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
