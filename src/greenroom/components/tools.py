"""One tool definition for each tool handler, served at two doors: agents and MCP."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson
from pydantic.errors import PydanticInvalidForJsonSchema

from greenroom.components._said import wrong_types
from greenroom.components.function_tool import Approval, ToolAnnotation, tool_mark
from greenroom.components.mirrored import mirroring_problems
from greenroom.components.schema import input_schema, output_schema, shape_of
from greenroom.errors import AccessDeniedError, InvalidArgumentsError, InvalidIdError
from greenroom.ids import entity_ref

if TYPE_CHECKING:
    from greenroom.components.content import MessageContent
    from greenroom.components.contexts import ToolContext
    from greenroom.components.definition import ComponentDefinition
    from greenroom.components.function_tool import ToolMark
    from greenroom.components.handlers import HandlerDefinition
    from greenroom.components.security import Access

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
SUCCESS = "SUCCESS"
"""What a tool without a result answers (the McpTool document)."""

Bind = str | Callable[["ToolContext"], str | None]


@dataclass(frozen=True, slots=True)
class ToolHints:
    """What a tool does to its surroundings; None is not said."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A reply as a tool shows it."""

    text: str
    structured: bytes | None = None
    """JSON of an object."""
    contents: tuple[MessageContent, ...] = ()
    """Media and the like; when there are some, they stand in place of the text."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A handler as a tool."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    hints: ToolHints
    handler: HandlerDefinition
    id_parameter: str | None
    """The argument that takes the instance id; None when it is bound."""
    id_text: str
    bind: Bind | None
    requires_approval: Approval
    shape: str
    access: Access | None = None
    """What it asks of callers beyond what its endpoint asks."""
    task: TaskDefinition | None = None
    """How it is offered as a task, to clients that know them."""

    def parse(
        self, arguments: Mapping[str, Any], context: ToolContext
    ) -> tuple[str, tuple[Any, ...]]:
        """The instance id and the handler's values for a call.

        Raises:
            InvalidArgumentsError: Names every argument that does not fit.
            AccessDeniedError: The caller has no instance, since nothing is known of it.
        """
        given = dict(arguments)
        problems = []
        if self.id_parameter is not None:
            instance = given.pop(self.id_parameter, None)
            if instance is None:
                problems.append(f"{self.id_parameter}: is required")
        else:
            bind = self.bind
            instance = bind(context) if callable(bind) else bind
            if instance is None:
                raise AccessDeniedError(f"{self.name} needs a caller whose name is known.")
        if not problems:
            try:
                entity_ref(self.handler.component, instance)
            except InvalidIdError as error:
                problems.append(f"{self.id_parameter or 'instance id'}: {error}")
        try:
            beside = () if self.id_parameter is None else (self.id_parameter,)
            values = self.handler.bind_mapping(given, beside=beside)
        except InvalidArgumentsError as error:
            problems += error.problems
        if problems:
            raise InvalidArgumentsError(self.name, problems)
        return str(instance), values


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A tool as a task, read and checked."""

    result: ToolDefinition
    """Shows the result as the tool would."""
    operations: Mapping[str, HandlerDefinition]
    """Of the workflow."""
    poll_interval_ms: int
    required: bool = False
    questions: HandlerDefinition | None = None
    answer: HandlerDefinition | None = None


@dataclass(frozen=True, slots=True)
class ToolSet:
    """A component's tools, chosen and bound; made by `Component.tools(...)`."""

    component: type[Any]
    bind: Bind | None = None
    only: Set[str] | None = None
    exclude: Set[str] | None = None
    descriptions: Mapping[str, str] = field(default_factory=dict)
    access: Access | None = None


