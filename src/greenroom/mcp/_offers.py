"""What an endpoint offers beside tools, and how a request finds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from greenroom.components import normal_uri
from greenroom.errors import InvalidArgumentsError
from greenroom.mcp._content import described_link
from greenroom.mcp._listing import Listing, describe_prompt, describe_resource
from greenroom.mcp._wire import INVALID_PARAMS, WireError

if TYPE_CHECKING:
    from greenroom.components import (
        CompletionDefinition,
        EndpointMethods,
        PromptDefinition,
        ResourceDefinition,
        ResourceLink,
    )


class Resources:
    """Static resources and templates; a static one is found first."""

    def __init__(self, own: EndpointMethods) -> None:
        self._static = {normal_uri(one.address): one for one in own.resources}
        self._templates = own.templates
        self._entries = [(one.address, describe_resource(one)) for one in own.resources]
        self.instances = own.instances
        self.static = Listing("resources", self._entries)
        self.templates = Listing(
            "resourceTemplates", [(one.address, describe_resource(one)) for one in own.templates]
        )
        self.may_talk = any(one.method.may_talk for one in (*own.resources, *own.templates))
        self.list_may_talk = any(one.may_talk for one in own.instances)

    def with_instances(self, found: Iterable[Iterable[ResourceLink]]) -> Listing:
        """The static resources, and after them what templates stand for at the moment."""
        taken = {uri for uri, _ in self._entries}
        links = {one.uri: one for links in found for one in links if one.uri not in taken}
        entries = [(uri, described_link(links[uri])) for uri in sorted(links)]
        return Listing("resources", [*self._entries, *entries])

    def find(self, uri: str) -> tuple[ResourceDefinition, Mapping[str, str]] | None:
        """What answers to a URI, with the values of its placeholders."""
        static = self._static.get(normal_uri(uri))
        if static is not None:
            return static, {}
        for one in self._templates:
            assert one.template is not None
            values = one.template.match(uri, any_segment=one.any_segment)
            if values is not None:
                return one, values
        return None


class Prompts:
    """Prompts by name."""

    def __init__(self, own: EndpointMethods) -> None:
        self._prompts = {one.name: one for one in own.prompts}
        self.listing = Listing("prompts", [(one.name, describe_prompt(one)) for one in own.prompts])
        self.may_talk = any(one.method.may_talk for one in own.prompts)

    def find(self, params: Mapping[str, Any]) -> tuple[PromptDefinition, tuple[Any, ...]]:
        """The prompt that is asked for, and its method's values.

        Raises:
            WireError: There is none, or the arguments don't fit.
        """
        name = params.get("name")
        prompt = self._prompts.get(name) if type(name) is str else None
        if prompt is None:
            raise WireError(INVALID_PARAMS, f"Unknown prompt: {name}")
        arguments = params.get("arguments") or {}
        if type(arguments) is not dict or not all(type(one) is str for one in arguments.values()):
            raise WireError(INVALID_PARAMS, "arguments must be an object of strings")
        try:
            return prompt, prompt.method.handler.bind_mapping(arguments)
        except InvalidArgumentsError as error:
            text = f"Invalid arguments for {name}: {'; '.join(error.problems)}"
            raise WireError(INVALID_PARAMS, text) from error


class Completions:
    """Values for arguments of prompts and for placeholders of templates."""

    def __init__(self, own: EndpointMethods) -> None:
        self._completions = own.completions
        methods = [one.method for one in own.completions.values()]
        self.may_talk = any(one is not None and one.may_talk for one in methods)
        self._arguments: dict[tuple[str, str], frozenset[str]] = {
            ("ref/prompt", one.name): frozenset(p.name for p in one.method.handler.parameters)
            for one in own.prompts
        }
        for one in own.templates:
            names = frozenset(p.name for p in one.method.handler.parameters)
            self._arguments["ref/resource", one.address] = names
        for one in own.resources:
            self._arguments["ref/resource", one.address] = frozenset()

    def find(
        self, params: Mapping[str, Any]
    ) -> tuple[CompletionDefinition | None, str, dict[str, str]]:
        """The completion that is asked for, what was typed, and the other arguments.

        Raises:
            WireError: There is no such prompt, template or argument.
        """
        ref, argument = params.get("ref"), params.get("argument")
        if type(ref) is not dict or type(argument) is not dict:
            raise WireError(INVALID_PARAMS, "ref and argument must be objects")
        kind, name, typed = ref.get("type"), argument.get("name"), argument.get("value")
        target = ref.get("uri" if kind == "ref/resource" else "name")
        if type(typed) is not str:
            raise WireError(INVALID_PARAMS, "argument.value must be a string")
        known = self._arguments.get((str(kind), str(target)))
        if known is None:
            raise WireError(INVALID_PARAMS, f"Nothing to complete for {kind} {target}")
        if type(name) is not str or name not in known:
            raise WireError(INVALID_PARAMS, f"{target} has no argument {name}")
        context = params.get("context")
        others = context.get("arguments") if type(context) is dict else None
        kept = {} if type(others) is not dict else others
        given = {key: one for key, one in kept.items() if type(one) is str}
        return self._completions.get((str(kind), str(target), name)), typed, given
