"""Reads the methods of an endpoint class, and notes every breach of their rules."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import FunctionType, NoneType
from typing import Any, Final, get_args

from greenroom.components._address_rules import address_problems, same_address
from greenroom.components._constructor import read_constructor
from greenroom.components._docs import first_paragraph
from greenroom.components._handler_rules import (
    Breach,
    read_parameters,
    unreadable,
    wrong_defaults,
)
from greenroom.components._hints import (
    has_type_variable,
    hints_of,
    settle_annotations,
    shown,
)
from greenroom.components._protobuf import mentions_protobuf
from greenroom.components._result_types import (
    choices_of,
    is_message,
    mime_type,
    tool_shape,
    without_awaitable,
)
from greenroom.components._said import wrong_types
from greenroom.components._tool_rules import NO_PROTOBUF, read_schemas, tool_problems
from greenroom.components.content import (
    ResourceLink,
)
from greenroom.components.contexts import EntityContext, McpContext, ToolContext
from greenroom.components.endpoint_methods import (
    CompletionDefinition,
    EndpointMethod,
    EndpointMethods,
    MethodTool,
    PromptDefinition,
    ResourceDefinition,
)
from greenroom.components.function_tool import tool_mark
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.mcp_methods import (
    McpCompletionMark,
    McpInstancesMark,
    McpMark,
    McpPromptMark,
    McpResourceMark,
    McpToolMark,
    mcp_mark,
)
from greenroom.components.schema import shape_of
from greenroom.components.tools import read_hints

_DECORATORS: Final[Mapping[type[Any], str]] = {
    McpToolMark: "@mcp_tool",
    McpResourceMark: "@mcp_resource",
    McpPromptMark: "@mcp_prompt",
    McpCompletionMark: "@mcp_completion",
    McpInstancesMark: "@mcp_instances",
}


def read_methods(cls: type[Any], names: Mapping[str, Any], breach: Breach) -> EndpointMethods:
    """The tools, resources, prompts and completions of an endpoint class.

    Args:
        cls: The class.
        names: Local names that its annotations may mention.
        breach: Takes what is wrong, told after the name of the class.
    """
    reader = _Methods(cls, names, breach)
    for name, function, mark in reader.marked():
        reader.read(name, function, mark)
    reader.link()
    reader.found.constructor = read_constructor(cls, names, breach, _never_given)
    return reader.found


class _Methods:
    def __init__(self, cls: type[Any], names: Mapping[str, Any], breach: Breach) -> None:
        self._cls = cls
        self._names = dict(names)
        self._breach = breach
        self._targets: dict[str, ResourceDefinition | PromptDefinition] = {}
        self._links: list[tuple[EndpointMethod, McpCompletionMark | McpInstancesMark]] = []
        self.found = EndpointMethods()

    def marked(self) -> Iterator[tuple[str, FunctionType, McpMark]]:
        """The methods that say what they are, inherited ones too, right or wrong."""
        # In the order of the class, bases first: overlapping templates are asked in it.
        order = dict.fromkeys(name for base in reversed(self._cls.__mro__) for name in vars(base))
        for name in order:
            found = inspect.getattr_static(self._cls, name)
            function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
            # Above `@staticmethod`, the decorator is put on that.
            mark = mcp_mark(function) or mcp_mark(found)
            if mark is None:
                if isinstance(function, FunctionType) and tool_mark(self._cls, name) is not None:
                    self._breach(
                        f".{name} has @function_tool, which is for components; use @mcp_tool"
                    )
                continue
            decorator = _DECORATORS[type(mark)]
            if name.startswith("_"):
                self._breach(f".{name} has {decorator}, but is not public")
            elif function is not found or not isinstance(function, FunctionType):
                self._breach(f".{name} has {decorator}, but is no plain method that takes self")
            else:
                yield name, function, mark

    def read(self, name: str, function: FunctionType, mark: McpMark) -> None:
        """One method, whatever it is."""
        decorator = _DECORATORS[type(mark)]
        problems = [f": {decorator} {one}" for one in wrong_types(mark)]
        method = self._method(name, function, problems.append)
        if method is not None and not problems:
            match mark:
                case McpToolMark():
                    self._tool(method, mark, problems.append)
                case McpResourceMark():
                    self._resource(method, mark, problems.append)
                case McpPromptMark():
                    self._prompt(method, mark, problems.append)
                case _:
                    self._links.append((method, mark))
        for problem in problems:
            self._breach(f".{name}{problem}")

    # -- what all methods have in common ---------------------------------------------------

    def _method(self, name: str, function: FunctionType, breach: Breach) -> EndpointMethod | None:
        problems: list[str] = []
        try:
            hints = hints_of(function, self._cls, self._names)
        except Exception as error:
            breach(unreadable(error))
            return None
        if "return" not in hints:
            problems.append(" must say what it returns; write -> None for nothing")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            problems.append(" must return its result, not yield it; return a list")
        reply_type = without_awaitable(hints.get("return"))
        if has_type_variable(reply_type):
            problems.append(f": the type of its result, {shown(reply_type)}, is left open here")
        context_at, context = _context_of(function, hints)
        if len(context) > 1:
            problems.append(f" asks for the context twice: {' and '.join(context)}")
        parameters = read_parameters(function, hints, {}, problems.append, given=context)
        for problem in problems:
            breach(problem)
        if problems:
            return None
        for one in (reply_type, *(parameter.type for parameter in parameters)):
            settle_annotations(one, self._names)
        try:
            handler = HandlerDefinition(
                component=self._cls.__name__,
                name=name,
                function=function,
                read_only=False,
                description=first_paragraph(function),
                parameters=parameters,
                reply_type=NoneType if reply_type is None else reply_type,
            )
        except Exception as error:
            if mentions_protobuf(reply_type):
                breach(NO_PROTOBUF)
            else:
                reason = str(error).splitlines()[0]
                breach(f": pydantic can't use its parameter or result types: {reason}")
            return None
        wrong = wrong_defaults(handler)
        for problem in wrong:
            breach(problem)
        is_async = inspect.iscoroutinefunction(function)
        return None if wrong else EndpointMethod(self._cls, handler, is_async, context_at)

    # -- tools -----------------------------------------------------------------------------

    def _tool(self, method: EndpointMethod, mark: McpToolMark, breach: Breach) -> None:
        handler = method.handler
        name = handler.name if mark.name is None else mark.name
        description = mark.description or handler.description
        shape = tool_shape(handler.reply_type)
        hints, contradictions = read_hints(mark.annotations, read_only=None)
        schemas, unshowable = read_schemas(handler, mark, shape)
        problems = [*tool_problems(name, description, handler, mark, shape)]
        problems += [f": the tool {one}" for one in contradictions]
        problems += unshowable
        if any(one.name == name for one in self.found.tools):
            problems.append(f": there is another tool named {name!r}; give one of them a name=")
        for problem in problems:
            breach(problem)
        if problems or shape is None:
            return
        shown_input, shown_output, check = schemas
        self.found.tools.append(
            MethodTool(
                name=name,
                title=mark.title,
                description=description,
                input_schema=shown_input,
                output_schema=shown_output,
                hints=hints,
                icons=mark.icons,
                meta=mark.meta,
                method=method,
                shape=shape,
                timeout=None if mark.timeout is None else mark.timeout.total_seconds(),
                max_result_bytes=mark.max_result_bytes,
                access=mark.access,
                check=check,
            )
        )

    # -- resources -------------------------------------------------------------------------

    def _resource(self, method: EndpointMethod, mark: McpResourceMark, breach: Breach) -> None:
        handler = method.handler
        problems, template = address_problems(method, mark)
        if mentions_protobuf(handler.reply_type):
            problems.append(NO_PROTOBUF)
        if mark.priority is not None and not 0 <= mark.priority <= 1:
            problems.append(": priority must be from 0 to 1")
        for other in (*self.found.resources, *self.found.templates):
            problems += same_address(mark, template, other)
        for problem in problems:
            breach(problem)
        if problems:
            return
        made = ResourceDefinition(
            name=mark.name or handler.name,
            title=mark.title,
            description=mark.description or handler.description,
            mime_type=mark.mime_type or mime_type(handler.reply_type),
            uri=mark.uri or None,
            template=template,
            size=mark.size,
            audience=mark.audience,
            priority=mark.priority,
            icons=mark.icons,
            any_segment=mark.any_segment,
            method=method,
        )
        self._targets[handler.name] = made
        (self.found.resources if template is None else self.found.templates).append(made)

    # -- prompts ---------------------------------------------------------------------------

    def _prompt(self, method: EndpointMethod, mark: McpPromptMark, breach: Breach) -> None:
        handler = method.handler
        problems = []
        name = mark.name or handler.name
        if not is_message(handler.reply_type):
            problems.append(
                f" must return text, a MessageContent, a PromptMessage or a list of these, not "
                f"{shown(handler.reply_type)}"
            )
        if any(one.name == name for one in self.found.prompts):
            problems.append(f": there is another prompt named {name!r}; give one of them a name=")
        for problem in problems:
            breach(problem)
        if problems:
            return
        made = PromptDefinition(
            name, mark.title, mark.description or handler.description, mark.role, mark.icons, method
        )
        self._targets[handler.name] = made
        self.found.prompts.append(made)
        for one in handler.parameters:
            choices = choices_of(one.type)
            if choices:
                key = ("ref/prompt", name, one.name)
                self.found.completions[key] = CompletionDefinition(None, choices)

    # -- what belongs to others ------------------------------------------------------------

    def link(self) -> None:
        """Completions and instances to what they are for, and everything into its order."""
        for method, mark in self._links:
            for problem in self._linked(method, mark):
                self._breach(f".{method.handler.name}{problem}")
        self.found.tools.sort(key=lambda one: one.name)
        self.found.resources.sort(key=lambda one: (one.name, one.address))
        # A stable sort: those with as many given segments stay in the order of the class.
        self.found.templates.sort(key=lambda one: -(one.template.literals if one.template else 0))
        self.found.prompts.sort(key=lambda one: one.name)

    def _linked(
        self, method: EndpointMethod, mark: McpCompletionMark | McpInstancesMark
    ) -> Iterator[str]:
        decorator = _DECORATORS[type(mark)]
        target = self._targets.get(mark.target)
        if target is None:
            if mcp_mark(getattr(self._cls, mark.target, None)) is None:
                yield f": {decorator} is for {mark.target!r}, which is no prompt or resource here"
            return
        if isinstance(mark, McpInstancesMark):
            if isinstance(target, PromptDefinition) or target.template is None:
                yield f": {decorator} is for {mark.target!r}, which is no resource template"
            elif get_args(method.handler.reply_type)[:1] != (ResourceLink,):
                yield f": {decorator} must return list[ResourceLink]"
            elif method.handler.parameters:
                yield f": {decorator} takes no parameters but the context"
            else:
                self.found.instances.append(method)
            return
        yield from self._completion(method, mark, target)

    def _completion(
        self,
        method: EndpointMethod,
        mark: McpCompletionMark,
        target: ResourceDefinition | PromptDefinition,
    ) -> Iterator[str]:
        known = [one.name for one in target.method.handler.parameters]
        taken = len(method.handler.parameters)
        if mark.argument not in known:
            yield (
                f": @mcp_completion is for the argument {mark.argument!r} of {mark.target}, which "
                f"has: {', '.join(known) or 'none'}"
            )
        elif shape_of(method.handler.reply_type) != "list":
            yield ": @mcp_completion must return a list of texts, list[str]"
        elif taken not in (1, 2):
            yield (
                ": @mcp_completion takes what was typed and, if it likes, the other arguments: "
                "(self, typed: str, others: Mapping[str, str])"
            )
        else:
            kind = "ref/prompt" if isinstance(target, PromptDefinition) else "ref/resource"
            name = target.name if isinstance(target, PromptDefinition) else target.address
            made = CompletionDefinition(method, takes_others=taken == 2)
            self.found.completions[kind, name, mark.argument] = made


def _context_of(
    function: FunctionType, hints: Mapping[str, Any]
) -> tuple[int | None, tuple[str, ...]]:
    """At which place after `self` the context is given, and the names of such parameters."""
    parameters = list(inspect.signature(function).parameters)[1:]
    found = tuple(one for one in parameters if hints.get(one) in (McpContext, ToolContext))
    return (parameters.index(found[0]) if found else None), found


def _never_given(kind: Any) -> str | None:
    if kind is EntityContext:
        return " asks for an EntityContext, but an endpoint is no entity; ask for McpContext"
    return None