def define_tool(
    component_id: str, summary: str, handler: HandlerDefinition, mark: ToolMark
) -> tuple[ToolDefinition | None, list[str]]:
    """The tool of a handler, or what is wrong with it."""
    where = f"{component_id}.{handler.name}: @function_tool"
    problems = [f"{where} {one}" for one in wrong_types(mark)]
    if problems:
        return None, problems
    prefix = component_id.replace("-", "_")
    name = mark.name or f"{prefix}_{handler.name}"
    if not TOOL_NAME.match(name):
        problems.append(
            f"{where} is named {name!r}; a name has 1 to 64 letters, digits, _ and -. "
            "Give it another with name="
        )
    id_parameter = mark.id_param or f"{prefix}_id"
    if id_parameter in {one.name for one in handler.parameters}:
        problems.append(
            f"{where} takes the instance id in {id_parameter!r}, which is also a parameter of the "
            "handler. Rename one of them (id_param=)"
        )
    description = mark.description or handler.description
    if not description:
        problems.append(f"{where} has no description; a model can't know what it is for")
    hints, wrong = read_hints(mark.annotations, read_only=handler.read_only)
    problems += [f"{where} {one}" for one in wrong]
    if problems:
        return None, problems
    id_text = f"The id of the {component_id}. {summary}".strip()
    try:
        shown_input = input_schema(handler, id_parameter=id_parameter, id_text=id_text)
        shown_output = output_schema(handler)
    except PydanticInvalidForJsonSchema as error:
        return None, [f"{where} has a parameter or reply without a JSON Schema: {error.message}"]
    problems = [f"{where}: {one}" for one in mirroring_problems(shown_input)]
    if problems:
        return None, problems
    return (
        ToolDefinition(
            name=name,
            description=description,
            input_schema=shown_input,
            output_schema=shown_output,
            hints=hints,
            handler=handler,
            id_parameter=id_parameter,
            id_text=id_text,
            bind=None,
            requires_approval=mark.requires_approval,
            shape=shape_of(handler.reply_type),
        ),
        [],
    )


def read_hints(
    annotations: Sequence[ToolAnnotation], *, read_only: bool | None
) -> tuple[ToolHints, list[str]]:
    """The hints that were given, and which contradict each other."""
    said: dict[str, bool] = {}
    problems = []
    for annotation in annotations:
        hint, value = annotation.value
        if said.get(hint, value) != value:
            problems.append(f"says both that it is and that it is not {hint.replace('_', '-')}")
        said[hint] = value
    if read_only is not None:
        said.setdefault("read_only", read_only)
    return ToolHints(**said), problems


def resolve_tools(
    entries: Iterable[object],
    definitions: Mapping[type[Any], ComponentDefinition],
    broken: Mapping[type[Any], Sequence[ToolDefinition]] = MappingProxyType({}),
) -> tuple[list[ToolDefinition], list[str]]:
    """The tools of some components and tool sets, sorted by name, and what is wrong.

    Args:
        entries: Component classes, or `Component.tools(...)`.
        definitions: The service's components, by class.
        broken: Classes whose own breaches are told elsewhere, with those of their tools that
            could be read: what is wrong with an entry that names one is told all the same.
    """
    found: dict[str, ToolDefinition] = {}
    problems: list[str] = []
    for entry in entries:
        chosen, wrong = _tools_of(entry, definitions, broken)
        problems += wrong
        for tool in chosen:
            other = found.setdefault(tool.name, tool)
            if other.handler is not tool.handler or other.bind != tool.bind:
                problems.append(_two_named(tool, other))
            elif other.access != tool.access:
                problems.append(
                    f"{tool.name!r} is given twice, with different acl=, scopes= or authorize=. "
                    "Choose with only= and exclude=, so that each tool is given once"
                )
    return [found[name] for name in sorted(found)], problems


def _two_named(tool: ToolDefinition, other: ToolDefinition) -> str:
    if other.handler is tool.handler:
        return (
            f"{tool.name!r} is given twice, with different bind=. Choose with only= and exclude=, "
            "so that each tool is given once"
        )
    return (
        f"two tools are named {tool.name!r}: {other.handler.target} and {tool.handler.target}. "
        "Give one of them another name="
    )


