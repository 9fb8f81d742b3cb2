"""What is known of an endpoint's own methods: its tools, resources, prompts and completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from greenroom.components.content import Icon, MessageContent, PromptMessage, ResourceContent, Role
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.security import Access
from greenroom.components.tools import SUCCESS, ToolDefinition, ToolHints, ToolResult
from greenroom.components.uri_templates import UriTemplate
from greenroom.errors import InvalidArgumentsError, ToolError

TEXT, BYTES, JSON = "text/plain", "application/octet-stream", "application/json"


@dataclass(frozen=True, slots=True)
class EndpointMethod:
    """A method of an endpoint class, ready to be run."""

    cls: type[Any]
    handler: HandlerDefinition
    """Its parameters and its reply, as of any handler."""
    is_async: bool
    """Written with `async def`; the others run on threads."""
    context_at: int | None
    """Where among its arguments the context is given; None when it asks for none."""

    @property
    def target(self) -> str:
        """How it is named in messages: `ShopMcp.add`."""
        return self.handler.target

    @property
    def may_talk(self) -> bool:
        """Whether it can say something before it is done, or be told to stop."""
        return self.is_async or self.context_at is not None

    def arguments(self, values: tuple[Any, ...], context: object) -> tuple[Any, ...]:
        """The values with the context in its place."""
        at = self.context_at
        return values if at is None else (*values[:at], context, *values[at:])


@dataclass(frozen=True, slots=True)
class MethodTool:
    """A method as a tool."""

    name: str
    title: str | None
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    hints: ToolHints
    icons: tuple[Icon, ...]
    meta: Mapping[str, Any]
    method: EndpointMethod
    shape: str
    """`object`, `list`, `mapping`, `text`, or `content` for media."""
    timeout: float | None
    """In seconds; None takes the service's."""
    max_result_bytes: int | None
    access: Access | None = None
    """What it asks of callers beyond what its endpoint asks."""
    check: Callable[[Mapping[str, Any]], list[str]] | None = None
    """What is wrong with arguments by a schema that was given; None for one that was drawn."""

    def parse(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """The method's values for a call.

        Raises:
            InvalidArgumentsError: Names every argument that does not fit.
        """
        handler = self.method.handler
        if self.check is not None:
            problems = self.check(arguments)
            if problems:
                raise InvalidArgumentsError(self.name, problems)
            known = {one.name for one in handler.parameters}
            arguments = {name: value for name, value in arguments.items() if name in known}
        try:
            return handler.bind_mapping(arguments)
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(self.name, error.problems) from error

    def show(self, value: Any) -> ToolResult:
        """What a method answered, as the tool shows it (the McpTool document).

        Raises:
            ToolError: It answered with nothing.
            pydantic.ValidationError: The value does not fit the declared type.
        """
        handler = self.method.handler
        if handler.reply_type is NoneType:
            return ToolResult(SUCCESS)
        if value is None:
            raise ToolError(f"{self.name} has no result.")
        if self.shape == "content":
            contents = contents_of(value)
            if not contents:
                raise ToolError(f"{self.name} has no result.")
            return ToolResult("", contents=contents)
        if self.shape == "text" and isinstance(value, str) and handler.answers_text:
            return ToolResult(value)
        reply = handler.write_reply(value, without_null=self.shape in ("object", "list"))
        if self.shape == "list":
            reply = b'{"result":' + reply + b"}"
        return ToolResult(reply.decode(), None if self.shape == "text" else reply)


Tool = ToolDefinition | MethodTool
"""What an endpoint offers: a component's handler, or a method of its own."""


def contents_of(value: Any) -> tuple[MessageContent, ...]:
    """One content or a list of them, without what is None.

    Raises:
        TypeError: It is something else.
    """
    several = (value,) if isinstance(value, MessageContent) else tuple(value)
    for one in several:
        if not (one is None or isinstance(one, MessageContent)):
            message = f"{type(one).__name__} is no content; answer with one of its kinds"
            raise TypeError(message)
    return tuple(one for one in several if one is not None)


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """A method as a resource, or as a template for many."""

    name: str
    title: str | None
    description: str
    mime_type: str
    uri: str | None
    template: UriTemplate | None
    size: int | None
    audience: tuple[Role, ...]
    priority: float | None
    icons: tuple[Icon, ...]
    any_segment: bool
    method: EndpointMethod

    @property
    def address(self) -> str:
        """The URI or the template, as it was written."""
        return self.uri if self.template is None else self.template.text  # type: ignore[return-value]

    def values(self, variables: Mapping[str, str]) -> tuple[Any, ...]:
        """The method's values for the placeholders of a template.

        Raises:
            InvalidArgumentsError: One of them does not fit what its parameter allows.
        """
        return self.method.handler.bind_mapping(variables)

    def show(self, value: Any, uri: str) -> list[ResourceContent]:
        """What a method answered, with the URI that was read (the McpResource document)."""
        several = value if isinstance(value, list) and _all_contents(value) else [value]
        return [self._one(one, uri) for one in several]

    def _one(self, value: Any, uri: str) -> ResourceContent:
        if isinstance(value, ResourceContent):
            kind = value.mime_type or (self.mime_type if self.mime_type != JSON else None)
            fallback = TEXT if isinstance(value.data, str) else BYTES
            return ResourceContent(value.data, value.uri or uri, kind or fallback)
        if isinstance(value, bytes | bytearray | memoryview):
            return ResourceContent(bytes(value), uri, self.mime_type)
        if isinstance(value, str) and self.method.handler.answers_text:
            return ResourceContent(value, uri, self.mime_type)
        text = self.method.handler.write_reply(value).decode()
        return ResourceContent(text, uri, self.mime_type)


def _all_contents(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(one, ResourceContent) for one in values)


@dataclass(frozen=True, slots=True)
class PromptDefinition:
    """A method as a prompt."""

    name: str
    title: str | None
    description: str
    role: Role
    icons: tuple[Icon, ...]
    method: EndpointMethod

    def show(self, value: Any) -> list[PromptMessage]:
        """What a method answered, as messages."""
        several = value if isinstance(value, list | tuple) else [value]
        return [
            one if isinstance(one, PromptMessage) else PromptMessage(self.role, one)
            for one in several
        ]


@dataclass(frozen=True, slots=True)
class CompletionDefinition:
    """Values for one argument: from a method, or those that its type allows."""

    method: EndpointMethod | None
    choices: tuple[str, ...] = ()
    takes_others: bool = False


@dataclass(slots=True)
class EndpointMethods:
    """All that an endpoint class says itself."""

    tools: list[MethodTool] = field(default_factory=list)
    resources: list[ResourceDefinition] = field(default_factory=list)
    """Static ones, by name."""
    templates: list[ResourceDefinition] = field(default_factory=list)
    """In the order in which they are asked: the one with more given segments first."""
    prompts: list[PromptDefinition] = field(default_factory=list)
    completions: dict[tuple[str, str, str], CompletionDefinition] = field(default_factory=dict)
    """By `ref/prompt` or `ref/resource`, prompt name or template, and argument."""
    instances: list[EndpointMethod] = field(default_factory=list)
    constructor: Mapping[str, Any] = field(default_factory=dict)
    """What `__init__` asks for: parameter name and type."""

    @property
    def may_log(self) -> bool:
        """Whether one of them could say something to the client's log."""
        methods = [one.method for one in self.tools]
        methods += [one.method for one in (*self.resources, *self.templates)]
        methods += [one.method for one in self.prompts]
        return any(one.context_at is not None for one in methods)
