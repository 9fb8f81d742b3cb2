"""A service: components, the doors to them, and how they are run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from greenroom.clock import SystemClock
from greenroom.components import (
    McpEndpointDefinition,
    endpoint_info,
    read_all,
    read_endpoint,
)
from greenroom.edge import (
    CONTEXTS,
    METADATA_PATH,
    Audit,
    AuditLog,
    Guard,
    HostCheck,
    MethodRunner,
    Surroundings,
    ToolCaller,
    door_problems,
    endpoint_problems,
    security_problems,
    settings_problems,
)
from greenroom.errors import ConfigurationError, DefinitionError
from greenroom.mcp import McpEndpoint, ResourceMetadata, StateSeal
from greenroom.runtime import (
    AsyncComponentClient,
    ComponentClient,
    Runtime,
    reading,
    resolve_constructor,
)
from greenroom.settings import Settings, load_settings
from greenroom.version import package_version
from greenroom.web import (
    RESERVED_PATHS,
    add_greenroom,
    is_router,
    new_app,
    paths_of,
    securities_of,
    tool_router,
)

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from greenroom.clock import Clock
    from greenroom.edge import AuditSink, Fetch
    from greenroom.runtime import DependencyProvider, StoredReader


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
        self._runners = self._method_runners(dependencies)
        self._hosts = HostCheck(self.settings.allowed_hosts, self.settings.allowed_origins)
        self._callers = [
            ToolCaller(
                self.runtime,
                runner,
                max_result_bytes=self.settings.max_result_bytes,
                authorize=None if one.security is None else one.security.authorize,
                audit=self._audit_of(one),
            )
            for one, runner in zip(self._mcp_endpoints, self._runners, strict=True)
        ]

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
            endpoints=[*((one.path, one) for one in self.mcp_servers), *self._described()],
            routers=self._routers,
            tool_routers=self._tool_routers(),
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

    def _method_runners(
        self, dependencies: Mapping[type[Any], object] | DependencyProvider | None
    ) -> list[MethodRunner]:
        """For each MCP endpoint, what makes its objects; nobody has to be asked later."""
        given: dict[type[Any], object] = {
            ComponentClient: self.client,
            AsyncComponentClient: self.async_client,
        }
        threads = ThreadPoolExecutor(self.settings.tool_threads, "greenroom-tool")
        runners = []
        for one in self._mcp_endpoints:
            wanted = one.methods.constructor
            lasting = {name: kind for name, kind in wanted.items() if kind not in CONTEXTS}
            found = resolve_constructor(one.cls.__name__, lasting, dependencies, given)
            timeout = self.settings.tool_timeout.total_seconds()
            runners.append(MethodRunner(wanted, found, threads, timeout))
        return runners

    @cached_property
    def mcp_servers(self) -> list[McpEndpoint]:
        """What answers to MCP clients, one for each endpoint, in their order."""
        seal = StateSeal(lambda: self.runtime.secret)
        return [
            McpEndpoint(
                definition
                if definition.server_version
                else replace(definition, server_version=self.version),
                caller,
                self._hosts,
                max_body_bytes=self.settings.max_body_bytes,
                runner=runner,
                seal=seal,
                guard=guard,
            )
            for definition, caller, runner, guard in zip(
                self._mcp_endpoints, self._callers, self._runners, self._guards, strict=True
            )
        ]

    def _tool_routers(self) -> list[APIRouter]:
        return [
            tool_router(
                definition.tools,
                caller,
                self._hosts,
                path=definition.path,
                max_body_bytes=self.settings.max_body_bytes,
                guard=guard,
            )
            for definition, caller, guard in zip(
                self._mcp_endpoints, self._callers, self._guards, strict=True
            )
            if definition.http
        ]

    @cached_property
    def _guards(self) -> list[Guard | None]:
        """Who stands at the door of each MCP endpoint, where something is asked there."""
        return [
            None
            if one.security is None
            else Guard(
                one.security,
                self._around,
                path=one.path,
                tools=one.tools,
                audit=self._audit_of(one),
            )
            for one in self._mcp_endpoints
        ]

    def _described(self) -> Iterator[tuple[str, ResourceMetadata]]:
        """Where OAuth clients learn about the endpoints that take tokens."""
        with_tokens = [
            (one.path, guard)
            for one, guard in zip(self._mcp_endpoints, self._guards, strict=True)
            if guard is not None and one.security is not None and one.security.jwt is not None
        ]
        for path, guard in with_tokens:
            yield METADATA_PATH + path, ResourceMetadata(guard, self._hosts)
        if len(with_tokens) == 1:
            # Many clients look there first, or there alone.
            yield METADATA_PATH, ResourceMetadata(with_tokens[0][1], self._hosts)

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
    problems = [*read.problems, *settings_problems(settings)]
    defined: list[McpEndpointDefinition] = []
    for endpoint in endpoints:
        if is_router(endpoint):
            for where, security in securities_of(endpoint):
                problems += security_problems(where, security, settings)
            continue
        found, wrong = read_endpoint(cast("type[Any]", endpoint), read.definitions, read.broken)
        problems += wrong
        info = endpoint_info(endpoint)
        if found is None and info is not None:
            problems += door_problems(cast("type[Any]", endpoint), info.security, settings)
        elif found is not None:
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
