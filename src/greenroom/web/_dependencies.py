"""The component client for ordinary FastAPI routes.

Example:
    >>> @app.get("/carts/{cart_id}")                                      # doctest: +SKIP
    ... def cart(cart_id: str, client: Annotated[ComponentClient, Depends(component_client)]):
    ...     return client.for_event_sourced_entity(Cart, cart_id).ask(Cart.get)
"""

from __future__ import annotations

from typing import cast

from fastapi import FastAPI
from starlette.requests import HTTPConnection

from greenroom.errors import ConfigurationError
from greenroom.runtime import AsyncComponentClient, ComponentClient, Runtime


def keep_runtime(app: FastAPI, runtime: Runtime) -> None:
    """Remember the runtime where routes of the application find it."""
    if getattr(app.state, "greenroom", None) is not None:
        raise ConfigurationError(
            "This application has a greenroom service already; install one service, with all "
            "components."
        )
    app.state.greenroom = runtime


def component_client(connection: HTTPConnection) -> ComponentClient:
    """For `Depends` in routes written with `def`, which run in threads.

    In an `async def` route its calls raise `BlockingCallError`; take the asynchronous one there.
    """
    return _runtime_of(connection).client


async def async_component_client(connection: HTTPConnection) -> AsyncComponentClient:
    """For `Depends` in routes written with `async def`."""
    return _runtime_of(connection).async_client


def _runtime_of(connection: HTTPConnection) -> Runtime:
    runtime = getattr(connection.app.state, "greenroom", None)
    if runtime is None:
        raise ConfigurationError(
            "This application has no greenroom service; use service.app, or service.install(app)."
        )
    return cast("Runtime", runtime)
