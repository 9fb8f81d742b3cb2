"""The same protection for FastAPI routes as for MCP endpoints, as dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
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
    Surroundings,
    security_problems,
)
from greenroom.edge import request_context as context_of
from greenroom.errors import ConfigurationError, DefinitionError

if TYPE_CHECKING:
    from fastapi import FastAPI

_POLICY_VIOLATION: Final = 1008
_PRINCIPAL: Final = "greenroom.principal"
"""In the scope of a request: who makes it, as found by what looked first."""


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
        known = connection.scope.get(_PRINCIPAL)
        try:
            principal = await guard.admit(connection.scope, known)
        except RefusedError as error:
            refuse(connection, error.refusal, guard)
        connection.scope[_PRINCIPAL] = principal
        # Until the middleware that binds the correlation id takes it back.
        current_request.set(context_of(connection.scope, principal))
        return principal


class TokenShown(SecurityBase):
    """A dependency that does nothing but tell OpenAPI that a route takes bearer tokens."""

    def __init__(self) -> None:
        self.model = HTTPBearer(bearerFormat="JWT")
        self.scheme_name = "bearer"

    async def __call__(self) -> None:
        """The route's guard looks at the token."""


class SecuredByToken(Secured, SecurityBase):
    """The same, known to OpenAPI as something that takes bearer tokens."""

    def __init__(self, security: Security) -> None:
        super().__init__(security)
        self.model = HTTPBearer(bearerFormat="JWT")
        self.scheme_name = "bearer"


def secured(
    *,
    acl: Acl | None = None,
    jwt: Jwt | None = None,
    scopes: Set[str] = frozenset(),
    rate_limit: RateLimit | None = None,
) -> Secured:
    """Protect FastAPI routes: for `Depends`, on a router, on a route, or as a parameter.

    It gives the `Principal`, on whose behalf the route's calls of components are made.
    Several of them hold together, in their order: one on a router may ask for a token, one on a
    route for a scope of it. WebSockets are closed with 1008.

    Args:
        acl: Who may call.
        jwt: Which bearer tokens are required and believed.
        scopes: What the token must permit.
        rate_limit: How often one principal may call.

    Example:
        >>> from fastapi import APIRouter, Depends
        >>> router = APIRouter(dependencies=[Depends(secured(acl=Acl.allow_internet()))])
    """
    security = Security(acl, jwt, rate_limit, scopes=scopes)
    return Secured(security) if jwt is None else SecuredByToken(security)


async def request_context(connection: HTTPConnection) -> RequestContext:
    """The request, for `Depends`: principal, headers, correlation id, trace.

    Example:
        >>> @router.get("/me")                                            # doctest: +SKIP
        ... def me(context: Annotated[RequestContext, Depends(request_context)]) -> str: ...
    """
    return current_request.get() or context_of(connection.scope, ANONYMOUS)


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
        refusal = self._hosts.refusal_of(connection.scope["headers"])
        if refusal is not None:
            refuse(connection, refusal)


def refuse(connection: HTTPConnection, refusal: Refusal, guard: Guard | None = None) -> NoReturn:
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
