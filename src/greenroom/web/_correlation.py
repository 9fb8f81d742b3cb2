"""The id that ties a request to its log lines: taken from the caller, or made; and sent back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from greenroom.components import current_request
from greenroom.edge import target_of
from greenroom.logs import acceptable_correlation_id, correlation_id, new_correlation_id
from greenroom.web._problems import problem_response

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_HEADER: Final = b"x-correlation-id"


class CorrelationMiddleware:
    """Binds `X-Correlation-Id` for as long as a request is worked on.

    Bare ASGI: Starlette's `BaseHTTPMiddleware` starts a task per request, which costs more than
    a whole MCP call.
    """

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Run the application with the id bound."""
        if scope["type"] != "http":
            with _nobody_asking():
                await self._app(scope, receive, send)
            return
        reference = _given(scope["headers"]) or new_correlation_id()
        line = (_HEADER, reference.encode())

        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), line]
            await send(message)

        token = correlation_id.set(reference)
        try:
            with _nobody_asking():
                await self._app(scope, receive, send_with_id)
        except Exception as error:
            # Answered here, where the id is known; then everybody outside hears of it as ever.
            if not started and not _is_answered_elsewhere(scope.get("app")):
                response = problem_response(error, target=target_of(scope))
                await response(scope, receive, send_with_id)
            raise
        finally:
            correlation_id.reset(token)


class _nobody_asking:  # noqa: N801 - used as a block, and quicker than a generator
    """Nobody is known to ask at the start; and what was found out ends with the request."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = current_request.set(None)

    def __exit__(self, *_: object) -> None:
        current_request.reset(self._before)


def _is_answered_elsewhere(app: Any) -> bool:
    """Whether the application shows unexpected errors in a way of its own."""
    handlers = getattr(app, "exception_handlers", {})
    return bool(getattr(app, "debug", False)) or Exception in handlers or 500 in handlers


def _given(headers: list[tuple[bytes, bytes]]) -> str | None:
    for name, value in headers:
        if name == _HEADER:
            text = value.decode("latin-1").strip()
            return text if acceptable_correlation_id(text) else None
    return None
