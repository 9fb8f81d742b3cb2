"""The same protection for FastAPI routes as for MCP endpoints, as dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from starlette.exceptions import WebSocketException
from starlette.requests import HTTPConnection

from greenroom.components import (
    ANONYMOUS,
    Acl,
    Jwt,
    Principal,
    RateLimit,
    RequestContext,
    Security,
    current_request,
)
from greenroom.edge import (
    Guard,
    HostCheck,
    Refusal,
    RefusedError,
    RequestHeaders,
    Surroundings,
    security_problems,
    traceparent_of,
)
from greenroom.errors import ConfigurationError, DefinitionError
from greenroom.logs import correlation_id

if TYPE_CHECKING:
    from fastapi import FastAPI

_POLICY_VIOLATION = 1008


class Secured:
    """A dependency that lets in whom its `Security` allows, and says who it was."""

    def __init__(self, security: Security) -> None:
        self.security = security

    async def __call__(self, connection: HTTPConnection) -> Principal:
        """The principal of a request.

        Raises:
            RefusedError: It may not come in; answered as a problem.
        """
        guard = _doors_of(connection).guard(self)
        try:
            principal = await guard.admit(connection.scope)
        except RefusedError as error:
            refuse(connection, error.refusal, guard)
        connection.state.greenroom_principal = principal
        current_request.set(_context(connection))
        return principal


def secured(
    *, acl: Acl | None = None, jwt: Jwt | None = None, rate_limit: RateLimit | None = None
) -> Secured:
    """Protect FastAPI routes: for `Depends`, on a router, on a route, or as a parameter.

    It gives the `Principal`, on whose behalf the route's calls of components are made.
    Several of them hold together. WebSockets are closed with 1008.

    Args:
        acl: Who may call.
        jwt: Which bearer tokens are required and believed.
        rate_limit: How often one principal may call.

    Example:
        >>> from fastapi import APIRouter, Depends
        >>> router = APIRouter(dependencies=[Depends(secured(acl=Acl.allow_internet()))])
    """
    return Secured(Security(acl, jwt, rate_limit))


async def request_context(connection: HTTPConnection) -> RequestContext:
    """The request, for `Depends`: principal, headers, correlation id, trace.

    Example:
        >>> @router.get("/me")                                            # doctest: +SKIP
        ... def me(context: Annotated[RequestContext, Depends(request_context)]) -> str: ...
    """
    return current_request.get() or _context(connection)


def _context(connection: HTTPConnection) -> RequestContext:
    headers = RequestHeaders(dict(connection.scope["headers"]))
    return RequestContext(
        getattr(connection.state, "greenroom_principal", ANONYMOUS),
        headers,
        correlation_id.get() or "",
        traceparent_of(headers.get("traceparent")),
    )


class Doors:
    """The guards of an application's routes, and whether a request comes from where it says."""

    def __init__(self, around: Surroundings) -> None:
        settings = around.settings
        self._around = around
        self._hosts = HostCheck(settings.allowed_hosts, settings.allowed_origins)
        self._guards: dict[Secured, Guard] = {}

    def guard(self, secured: Secured) -> Guard:
        """The guard of a dependency, made when it is first needed.

        Raises:
            DefinitionError: It asks for what can't be; for routers of a service that is told at
                start.
        """
        found = self._guards.get(secured)
        if found is None:
            problems = list(
                security_problems("secured(...)", secured.security, self._around.settings)
            )
            if problems:
                raise DefinitionError(problems)
            found = self._guards[secured] = Guard(secured.security, self._around)
        return found

    async def check_host(self, connection: HTTPConnection) -> None:
        """For `Depends`: refuses names that the service doesn't answer to."""
        headers = connection.headers
        host, origin = headers.get("host"), headers.get("origin")
        refusal = self._hosts.refusal(
            None if host is None else host.encode("latin-1"),
            None if origin is None else origin.encode("latin-1"),
        )
        if refusal is not None:
            refuse(connection, refusal)


def refuse(connection: HTTPConnection, refusal: Refusal, guard: Guard | None = None) -> Any:
    """Raises what ends the request: a problem with the refusal's headers, or a closed socket."""
    if connection.scope["type"] == "websocket":
        raise WebSocketException(_POLICY_VIOLATION, refusal.text[:100])
    headers = refusal.headers if guard is None else guard.headers(refusal, connection.scope)
    told = Refusal(refusal.status, refusal.code, refusal.text, headers=headers)
    raise RefusedError(told) from None


def keep_doors(app: FastAPI, doors: Doors) -> None:
    """Remember the doors where dependencies of the application find them."""
    app.state.greenroom_doors = doors


def _doors_of(connection: HTTPConnection) -> Doors:
    doors = getattr(connection.app.state, "greenroom_doors", None)
    if doors is None:
        raise ConfigurationError(
            "secured(...) needs a greenroom service; use service.app, or service.install(app)."
        )
    return cast("Doors", doors)


def securities_of(router: Any) -> Iterator[tuple[str, Security]]:
    """What the routes of a router ask of callers, each once, with where it is said."""
    seen: set[Secured] = set()
    for route in router.routes:
        where = f"router {getattr(route, 'path', None) or router.prefix!r}"
        for one in _dependencies(getattr(route, "dependant", None)):
            if one not in seen:
                seen.add(one)
                yield f"{where}: secured", one.security
    for one in router.dependencies:
        if isinstance(one.dependency, Secured) and one.dependency not in seen:
            seen.add(one.dependency)
            yield f"router {router.prefix!r}: secured", one.dependency.security


def _dependencies(dependant: Any) -> Iterator[Secured]:
    if dependant is None:
        return
    if isinstance(dependant.call, Secured):
        yield dependant.call
    for inner in dependant.dependencies:
        yield from _dependencies(inner)
