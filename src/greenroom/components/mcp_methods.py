"""`@mcp_tool`, `@mcp_resource`, `@mcp_prompt`: the own methods of an MCP endpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, overload

from greenroom.components._said import listed
from greenroom.components.content import Icon, Role
from greenroom.components.function_tool import ToolAnnotation
from greenroom.components.security import Access, Acl, Authorize

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__greenroom_mcp_method__"


@dataclass(frozen=True, slots=True)
class McpToolMark:
    """What `@mcp_tool` has said about a method."""

    name: str | None
    title: str | None
    description: str | None
    input_schema: Mapping[str, Any] | str | None
    annotations: tuple[ToolAnnotation, ...]
    icons: tuple[Icon, ...]
    meta: Mapping[str, Any]
    timeout: timedelta | None
    max_result_bytes: int | None
    access: Access | None


@dataclass(frozen=True, slots=True)
class McpResourceMark:
    """What `@mcp_resource` has said about a method."""

    uri: str | None
    uri_template: str | None
    name: str | None
    title: str | None
    description: str | None
    mime_type: str | None
    size: int | None
    audience: tuple[Role, ...]
    priority: float | None
    icons: tuple[Icon, ...]
    any_segment: bool


@dataclass(frozen=True, slots=True)
class McpPromptMark:
    """What `@mcp_prompt` has said about a method."""

    name: str | None
    title: str | None
    description: str | None
    role: Role
    icons: tuple[Icon, ...]


@dataclass(frozen=True, slots=True)
class McpCompletionMark:
    """What `@mcp_completion` has said about a method."""

    target: str
    argument: str


@dataclass(frozen=True, slots=True)
class McpInstancesMark:
    """What `@mcp_instances` has said about a method."""

    target: str


McpMark = McpToolMark | McpResourceMark | McpPromptMark | McpCompletionMark | McpInstancesMark


@overload
def mcp_tool(fn: F, /) -> F: ...
@overload
def mcp_tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | str | None = None,
    annotations: Collection[ToolAnnotation] = (),
    icons: Sequence[Icon] = (),
    meta: Mapping[str, Any] | None = None,
    timeout: timedelta | None = None,
    max_result_bytes: int | None = None,
    acl: Acl | None = None,
    scopes: Set[str] = frozenset(),
    authorize: Authorize | None = None,
) -> Callable[[F], F]: ...
def mcp_tool(  # noqa: PLR0913 - one for each thing a tool may say of itself
    fn: F | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | str | None = None,
    annotations: Collection[ToolAnnotation] = (),
    icons: Sequence[Icon] = (),
    meta: Mapping[str, Any] | None = None,
    timeout: timedelta | None = None,
    max_result_bytes: int | None = None,
    acl: Acl | None = None,
    scopes: Set[str] = frozenset(),
    authorize: Authorize | None = None,
) -> F | Callable[[F], F]:
    """Offer a public method of an `@mcp_endpoint` class as a tool.

    A method written with `def` runs on a thread and may block; one written with `async def`
    runs on the event loop. A parameter typed `McpContext` is given, and left out of the schema.

    Args:
        fn: The method, when used without parentheses.
        name: The tool's name; by default the method's. Unique within the endpoint.
        title: A name for people.
        description: What it does, for the model; by default the docstring's first paragraph.
        input_schema: A JSON Schema, as a mapping or as text, in place of the one drawn from the
            parameters. It must describe the parameters; arguments are checked against it.
        annotations: What the tool does to its surroundings, as hints.
        icons: For the client's interface.
        meta: Put into the listing's `_meta`, as `{"anthropic/maxResultSizeChars": 200_000}`.
        timeout: How long a call may take; `GREENROOM_TOOL_TIMEOUT` by default.
        max_result_bytes: The largest result; `GREENROOM_MAX_RESULT_BYTES` by default.
        acl: Who may call it, of those whom the endpoint lets in.
        scopes: What the caller's token must permit; the endpoint then asks for tokens (jwt=).
        authorize: Whether a call may be made; see `ToolRequest`.

    Example:
        >>> @mcp_tool(description="Adds two numbers.", annotations=[ToolAnnotation.READ_ONLY])
        ... def add(self, a: int, b: int) -> int:
        ...     return a + b
    """
    asks = acl is not None or scopes or authorize is not None
    mark = McpToolMark(
        name,
        title,
        description,
        input_schema,
        listed(annotations),
        listed(icons),
        {} if meta is None else meta,
        timeout,
        max_result_bytes,
        Access(acl, scopes, authorize) if asks else None,
    )
    return _marking(mark) if fn is None else _marking(mark)(fn)


def mcp_resource(  # noqa: PLR0913 - one for each thing a resource may say of itself
    *,
    uri: str | None = None,
    uri_template: str | None = None,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    audience: Collection[Role] = (),
    priority: float | None = None,
    icons: Sequence[Icon] = (),
    any_segment: bool = False,
) -> Callable[[F], F]:
    """Offer a public method of an `@mcp_endpoint` class as a resource that clients can read.

    The method answers with text, bytes, `ResourceContent` (or a list of it), or anything else,
    which is written as JSON. Values that come from a URI come from outside: check them.

    Args:
        uri: Of a resource without parameters.
        uri_template: For resources with parameters: `{name}` stands for one whole path segment,
            and is a parameter of the method, of type `str`.
        name: What people call it; by default the method's name.
        title: A longer name for people.
        description: What it holds, for the model; by default the docstring's first paragraph.
        mime_type: By default `text/plain` for text, `application/octet-stream` for bytes,
            `application/json` for the rest.
        size: In bytes, when it is known.
        audience: For whom it is meant.
        priority: How much it matters, from 0 to 1.
        icons: For the client's interface.
        any_segment: Take values with decoded slashes, dot segments or NUL, which are refused
            otherwise.

    Example:
        >>> @mcp_resource(uri_template="shop://carts/{cart_id}", name="Cart")
        ... def cart(self, cart_id: str) -> dict[str, int]:
        ...     return {"items": 0}
    """
    return _marking(
        McpResourceMark(
            uri,
            uri_template,
            name,
            title,
            description,
            mime_type,
            size,
            listed(audience),
            priority,
            listed(icons),
            any_segment,
        )
    )


@overload
def mcp_prompt(fn: F, /) -> F: ...
@overload
def mcp_prompt(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    role: Role = "user",
    icons: Sequence[Icon] = (),
) -> Callable[[F], F]: ...
def mcp_prompt(
    fn: F | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    role: Role = "user",
    icons: Sequence[Icon] = (),
) -> F | Callable[[F], F]:
    """Offer a public method of an `@mcp_endpoint` class as a prompt that people can choose.

    The method answers with text, a `MessageContent`, a `PromptMessage`, or a list of these.

    Args:
        fn: The method, when used without parentheses.
        name: The prompt's name; by default the method's.
        title: A name for people.
        description: What it is for; by default the docstring's first paragraph.
        role: Who says what comes without a role: `"user"` or `"assistant"`.
        icons: For the client's interface.

    Example:
        >>> @mcp_prompt(description="Asks for a recommendation.")
        ... def recommend(self, taste: str) -> str:
        ...     return f"What would you recommend to somebody who likes {taste}?"
    """
    mark = McpPromptMark(name, title, description, role, listed(icons))
    return _marking(mark) if fn is None else _marking(mark)(fn)


def mcp_completion(target: Callable[..., Any], argument: str) -> Callable[[F], F]:
    """Offer values for an argument of a prompt, or for a placeholder of a resource template.

    The method takes what was typed so far, and may take the arguments that are filled in already
    as a second parameter, `Mapping[str, str]`. It answers with a list of texts; the client sees
    the first hundred.

    Args:
        target: The method of the prompt or the resource, as it is named above in the class.
        argument: The name of its parameter.

    Example:
        >>> @mcp_completion(recommend, "taste")                            # doctest: +SKIP
        ... def tastes(self, typed: str) -> list[str]:
        ...     return [one for one in ("sweet", "salty") if one.startswith(typed)]
    """
    return _marking(McpCompletionMark(getattr(target, "__name__", repr(target)), argument))


def mcp_instances(target: Callable[..., Any]) -> Callable[[F], F]:
    """List the resources that a template stands for at the moment.

    The method answers with a list of `ResourceLink`, shown beside the static resources.

    Args:
        target: The method of the resource template, as it is named above in the class.

    Example:
        >>> @mcp_instances(cart)                                           # doctest: +SKIP
        ... def carts(self) -> list[ResourceLink]:
        ...     return [ResourceLink("shop://carts/c-1", "The first cart")]
    """
    return _marking(McpInstancesMark(getattr(target, "__name__", repr(target))))


def _marking(mark: McpMark) -> Callable[[F], F]:
    def put(function: F) -> F:
        setattr(function, _MARK, mark)
        return function

    return put


def mcp_mark(function: Any) -> McpMark | None:
    """What was said about this very function; an override without a mark takes it away."""
    found: McpMark | None = getattr(function, _MARK, None)
    return found
