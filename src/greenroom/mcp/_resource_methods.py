"""`resources/*`, and telling those who listen about changes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.errors import InvalidArgumentsError
from greenroom.mcp._answering import NO_CACHING
from greenroom.mcp._changes import Subscription, read_filter
from greenroom.mcp._content import resource_contents
from greenroom.mcp._mcp_request import McpRequest, no_resource, text_of
from greenroom.mcp._results import dump
from greenroom.mcp._wire import INVALID_REQUEST, SUBSCRIPTION_KEY, WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.components import McpContext, ResourceDefinition, ResourceLink
    from greenroom.mcp._answering import Answering
    from greenroom.mcp._offers import Resources


class ResourceMethods:
    """Lists and reads the resources of an endpoint."""

    def __init__(self, resources: Resources, answering: Answering) -> None:
        self._resources = resources
        self._answering = answering

    async def subscribe(self, request: McpRequest) -> bytes:
        """Nothing: without sessions there is nobody to tell. Clients of 2026-07-28 can listen."""
        text_of(request, "uri")
        return b"{}"

    async def list(self, request: McpRequest) -> bytes:
        """One page of the resources: static ones, and instances of templates as they are now."""
        instances = self._resources.instances
        if not instances:
            return self._answering.listed(request, self._resources.static)
        found: list[list[ResourceLink]] = []
        for method in instances:
            links = method.handler.reply_adapter.validate_python
            context = self._answering.context(request, {})
            found.append(await self._answering.run(request, method, (), context, links))
        return self._answering.listed(request, self._resources.with_instances(found), NO_CACHING)

    async def list_templates(self, request: McpRequest) -> bytes:
        """One page of the resource templates."""
        return self._answering.listed(request, self._resources.templates)

    async def read(self, request: McpRequest) -> bytes:
        """What a resource holds."""
        uri = text_of(request, "uri")
        found = self._resources.find(uri)
        if found is None:
            raise no_resource(request, uri, f"Resource not found: {uri}")
        return await self._answering.asking(request, partial(self._read, request, uri, *found))

    async def _read(
        self,
        request: McpRequest,
        uri: str,
        resource: ResourceDefinition,
        variables: Mapping[str, str],
        context: McpContext,
    ) -> bytes:
        try:
            values = resource.values(variables)
        except InvalidArgumentsError as error:
            raise no_resource(request, uri, f"Resource not found: {uri}") from error

        def show(value: Any) -> bytes:
            return dump([resource_contents(one) for one in resource.show(value, uri)])

        contents = await self._answering.run(request, resource.method, values, context, show)
        members = b'"contents":' + contents
        if request.revision.modern:
            members += NO_CACHING
        return self._answering.writer(request).result(members)

    async def listen(self, request: McpRequest) -> bytes:
        """Tell the client about changes until it leaves, or the server stops."""
        lists, uris = read_filter(request.params, lists=bool(self._resources.instances))
        if request.outlet is None or request.id is None:
            raise WireError(INVALID_REQUEST, "To listen, accept text/event-stream")
        ended = asyncio.get_running_loop().create_future()
        subscription = Subscription(request.id, request.outlet, ended, lists, uris)
        kept: dict[str, Any] = {}
        if lists:
            kept["resourcesListChanged"] = True
        if uris:
            kept["resourceSubscriptions"] = sorted(uris)
        subscription.tell("notifications/subscriptions/acknowledged", {"notifications": kept})
        self._answering.changes.add(subscription)
        try:
            await ended
        finally:
            self._answering.changes.remove(subscription)
        return self._answering.modern.result(b"", {SUBSCRIPTION_KEY: request.id})
