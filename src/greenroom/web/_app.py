"""A FastAPI application with greenroom in it: its own, or one that exists already."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import Route
from typing_extensions import TypeIs

from greenroom.web._correlation import CorrelationMiddleware
from greenroom.web._dependencies import keep_runtime
from greenroom.web._health import health_router
from greenroom.web._problems import add_problem_handlers
from greenroom.web._security import Doors, keep_doors
from greenroom.web._steering import STEERING_PATHS, steering_router

if TYPE_CHECKING:
    from greenroom.edge import Surroundings
    from greenroom.runtime import Runtime

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


RESERVED_PATHS = ("/health/live", "/health/ready", *STEERING_PATHS)
"""Paths that every service has."""


def is_router(candidate: object) -> TypeIs[APIRouter]:
    """Whether this is a FastAPI router, and not a class of endpoints."""
    return isinstance(candidate, APIRouter)


def paths_of(router: Any) -> list[str]:
    """The paths of a router's routes, as far as it names them itself."""
    paths = (getattr(route, "path", None) for route in router.routes)
    return [path for path in paths if isinstance(path, str)]


def new_app(name: str, version: str) -> FastAPI:
    """An application with nothing in it yet, named after the service."""
    return FastAPI(title=name, version=version)


def add_greenroom(
    app: FastAPI,
    runtime: Runtime,
    around: Surroundings,
    *,
    endpoints: Iterable[tuple[str, AsgiApp]] = (),
    routers: Iterable[APIRouter] = (),
    tool_routers: Iterable[APIRouter] = (),
) -> None:
    """Put a service into an application, before that starts to serve.

    The application's own start-up runs once the runtime is started, and its shutdown before
    the runtime stops, so both can use the client. A mounted sub-application would never get a
    start-up; that is why this goes into the application itself.
    """
    keep_runtime(app, runtime)
    doors = Doors(around)
    keep_doors(app, doors)
    add_problem_handlers(app)
    app.add_middleware(CorrelationMiddleware)
    app.router.lifespan_context = _with_runtime(app.router.lifespan_context, runtime)
    app.include_router(health_router(runtime))
    app.include_router(steering_router(runtime))
    for router in routers:
        app.include_router(
            router,
            dependencies=[Depends(doors.check_host)],
            max_body_size=around.settings.max_body_bytes,
        )
    for router in tool_routers:
        app.include_router(router)
    for path, endpoint in endpoints:
        _hang_in(app, path, endpoint)


def _hang_in(app: FastAPI, path: str, endpoint: AsgiApp) -> None:
    # First, since every request to another route costs a failed match here (1 µs), but one to
    # this costs one per route that comes before it.
    app.router.routes.insert(0, Route(path, endpoint, include_in_schema=False))
    if path != "/":
        # A client that was given "/mcp/" is answered there: many lose their body or their
        # headers on the redirect that the router would send.
        app.router.routes.insert(1, Route(f"{path}/", endpoint, include_in_schema=False))


def _with_runtime(inner: Lifespan, runtime: Runtime) -> Lifespan:
    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Mapping[str, Any] | None]:
        if runtime.is_running:
            # Whoever started it (`service.running()`, a test kit) stops it, too.
            async with inner(app) as state:
                yield state
            return
        await runtime.start_async()
        try:
            async with inner(app) as state:
                yield state
        finally:
            await runtime.stop_async()

    return lifespan
