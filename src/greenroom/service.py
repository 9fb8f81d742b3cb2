"""A service: components, the doors to them, and how they are run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from greenroom.clock import SystemClock
from greenroom.components import (
    McpEndpointDefinition,
    endpoint_info,
    read_all,
    read_endpoint,
)
from greenroom.edge import (
    METADATA_PATH,
    Audit,
    AuditLog,
    Guard,
    HostCheck,
    Surroundings,
    ToolCaller,
    endpoint_problems,
    security_problems,
    settings_problems,
)
from greenroom.errors import ConfigurationError, DefinitionError
from greenroom.mcp import McpEndpoint, ResourceMetadata
from greenroom.runtime import Runtime, reading
from greenroom.settings import Settings, load_settings
from greenroom.version import package_version
from greenroom.web import (
    RESERVED_PATHS,
    add_greenroom,
    is_router,
    new_app,
    paths_of,
    securities_of,
)

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from greenroom.clock import Clock
    from greenroom.edge import AuditSink, Fetch
    from greenroom.runtime import (
        AsyncComponentClient,
        ComponentClient,
        DependencyProvider,
        StoredReader,
    )


class Service:
    """Components with the endpoints that expose them, on one database.

    Args:
        name: What the service is called, in its API's title and in logs.
        components: The component classes.
        endpoints: Classes decorated with `@mcp_endpoint`, and FastAPI routers.
        dependencies: What constructors of components are given, by type, or a provider.
        settings: How it runs; read from the environment by default.
        clock: What time it is; for tests.
        version: Of the application: in its API's description, and what its MCP endpoints say
            unless they name their own. By default it says which greenroom it runs on.
        audit: What keeps a record of tool calls; by default the logger `greenroom.audit`.

    Raises:
        DefinitionError: Components or endpoints are written wrongly; lists every breach of all.
        ConfigurationError: A setting is wrong, or nobody provides a dependency.

    Example:
        >>> service = Service("shop", components=[ShoppingCart])      # doctest: +SKIP
        >>> app = service.app        # for uvicorn; or: greenroom run shop:service
        >>> with service.running() as client:                         # doctest: +SKIP
        ...     client.for_event_sourced_entity(ShoppingCart, "c-1").ask(ShoppingCart.get_cart)
    """

    def __init__(  # noqa: PLR0913 - each is given by name
        self,
        name: str,
        *,
        components: Sequence[type] = (),
        endpoints: Sequence[type | APIRouter] = (),
        dependencies: Mapping[type[Any], object] | DependencyProvider | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        version: str | None = None,
        audit: AuditSink | None = None,
    ) -> None:
        self.name = name
        self.version = f"greenroom {package_version()}" if version is None else version
        self.settings = settings or load_settings()
        self._around = Surroundings(name, self.settings, clock or SystemClock())
        self._audit = audit or AuditLog()
        self._parts: dict[str, Any] = {
            "components": components,
            "endpoints": endpoints,
            "dependencies": dependencies,
            "version": version,
            "audit": audit,
        }
        self._routers: list[Any] = [one for one in endpoints if is_router(one)]
        self._mcp_endpoints = _define(components, endpoints, self.settings)
        self.runtime = Runtime(
            components, settings=self.settings, clock=clock, dependencies=dependencies
        )

    @property
    def client(self) -> ComponentClient:
        """Calls components from threads, while the service runs."""
        return self.runtime.client

    @property
    def async_client(self) -> AsyncComponentClient:
        """Calls components from coroutines, while the service runs."""
        return self.runtime.async_client

    @cached_property
    def app(self) -> FastAPI:
        """The service as a FastAPI application; add routes to it as you like.

        Its start-up starts the runtime, so a server must run its lifespan. To mount greenroom
        into an application of your own, use `install` instead: a mounted application's
        lifespan never runs.
        """
        app = new_app(self.name, self.version)
        self.install(app)
        return app

    def install(self, app: FastAPI) -> None:
        """Put the service into an application of your own, before that starts to serve.

        Adds the endpoints, `/health/live` and `/health/ready`, problem responses for errors of
        greenroom, a correlation id per request, and the runtime to the application's lifespan.
        """
        add_greenroom(
            app,
            self.runtime,
            self._around,
            endpoints=self._mounted_endpoints(),
            routers=self._routers,
        )

    @contextmanager
    def running(self) -> Iterator[ComponentClient]:
        """Run the components without a web server: for scripts and tests.

        Example:
            >>> with service.running() as client:                     # doctest: +SKIP
            ...     client.for_key_value_entity(Profile, "ada").ask(Profile.get)
        """
        self.runtime.start()
        try:
            yield self.client
        finally:
            self.runtime.stop()

    def service_token(self, audience: str) -> str:
        """What proves this service's name to another one, good for a call within a minute.

        Send it in the header `Greenroom-Service-Token`.

        Args:
            audience: The name of the service that is called.

        Raises:
            ConfigurationError: `GREENROOM_SERVICE_SECRET` is not set.
        """
        tokens = self._around.service_tokens()
        if tokens is None:
            raise ConfigurationError(
                "Services prove their names with a secret that they share; set "
                "GREENROOM_SERVICE_SECRET in both."
            )
        return tokens.issue(audience)

    @property
    def mcp_paths(self) -> list[str]:
        """Where the service answers to MCP clients."""
        return [endpoint.path for endpoint in self._mcp_endpoints]

    @property
    def open_mcp_paths(self) -> list[str]:
        """Those of them that answer to whoever reaches the service."""
        return [
            one.path
            for one in self._mcp_endpoints
            if one.security is None or (one.security.acl is None and one.security.jwt is None)
        ]

    @contextmanager
    def reading(self) -> Iterator[StoredReader]:
        """Read what is stored, without running anything: beside a running service, or alone.

        Raises:
            SchemaError: The database is not at this version's migration.
            PersistenceError: The database can't be opened.
        """
        with reading(self.runtime) as reader:
            yield reader

    def with_settings(
        self, settings: Settings, *, clock: Clock | None = None, fetch: Fetch | None = None
    ) -> Service:
        """The same service with other settings, not started: for tests and tools.

        Args:
            settings: How it runs.
            clock: What time it is.
            fetch: Gets the JSON at an address: the keys of those who give out tokens.
        """
        changed = Service(self.name, settings=settings, clock=clock, **self._parts)
        changed._around = replace(changed._around, fetch=fetch)
        return changed

    def _mounted_endpoints(self) -> Iterator[tuple[str, McpEndpoint | ResourceMetadata]]:
        hosts = HostCheck(self.settings.allowed_hosts, self.settings.allowed_origins)
        for definition in self._mcp_endpoints:
            known = definition
            if not definition.server_version:
                known = replace(definition, server_version=self.version)
            security, tools = definition.security, definition.tools
            audit = self._audit_of(definition)
            guard = None
            if security is not None:
                guard = Guard(
                    security, self._around, path=definition.path, tools=tools, audit=audit
                )
            authorize = None if security is None else security.authorize
            caller = ToolCaller(self.runtime, authorize=authorize, audit=audit)
            endpoint = McpEndpoint(
                known,
                caller,
                hosts,
                max_body_bytes=self.settings.max_body_bytes,
                guard=guard,
            )
            yield definition.path, endpoint
            if guard is not None and security is not None and security.jwt is not None:
                described = ResourceMetadata(guard, hosts)
                yield METADATA_PATH + definition.path, described
                if definition.cls is self._only_one_with_tokens:
                    # Many clients look there first, or there alone.
                    yield METADATA_PATH, described

    @property
    def _only_one_with_tokens(self) -> type | None:
        with_tokens = [one.cls for one in self._mcp_endpoints if one.security and one.security.jwt]
        return with_tokens[0] if len(with_tokens) == 1 else None

    def _audit_of(self, definition: McpEndpointDefinition) -> Audit | None:
        wanted = self.settings.audit
        if wanted == "off" or (wanted == "secured" and definition.security is None):
            return None
        return Audit(
            self._audit, definition.path, self._around.clock, shown=self.settings.audit_values
        )

    def __repr__(self) -> str:
        return f"<Service {self.name!r}: {', '.join(self.runtime.definitions) or 'no components'}>"


def _define(
    components: Sequence[type], endpoints: Sequence[type | APIRouter], settings: Settings
) -> list[McpEndpointDefinition]:
    """Everything that is read from endpoint classes, once components and endpoints are right."""
    read = read_all(components)
    problems = read.problems
    defined: list[McpEndpointDefinition] = []
    problems = [*problems, *settings_problems(settings)]
    for endpoint in endpoints:
        if is_router(endpoint):
            for where, security in securities_of(endpoint):
                problems += security_problems(where, security, settings)
            continue
        found, wrong = read_endpoint(endpoint, read.definitions, read.broken)
        problems += wrong
        if found is not None:
            problems += endpoint_problems(found, settings)
            defined.append(found)
    problems += _path_problems(endpoints)
    if problems:
        raise DefinitionError(problems)
    return defined


def _path_problems(endpoints: Sequence[type | APIRouter]) -> Iterator[str]:
    taken = dict.fromkeys(RESERVED_PATHS, "greenroom")
    for router in filter(is_router, endpoints):
        taken |= dict.fromkeys(paths_of(router), "a router")
    for endpoint in endpoints:
        info = endpoint_info(endpoint)
        if info is None:
            continue
        name = getattr(endpoint, "__name__", repr(endpoint))
        if info.path in taken:
            yield (
                f"{name}: the path {info.path!r} is already taken by {taken[info.path]}; "
                "give @mcp_endpoint(path=...) another"
            )
        taken.setdefault(info.path, name)