def _tools_of(
    entry: object,
    definitions: Mapping[type[Any], ComponentDefinition],
    broken: Mapping[type[Any], Sequence[ToolDefinition]],
) -> tuple[list[ToolDefinition], list[str]]:
    chosen = ToolSet(entry) if isinstance(entry, type) else entry
    if not isinstance(chosen, ToolSet):
        return [], [f"{entry!r} gives no tools; name a component class, or its tools(...)"]
    name = getattr(chosen.component, "__name__", repr(chosen.component))
    problems = []
    if not (chosen.bind is None or callable(chosen.bind) or is_instance_id(chosen.bind)):
        problems.append(f"{name}.tools(bind={chosen.bind!r}): no instance can have this id")
    if callable(chosen.bind) and (wrong := _wrong_with(chosen.bind)):
        problems.append(f"{name}.tools(bind=...): {wrong}")
    if chosen.component in definitions:
        offered: Sequence[ToolDefinition] = definitions[chosen.component].tools
    elif chosen.component in broken:
        offered = broken[chosen.component]
    else:
        problems.append(f"{name} gives tools but is not among the service's components")
        return [], problems
    known = {one for one in dir(chosen.component) if tool_mark(chosen.component, one) is not None}
    named = (
        ("only", chosen.only),
        ("exclude", chosen.exclude),
        ("descriptions", chosen.descriptions.keys()),
    )
    for word, names in named:
        for unknown in sorted((names or frozenset()) - known):
            problems.append(
                f"{name}.tools({word}={{{unknown!r}}}): it has no such tool, only "
                f"{', '.join(sorted(known)) or 'none'}"
            )
    tools = [
        tool
        for tool in offered
        if (chosen.only is None or tool.handler.name in chosen.only)
        and tool.handler.name not in (chosen.exclude or ())
    ]
    if not tools and not problems and chosen.component not in broken:
        problems.append(f"{name} has no tools; mark a handler with @function_tool")
    if chosen.bind is not None:
        tools = [_bound(tool, chosen.bind) for tool in tools]
    tools = [_described(tool, chosen.descriptions.get(tool.handler.name)) for tool in tools]
    if chosen.access is not None:
        tools = [replace(tool, access=chosen.access) for tool in tools]
    return tools, problems


def _wrong_with(bind: Callable[..., Any]) -> str | None:
    """What keeps a function from giving the instance id of a call."""
    if inspect.iscoroutinefunction(bind):
        return "the function must be a plain def; nobody would await it"
    try:
        inspect.signature(bind).bind(object())
    except TypeError:
        return "the function must take one argument, the ToolContext of the call"
    except ValueError:  # a built-in without a signature
        return None
    return None


def is_instance_id(text: object) -> bool:
    """Whether it can be the id of an instance."""
    try:
        entity_ref("", text)  # type: ignore[arg-type]
    except InvalidIdError:
        return False
    return True


def _described(tool: ToolDefinition, text: str | None) -> ToolDefinition:
    return tool if text is None else replace(tool, description=text)


def _bound(tool: ToolDefinition, bind: Bind) -> ToolDefinition:
    return replace(
        tool,
        bind=bind,
        id_parameter=None,
        input_schema=input_schema(tool.handler, id_parameter=None, id_text=""),
    )


def render(tool: ToolDefinition, reply: bytes) -> ToolResult:
    """A reply as the tool shows it.

    Raises:
        ValueError: The reply is null although its type says that it is not.
    """
    if tool.handler.reply_type is type(None):
        return ToolResult(SUCCESS)
    if reply == b"null":
        message = "the handler answered null"
        raise ValueError(message)
    if tool.shape == "list":
        shown = tool.handler.without_null_fields(reply) if b"null" in reply else reply
        wrapped = b'{"result":' + shown + b"}"
        return ToolResult(wrapped.decode(), wrapped)
    if tool.shape in ("object", "mapping"):
        shown = (
            tool.handler.without_null_fields(reply)
            if tool.shape == "object" and b"null" in reply
            else reply
        )
        return ToolResult(shown.decode(), shown)
    if reply[:1] == b'"' and tool.handler.answers_text:
        return ToolResult(orjson.loads(reply))
    return ToolResult(reply.decode())
