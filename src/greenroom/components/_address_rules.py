"""Checks the URIs and URI templates of resources."""

from __future__ import annotations

from collections.abc import Iterator

from greenroom.components._hints import union_members
from greenroom.components.endpoint_methods import EndpointMethod, ResourceDefinition
from greenroom.components.mcp_methods import McpResourceMark
from greenroom.components.uri_templates import UriTemplate, normal_uri, uri_problem


def address_problems(
    method: EndpointMethod, mark: McpResourceMark
) -> tuple[list[str], UriTemplate | None]:
    parameters = method.handler.parameters
    if bool(mark.uri) == bool(mark.uri_template):
        which = "both uri= and uri_template=" if mark.uri else "neither uri= nor uri_template="
        return [f" has {which}; give one of them"], None
    if mark.uri:
        problem = uri_problem(mark.uri)
        problems = [f": the uri {mark.uri!r} {problem}"] if problem else []
        if parameters:
            problems.append(
                f" takes {', '.join(one.name for one in parameters)}, but its uri has nothing to "
                "give; use uri_template="
            )
        return problems, None
    text = mark.uri_template or ""
    template, wrong = UriTemplate.read(text)
    problems = [f": the uri_template {text!r} {wrong}"] if wrong else []
    not_text = [one.name for one in parameters if union_members(one.type) != (str,)]
    problems += [f": {one} must be of type str, as what stands in a URI" for one in not_text]
    if template is not None:
        known = {one.name for one in parameters}
        problems += [
            f": {{{one}}} in its uri_template is no parameter"
            for one in template.names
            if one not in known
        ]
        problems += [
            f": {one.name} is not in its uri_template"
            for one in parameters
            if one.name not in template.names
        ]
    return problems, template


def same_address(
    mark: McpResourceMark, template: UriTemplate | None, other: ResourceDefinition
) -> Iterator[str]:
    if template is None:
        if mark.uri and other.uri and normal_uri(mark.uri) == normal_uri(other.uri):
            yield f": the uri {mark.uri!r} is also that of {other.method.target}"
    elif other.template is not None and template.shape == other.template.shape:
        yield (
            f": the uri_template {template.text!r} matches the same as {other.template.text!r} of "
            f"{other.method.target}"
        )
